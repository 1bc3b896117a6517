"""Readings of memory, thinned as they grow old so that no peak is lost. PURE.

A *bucket* is one step of time (1, 10 or 60 s) and holds the least and the most that was read in it, so the peak of a
second is still there when only the minute is. A *block* is sixty buckets of all cards of a host, and what is stored.
Memory in MiB, times in whole seconds since 1970. A bucket in which nothing could be read is not there: a gap is a gap.
"""

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

STEPS = (1, 10, 60)
"""Seconds of a bucket, finest first; each is a multiple of the one before."""
BUCKETS = 60
"""Of a block."""

Range = tuple[int, int]
"""The least and the most, in MiB."""
Buckets = dict[int, Range]
"""By the second in which they begin."""


class Unreadable(ValueError):
    """What is stored is not a block."""


@dataclass
class Block:
    """``start`` is a multiple of the block's length."""

    step: int
    start: int
    cards: dict[str, Buckets] = field(default_factory=dict)
    """By uuid."""

    def add(self, uuid: str, at: int, found: Range) -> None:
        """Widen the bucket in which ``at`` lies by what was found; adding the same again changes nothing.

        Raises ValueError for a time outside of the block.
        """
        if block_start(at, self.step) != self.start:
            raise ValueError(f"{at} is not in the block of {self.start}.")
        widen(self.cards.setdefault(uuid, {}), at - at % self.step, found)

    def absorb(self, finer: "Block") -> None:
        """Take in a finer block that lies within this one."""
        for uuid, buckets in finer.cards.items():
            for at, found in buckets.items():
                self.add(uuid, at, found)


def block_start(at: int, step: int) -> int:
    """Where the block of this step begins in which the second ``at`` lies."""
    return at - at % (step * BUCKETS)


def widen(buckets: Buckets, at: int, found: Range) -> None:
    """Take a further range into the bucket that begins at ``at``."""
    known = buckets.get(at, found)
    buckets[at] = (min(known[0], found[0]), max(known[1], found[1]))


def thin(buckets: Mapping[int, Range], step: int) -> Buckets:
    """The same in coarser steps of this many seconds."""
    coarse: Buckets = {}
    for at, found in buckets.items():
        widen(coarse, at - at % step, found)
    return coarse


def step_for(seconds: int, most: int) -> int:
    """The shortest step of whole, round seconds with which so long a time has at most ``most`` buckets and one more."""
    for step in (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200):
        if seconds <= step * most:
            return step
    return 86400


def pack(block: Block) -> bytes:
    """The block as it is stored: small where little changes, which is most of the time."""
    cards = {uuid: [_cell(buckets.get(at)) for at in _times(block)] for uuid, buckets in block.cards.items()}
    return zlib.compress(json.dumps(cards, separators=(",", ":")).encode(), 1)


def unpack(step: int, start: int, stored: bytes) -> Block:
    """The block again. Raises Unreadable."""
    try:
        cards = json.loads(zlib.decompress(stored))
        block = Block(step, start)
        block.cards = {str(uuid): dict(_read(zip(_times(block), cells, strict=True))) for uuid, cells in cards.items()}
    except (ValueError, TypeError, AttributeError, zlib.error) as error:
        raise Unreadable(f"The block of {start} cannot be read: {error}.") from error
    return block


def _times(block: Block) -> range:
    return range(block.start, block.start + block.step * BUCKETS, block.step)


def _cell(found: Range | None) -> int | list[int] | None:
    if found is None or found[0] == found[1]:
        return found and found[0]
    return [*found]


def _read(cells: Iterable[tuple[int, object]]) -> Iterator[tuple[int, Range]]:
    for at, cell in cells:
        if isinstance(cell, int):
            yield at, (cell, cell)
        elif isinstance(cell, list):
            least, most = cell
            yield at, (int(least), int(most))
        elif cell is not None:
            raise ValueError("not a bucket")
