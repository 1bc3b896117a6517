"""Reads a job's log as its viewer needs it: some pieces before or after a place, and where a text is said.

Always by key: a log of a million lines costs as much as one of a hundred.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from controlpanel.live.protocol import LARGEST_BATCH
from deployments.loglines import saying
from deployments.models import Job, LogChunk

MOST_CHUNKS = 1000
"""Of one answer: a quiet log has one line a chunk."""
MOST_MATCHES = 10_000
SEARCH_SECONDS = 2.0


@dataclass(frozen=True)
class Piece:
    """Some chunks of a log in order, and whether there are others before and after them."""

    chunks: list[LogChunk]
    older: bool
    newer: bool


@dataclass(frozen=True)
class Matches:
    """Lines that say a text, as (chunk, number in it), in order. ``more``: there may be others before these."""

    lines: list[tuple[int, int]]
    more: bool


def item(chunk: LogChunk) -> dict[str, Any]:
    """A chunk as pages get it."""
    return {
        "seq": chunk.seq,
        "source": chunk.source,
        "step": chunk.step,
        "at": chunk.at.isoformat(),
        "line": chunk.line,
        "lines": chunk.lines,
        "text": chunk.text,
        "dropped": chunk.dropped,
    }


def fill(rows: QuerySet[LogChunk], *, size: int, most: int) -> tuple[list[LogChunk], bool]:
    """The first rows, about ``size`` bytes and at most ``most`` of them, but at least one; and whether more follow."""
    chunks: list[LogChunk] = []
    # A few large chunks are enough: read no more of them than that.
    for chunk in rows.iterator(chunk_size=16):
        size -= len(chunk.text.encode(errors="replace"))
        if chunks and (size < 0 or len(chunks) == most):
            return chunks, True
        chunks.append(chunk)
    return chunks, False


def end(job: Job, *, step: str = "") -> Piece:
    """The end of a log."""
    chunks, older = _back(_chunks(job, step), LARGEST_BATCH)
    return Piece(chunks, older, newer=False)


def before(job: Job, seq: int, *, step: str = "") -> Piece:
    """What stands before a chunk."""
    chunks, older = _back(_chunks(job, step).filter(seq__lt=seq), LARGEST_BATCH)
    return Piece(chunks, older, newer=True)


def after(job: Job, seq: int, *, step: str = "") -> Piece:
    """What follows a chunk."""
    chunks, newer = _on(_chunks(job, step).filter(seq__gt=seq), LARGEST_BATCH)
    return Piece(chunks, older=True, newer=newer)


def around(job: Job, seq: int, *, step: str = "") -> Piece:
    """A chunk with what stands before and after it."""
    rows = _chunks(job, step)
    earlier, older = _back(rows.filter(seq__lt=seq), LARGEST_BATCH // 2)
    later, newer = _on(rows.filter(seq__gte=seq), LARGEST_BATCH)
    return Piece([*earlier, *later], older, newer)


def chunk_of_line(job: Job, line: int) -> int:
    """The chunk in which a line begins: the nearest one when there is no such line, 0 for an empty log."""
    rows = LogChunk.objects.filter(job=job, line__lte=max(1, line)).order_by("-line", "-seq")
    return rows.values_list("seq", flat=True).first() or 0


def tail_begins_after(job: Job) -> int:
    """The chunk after which the end of a log begins, for a stream that shows the end first."""
    chunks, older = _back(_chunks(job, ""), LARGEST_BATCH)
    return chunks[0].seq - 1 if older else 0


def find(job: Job, text: str, *, step: str = "", clock: Callable[[], float] = time.monotonic) -> Matches:
    """The newest lines that say ``text``, whatever the case of its letters; in bounded time."""
    needle, until = text.lower(), clock() + SEARCH_SECONDS
    found: list[tuple[int, int]] = []
    rows = _chunks(job, step).order_by("-seq").values_list("seq", "text")
    for seq, said in rows.iterator(chunk_size=64):
        found += [(seq, number) for number in reversed(saying(said, needle))]
        if len(found) > MOST_MATCHES or clock() > until:
            return Matches(found[:MOST_MATCHES][::-1], more=True)
    return Matches(found[::-1], more=False)


def _chunks(job: Job, step: str) -> QuerySet[LogChunk]:
    rows = LogChunk.objects.filter(job=job)
    return rows.filter(step=step) if step else rows


def _on(rows: QuerySet[LogChunk], size: int) -> tuple[list[LogChunk], bool]:
    return fill(rows.order_by("seq"), size=size, most=MOST_CHUNKS)


def _back(rows: QuerySet[LogChunk], size: int) -> tuple[list[LogChunk], bool]:
    chunks, more = fill(rows.order_by("-seq"), size=size, most=MOST_CHUNKS)
    return chunks[::-1], more
