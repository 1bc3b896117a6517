"""Reads streams in threads of their own, once for all pages where the rows are the same for everybody.

One slow query must stall neither the pages nor every socket, so these threads are not the ones that serve pages.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from django.conf import settings
from django.contrib.auth.models import User
from django.db import connections

from controlpanel.live import streams
from controlpanel.live.protocol import Cursor
from controlpanel.live.streams import Batch

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

SHARE_SECONDS = 0.5
MOST_SHARED = 2000  # results; more and the oldest are dropped
UNREADABLE = "cannot be read at the moment"

_threads = ThreadPoolExecutor(max_workers=16, thread_name_prefix="live-read")
_thread_state = threading.local()


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `function`, which may use the database, in a reading thread."""
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_threads, lambda: _with_connection(lambda: function(*args, **kwargs)))


def _with_connection(function: Callable[[], T]) -> T:
    """Call `function` with this thread's connections kept open for a while: opening one costs as much as a read."""
    now = time.monotonic()
    if now > getattr(_thread_state, "close_at", 0.0):
        connections.close_all()
        _thread_state.close_at = now + settings.LIVE_CONNECTION_SECONDS
    try:
        return function()
    except BaseException:
        connections.close_all()  # it may be the connection that is broken
        raise
    finally:
        if not settings.LIVE_CONNECTION_SECONDS:
            connections.close_all()


class SharedReads:
    """What was read a moment ago from streams that are the same for everybody."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._results: dict[tuple[str, Cursor], tuple[float, Batch]] = {}
        self._changed: dict[str, float] = {}

    def forget(self, stream: str) -> None:
        """Take no result from before now: a hint says that the stream has something new."""
        self._changed[stream] = self._clock()

    def read(self, stream: str, cursor: Cursor, *, read: Callable[[], Batch]) -> Batch:
        """Return what `read` gives, or gave less than half a second ago to another page at the same place."""
        with self._lock:
            lock = self._locks.setdefault(stream, threading.Lock())
        with lock:  # of many pages that a hint woke, one reads
            began, batch = self._results.get((stream, cursor), (float("-inf"), None))
            now = self._clock()
            if batch is not None and now - began < SHARE_SECONDS and began > self._changed.get(stream, float("-inf")):
                return batch
            batch = read()
            self._store(stream, cursor, began=now, batch=batch)
        return batch

    def _store(self, stream: str, cursor: Cursor, *, began: float, batch: Batch) -> None:
        with self._lock:
            self._results.pop((stream, cursor), None)
            self._results[(stream, cursor)] = (began, batch)
            while len(self._results) > MOST_SHARED:
                del self._results[next(iter(self._results))]


_shared = SharedReads()
forget_shared = _shared.forget


def is_authorised(user: User, stream: str) -> bool:
    """Whether somebody reads this stream, and `user` may follow it. Uses the database."""
    reader, key = streams.find(stream)
    return reader is not None and reader.authorise(user, key)


def read_all(user: User, places: dict[str, Cursor]) -> dict[str, Batch | str]:
    """Read what follows each place, in this thread; a reader's fault is a sentence, not an end for the others."""
    found: dict[str, Batch | str] = {}
    for stream, cursor in places.items():
        try:
            found[stream] = _read(user, stream, cursor)
        except Exception:  # a fault in one stream must not end the others; it is in the panel's log
            logger.exception("Reading the stream %s failed.", stream)
            connections.close_all()
            found[stream] = UNREADABLE
    return found


def _read(user: User, stream: str, cursor: Cursor) -> Batch:
    reader, key = streams.find(stream)
    if reader is None:
        raise LookupError("nobody reads this stream any more")
    if getattr(reader, "shared", False):
        return _shared.read(stream, cursor, read=lambda: reader.read(key, cursor, user))
    return reader.read(key, cursor, user)
