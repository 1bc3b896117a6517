"""What the monitor has read of a host's memory, on its way into the database; and what is too old to be kept."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.utils import timezone

from hosts.history.thinning import STEPS, Block, Unreadable, block_start, pack, thin, unpack
from hosts.models import Host, MemoryBlock
from hosts.probe.facts import HostFacts
from hosts.probe.frames import Unknown

logger = logging.getLogger(__name__)

WRITE_SECONDS = 10
"""What is lost when the monitor dies, and how far a curve is behind."""
FINEST, *COARSER = STEPS


@dataclass(frozen=True)
class Due:
    """What of a host's memory is to be written now: ``minutes``, of which those in ``over`` are done with."""

    host: Host
    minutes: tuple[Block, ...]
    over: tuple[Block, ...]


class MemoryHistory:
    """Of one host and one thread: the minutes that are not in the database yet, or not in full.

    The minute that goes on is written every ten seconds; once it is over, the coarser blocks take it in.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._blocks: dict[int, Block] = {}
        self._begun = False
        self._due_at = 0

    def add(self, facts: HostFacts) -> Due | None:
        """Take in one look; returns what is to be written, when its time has come."""
        at = int(facts.measured_at.timestamp())
        if not self._begun:
            self._begin(at)
        for uuid, used in _memory(facts):
            start = block_start(at, FINEST)
            self._blocks.setdefault(start, Block(FINEST, start)).add(uuid, at, (used, used))
        return self.due(at) if at >= self._due_at else None

    def due(self, at: int) -> Due | None:
        """All that is to be written by now."""
        # Each host at another moment, or all of them would write as the minute ends.
        self._due_at = at - (at + self._host.pk) % WRITE_SECONDS + WRITE_SECONDS
        minutes = tuple(self._blocks.values())
        over = tuple(block for block in minutes if block.start < block_start(at, FINEST))
        return Due(self._host, minutes, over) if minutes else None

    def written(self, due: Due) -> None:
        """It is in the database."""
        for block in due.over:
            del self._blocks[block.start]

    def _begin(self, at: int) -> None:
        """Go on with the last minute that was written: whoever wrote it may not have come to its end."""
        self._begun = True
        self._due_at = at + WRITE_SECONDS
        last = self._host.memory_blocks.filter(step=FINEST).order_by("-start").first()
        if last is not None:
            self._blocks[last.start] = read_block(last)


def _memory(facts: HostFacts) -> Iterable[tuple[str, int]]:
    """What could be read, by uuid. In MiB."""
    if isinstance(facts.gpus, Unknown):
        return []
    return [(gpu.uuid, gpu.memory_used) for gpu in facts.gpus.gpus if isinstance(gpu.memory_used, int)]


def store(dues: Iterable[Due]) -> None:
    """Write what is due, of many hosts in one statement. The caller makes sure that they are this monitor's."""
    rows = [
        MemoryBlock(host=due.host, step=block.step, start=block.start, cards=pack(block))
        for due in dues
        for block in (*due.minutes, *_coarser(due))
    ]
    MemoryBlock.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["host", "step", "start"], update_fields=["cards"]
    )


def _coarser(due: Due) -> list[Block]:
    """The blocks that hold these minutes in longer steps, with them in it."""
    found: dict[tuple[int, int], Block] = {}
    for minute in due.over:
        for step in COARSER:
            key = step, block_start(minute.start, step)
            if key not in found:
                known = due.host.memory_blocks.filter(step=key[0], start=key[1]).first()
                found[key] = read_block(known) if known is not None else Block(*key)
            thinned = {uuid: thin(buckets, step) for uuid, buckets in minute.cards.items()}
            found[key].absorb(Block(step, found[key].start, thinned))
    return list(found.values())


def read_block(row: MemoryBlock) -> Block:
    """The block of a row; an empty one, and a word in the panel's log, when it cannot be read."""
    try:
        return unpack(row.step, row.start, bytes(row.cards))
    except Unreadable:
        logger.exception("a block of memory readings of host %s is lost", row.host_id)
        return Block(row.step, row.start)


def forget_old(now: datetime | None = None) -> None:
    """Delete the blocks in which everything is older than it is kept for."""
    seconds = int((now or timezone.now()).timestamp())
    for step in STEPS:
        first = block_start(seconds - settings.MEMORY_KEPT_SECONDS[step], step)
        MemoryBlock.objects.filter(step=step, start__lt=first).delete()
