"""How far a start has come, from what its log says. PURE."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from deployments.engines.stage import Stage

LONGEST_REST = 2_000
"""Characters of a line that has not ended yet."""


@dataclass(frozen=True)
class Reached:
    """The stage at which a start is, and how much of it is done where it says so."""

    words: str
    done: int | None = None
    total: int | None = None

    def __str__(self) -> str:
        return self.words if self.total is None else f"{self.words}, {self.done} of {self.total}"


@dataclass
class Progress:
    """Takes the log of one start as it comes; ``reached`` is the stage that it named last."""

    stages: Sequence[Stage]
    reached: Reached | None = None
    _rest: str = field(default="", repr=False)

    def read(self, text: str) -> None:
        """Take the next piece of the log."""
        whole = self._rest + text
        end = max(whole.rfind("\n"), whole.rfind("\r")) + 1
        self._rest = whole[end:][-LONGEST_REST:]
        found = [(whole.rfind(text, 0, end), stage) for stage in self.stages for text in stage.texts]
        named = [_reached(stage, whole[at : _line_end(whole, at)]) for at, stage in sorted(found, key=_at) if at >= 0]
        if not named:
            return
        # Another rank begins with a stage of which the first has long counted some.
        same = [each for each in (self.reached, *named) if each is not None and each.words == named[-1].words]
        self.reached = next((each for each in reversed(same) if each.total is not None), named[-1])


@dataclass
class Phases:
    """How long a start was at each stage, by the clock of whoever reads its log as it grows."""

    begun: dict[str, float] = field(default_factory=dict)
    """When each stage was first named, in seconds."""

    def saw(self, reached: Reached | None, *, at: float) -> None:
        """Where the start is ``at`` this second."""
        if reached is not None:
            self.begun.setdefault(reached.words, at)

    def lengths(self, *, end: float) -> list[tuple[str, float]]:
        """The stages in their order with the seconds of each, without those that passed at once."""
        edges = [*self.begun.items(), ("", end)]
        took = [(words, round(until - since, 1)) for (words, since), (_, until) in pairwise(edges)]
        return [(words, seconds) for words, seconds in took if seconds > 0]


def _at(found: tuple[int, Stage]) -> int:
    return found[0]


def _line_end(text: str, at: int) -> int:
    found = re.compile(r"[\r\n]").search(text, at)
    return found.start() if found else len(text)


def _reached(stage: Stage, line: str) -> Reached:
    found = stage.count.search(line) if stage.count else None
    if found is None:
        return Reached(stage.words)
    done, total = int(found["done"]), int(found["total"])
    return Reached(stage.words, min(done, total), total) if total else Reached(stage.words)
