"""The memory of a host's cards over time, as its page draws it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db.models import Q

from hosts.history.keeping import read_block
from hosts.history.thinning import BUCKETS, STEPS, Buckets, Range, block_start, step_for, widen
from hosts.models import Gpu, Host, MemoryBlock

MOST_POINTS = 1500
"""Of a line; a screen has no more columns."""
SPANS = ("minutes", "day", "all")
"""How far back a page looks, by their name in its address."""
DAY = 24 * 3600
LAG_SECONDS = 180
"""The last minutes are in the finest blocks only."""


@dataclass(frozen=True)
class Window:
    """From when to when, in whole seconds."""

    since: int
    until: int


def spans() -> dict[str, tuple[str, int]]:
    """Each in words and in seconds; the longest is as long as anything is kept."""
    days = settings.MEMORY_KEPT_SECONDS[STEPS[-1]] // DAY
    lengths = (("15 minutes", 15 * 60), ("24 hours", DAY), (f"{days} day{'' if days == 1 else 's'}", days * DAY))
    return dict(zip(SPANS, lengths, strict=True))


def memory(host: Host, window: Window, *, now: int) -> dict[str, Any]:
    """A value for each step of the window and each card, None where nothing was read. MiB and seconds.

    ``least`` is there where it is another than ``most`` somewhere.
    """
    kept = _kept_step(window, now)
    step = max(kept, step_for(window.until - window.since, MOST_POINTS))
    first = window.since - window.since % step
    found = _read(host, window, kept, step)
    times = range(first, window.until + 1, step)
    cards = host.gpus.filter(present=True)
    return {
        "start": first,
        "step": step,
        "points": len(times),
        "cards": [_line(card, [found.get(card.uuid, {}).get(at) for at in times]) for card in cards],
    }


def _kept_step(window: Window, now: int) -> int:
    """The finest step that is kept for as long as that ago."""
    return next((step for step in STEPS if now - settings.MEMORY_KEPT_SECONDS[step] <= window.since), STEPS[-1])


def _read(host: Host, window: Window, kept: int, step: int) -> dict[str, Buckets]:
    """All that is stored of the window, in buckets of ``step`` by uuid.

    A container's cards are its node's, which is asked instead where the panel reads it.
    """
    found: dict[str, Buckets] = {}
    first = block_start(window.since, kept)
    fine = block_start(max(window.since, window.until - LAG_SECONDS), STEPS[0])
    of_these = Q(step=kept, start__gte=first) | Q(step=STEPS[0], start__gte=fine)
    rows = MemoryBlock.objects.filter(of_these, host__in=[host, host.machine], start__lte=window.until)
    for row in rows.iterator(chunk_size=BUCKETS):
        for uuid, buckets in read_block(row).cards.items():
            for at, values in buckets.items():
                widen(found.setdefault(uuid, {}), at - at % step, values)
    return found


def _line(card: Gpu, values: list[Range | None]) -> dict[str, Any]:
    line: dict[str, Any] = {"uuid": card.uuid, "label": f"GPU {card.index}", "total": card.total_mib}
    line["most"] = [value and value[1] for value in values]
    if any(value is not None and value[0] != value[1] for value in values):
        line["least"] = [value and value[0] for value in values]
    return line
