"""Is the server ready? Its own words in this launch's log, its own socket, and a real completion. PURE."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median

MARGIN = 500
"""Characters of the log kept, so that a ready line cut in two pieces is still found."""


AT_FIRST = 1800
"""Seconds, where nobody has chosen a limit and no start has been measured."""
SHORTEST = 120
"""Seconds below which no limit is derived: a question interrupts a person, and costs more than waiting."""
COUNTED = 3
"""So many of the last starts are looked at."""


class Listener(StrEnum):
    """Who listens on the deployment's port."""

    NOBODY = "nobody"
    OURS = "ours"
    OTHER = "other"


@dataclass
class Readiness:
    """Gathers what was seen of one launch. Only the completion is left to try once ``may_be_ready``."""

    patterns: Sequence[re.Pattern[str]]
    listener: Listener = Listener.NOBODY
    _found: set[int] = field(default_factory=set)
    _recent: str = ""

    def read(self, text: str) -> None:
        """Take the next piece of this launch's log."""
        self._recent += text
        for number, pattern in enumerate(self.patterns):
            if number not in self._found and pattern.search(self._recent):
                self._found.add(number)
        self._recent = self._recent[-MARGIN:]

    @property
    def said_ready(self) -> bool:
        """All of the engine's ready lines stand in this launch's log."""
        return len(self._found) == len(self.patterns)

    @property
    def may_be_ready(self) -> bool:
        """Said so itself, and the port is its own. A ready line with somebody else's port is a lie."""
        return self.said_ready and self.listener == Listener.OURS

    @property
    def lied(self) -> bool:
        """It has said that it is ready while another had its port: another server answered its question to itself."""
        return bool(self._found) and self.listener == Listener.OTHER

    @property
    def missing(self) -> str:
        """What is still missing, in words."""
        if self.listener == Listener.OTHER:
            return "another process listens on the port"
        if not self.said_ready:
            return "the log does not say ready yet"
        return "nobody listens on the port yet"


def usual(took: Sequence[float]) -> float | None:
    """What the last starts of a deployment took, newest first, in one number of seconds; None when there were none."""
    return median(took[:COUNTED]) if took else None


def limit(chosen: int | None, took: Sequence[float]) -> int:
    """Seconds after which it is asked whether to wait longer: as chosen, else twice what is usual, else 30 min."""
    if chosen is not None:
        return chosen
    expected = usual(took)
    return AT_FIRST if expected is None else max(SHORTEST, round(2 * expected))
