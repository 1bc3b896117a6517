"""Which streams a page can follow: a name's first word -> who reads it. Each app registers its own when it is
ready.

A stream `job:42:log` has the prefix `job` and the key `42:log`.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from django.contrib.auth.models import User

from controlpanel.live.protocol import MOST_ITEMS, Cursor, encode


@dataclass(frozen=True)
class Batch:
    """What came after a cursor: at most 200 items and about 64 KiB, which the reader keeps to; `more` asks to
    be read again.

    Nothing new means no items and the same cursor. A last-value stream gives a state and its version as the
    cursor.
    """

    items: list[dict[str, Any]] = field(default_factory=list)
    cursor: Cursor = None
    more: bool = False

    def __post_init__(self) -> None:
        if len(self.items) > MOST_ITEMS:
            raise ValueError(f"a batch holds at most {MOST_ITEMS} items")

    @cached_property
    def encoded(self) -> str:
        """The items as text, made once: of a shared stream many pages are sent the same."""
        return encode(self.items)


class StreamReader(Protocol):
    """Reads the streams of one prefix. A class attribute `shared = True` says that the rows are the same for everybody
    who may follow; then pages at the same cursor share one read.
    """

    def authorise(self, user: User, key: str) -> bool:
        """Whether `user` may follow `key`; False too when it does not exist."""

    def read(self, key: str, cursor: Cursor, user: User) -> Batch:
        """Return the rows after `cursor` (None: from the beginning, or the present state). May use the
        database.
        """


_readers: dict[str, StreamReader] = {}


def register(prefix: str, reader: StreamReader) -> None:
    """Let `reader` serve all streams of `prefix`."""
    if _readers.setdefault(prefix, reader) is not reader:
        raise ValueError(f"the streams {prefix!r} have a reader already")


def unregister(prefix: str) -> None:
    """Take a reader away again; for tests."""
    _readers.pop(prefix, None)


def find(stream: str) -> tuple[StreamReader | None, str]:
    """Return the reader of a stream (None when nobody reads it) and the key within it."""
    prefix, _, key = stream.partition(":")
    return _readers.get(prefix), key
