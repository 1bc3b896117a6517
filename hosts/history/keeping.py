"""What the monitor has read of a host's memory, on its way into the database; and what is too old to be kept."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from hosts.history.thinning import STEPS, Block, Unreadable, block_start, pack, thin, unpack
from hosts.models import Host, MemoryBlock
from hosts.probe.facts import HostFacts
from hosts.probe.frames import Unknown
from hosts.readings import HoldLost

logger = logging.getLogger(__name__)

WRITE_SECONDS = 10
"""What is lost when the monitor dies, and how far a curve is behind."""
FINEST, *COARSER = STEPS


class MemoryHistory:
    """Of one host and one thread. Nothing is written of a host that is another monitor's by then.

    The minute that goes on is written every ten seconds; once it is over, the coarser blocks take it in.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._blocks: dict[int, Block] = {}
        self._begun = False
        self._due = 0

    def add(self, facts: HostFacts) -> None:
        """Take in one look, and write what is due. Raises HoldLost when the host is not this monitor's any more."""
        at = int(facts.measured_at.timestamp())
        if not self._begun:
            self._begin(at)
        for uuid, used in _memory(facts):
            self._block(block_start(at, FINEST)).add(uuid, at, (used, used))
        if at >= self._due:
            self.write(at)

    def write(self, at: int) -> None:
        """Write what is not in the database yet; a minute that is over by ``at`` is done with. Raises HoldLost."""
        # Each host at another moment, or all of them write as the minute ends.
        self._due = at - (at + self._host.pk) % WRITE_SECONDS + WRITE_SECONDS
        if not self._blocks:
            return
        over = [block for start, block in self._blocks.items() if start < block_start(at, FINEST)]
        with transaction.atomic():
            if not Host.held(self._host.pk, self._host.monitor_owner).exists():
                raise HoldLost
            _store(self._host, [*self._blocks.values(), *_coarser(self._host, over)])
        for block in over:
            del self._blocks[block.start]

    def _begin(self, at: int) -> None:
        """Go on with the last minute that was written: whoever wrote it may not have come to its end."""
        self._begun = True
        self._due = at + WRITE_SECONDS
        last = self._host.memory_blocks.filter(step=FINEST).order_by("-start").first()
        if last is not None:
            self._blocks[last.start] = read_block(last)

    def _block(self, start: int) -> Block:
        return self._blocks.setdefault(start, Block(FINEST, start))


def _memory(facts: HostFacts) -> Iterable[tuple[str, int]]:
    """What could be read, by uuid. In MiB."""
    if isinstance(facts.gpus, Unknown):
        return []
    return [(gpu.uuid, gpu.memory_used) for gpu in facts.gpus.gpus if isinstance(gpu.memory_used, int)]


def _coarser(host: Host, over: Iterable[Block]) -> list[Block]:
    """The blocks that hold these minutes in longer steps, with them in it."""
    found: dict[tuple[int, int], Block] = {}
    for minute in over:
        for step in COARSER:
            key = step, block_start(minute.start, step)
            if key not in found:
                known = host.memory_blocks.filter(step=key[0], start=key[1]).first()
                found[key] = read_block(known) if known is not None else Block(*key)
            thinned = {uuid: thin(buckets, step) for uuid, buckets in minute.cards.items()}
            found[key].absorb(Block(step, found[key].start, thinned))
    return list(found.values())


def _store(host: Host, blocks: Iterable[Block]) -> None:
    rows = [MemoryBlock(host=host, step=block.step, start=block.start, cards=pack(block)) for block in blocks]
    MemoryBlock.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["host", "step", "start"], update_fields=["cards"]
    )


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
