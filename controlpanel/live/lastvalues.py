"""Which of many things have another last value than a page has seen. Pure: values in, keys out.

What changed is told a pass at a time, in the order of the keys: all that has changed since the pass before, so that
things that change all the time do not keep others back. A page's place is ``RUN:SEEN`` between two passes and
``RUN:SEEN:BEGUN:KEY`` within one; ``RUN`` is another in each process, and a place of another process begins anew.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from controlpanel.live.protocol import MOST_ITEMS, Cursor

_PLACE = re.compile(r"([0-9a-f]{16}):([0-9]{1,18})(?::([0-9]{1,18}):([0-9]{1,18}))?", re.ASCII)


@dataclass(frozen=True)
class Told:
    """What to tell a page next, and the place that it has reached then; ``more`` asks to be read again."""

    keys: list[int]
    cursor: Cursor
    more: bool = False


@dataclass(frozen=True)
class _Place:
    seen: int = 0
    """All up to this number was told."""
    begun: int | None = None
    """The number at which the present pass began."""
    key: int = -1
    """The last that was told in it."""


class LastValues:
    """Numbers what this process sees; not for two threads at once. Keys are not negative."""

    def __init__(self) -> None:
        self._run = secrets.token_hex(8)
        self._number = 0
        self._values: dict[int, tuple[Hashable, int]] = {}

    def see(self, values: Mapping[int, Hashable]) -> None:
        """Take what all of them are now; what is missing is not there any more, and nobody is told."""
        number, known = self._number + 1, self._values
        self._values = {
            key: known[key] if key in known and known[key][0] == value else (value, number)
            for key, value in values.items()
        }
        if any(since == number for _, since in self._values.values()):
            self._number = number

    def after(self, cursor: Cursor, *, most: int = MOST_ITEMS) -> Told:
        """At most so many keys whose values are others than at ``cursor``; the same cursor when there are none."""
        place = self._place(cursor)
        begun = self._number if place.begun is None else place.begun
        changed = sorted(key for key, (_, since) in self._values.items() if since > place.seen and key > place.key)
        if len(changed) > most:
            keys = changed[:most]
            return Told(keys, f"{self._run}:{place.seen}:{begun}:{keys[-1]}", more=True)
        if not changed and place.begun is None:
            return Told([], cursor)
        return Told(changed, f"{self._run}:{begun}", more=begun < self._number)

    def _place(self, cursor: Cursor) -> _Place:
        found = _PLACE.fullmatch(str(cursor))
        if found is None or found[1] != self._run:
            return _Place()
        seen, begun, key = (int(word) if word else None for word in found.groups()[1:])
        assert seen is not None
        return _Place(seen) if begun is None or key is None else _Place(seen, begun, key)
