"""How far a start has come, from what its log says. PURE."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from deployments.engines.stage import Stage

LONGEST_REST = 2_000
"""Characters of a line that has not ended yet."""
RANK = re.compile(r"(?<![A-Za-z])[DPTE]P\d{1,4}(?: [DPTE]P\d{1,4})*")
"""Who of several processes says a line: ``TP1`` in SGLang's prefix, in vLLM's ``(Worker_TP1 pid=71)``."""


@dataclass(frozen=True)
class Reached:
    """The stage at which a start is, and how much of it is done where it says so."""

    words: str
    done: int | None = None
    total: int | None = None
    behind: str = ""
    """What was said last, where that is an earlier stage: by which rank, if it says so, and which stage."""

    def __str__(self) -> str:
        text = self.words if self.total is None else f"{self.words}, {self.done} of {self.total}"
        return f"{text} (meanwhile {self.behind})" if self.behind else text


@dataclass
class Progress:
    """Takes the log of one start as it comes; ``reached`` is the furthest of its stages that was named.

    It never goes back: what comes late is said by another rank, or of the next model of the same start, as a draft.
    """

    stages: Sequence[Stage]
    reached: Reached | None = None
    _rest: str = field(default="", repr=False)

    def read(self, text: str) -> None:
        """Take the next piece of the log."""
        whole = self._rest + text
        end = max(whole.rfind("\n"), whole.rfind("\r")) + 1
        self._rest = whole[end:][-LONGEST_REST:]
        found = [(whole.rfind(text, 0, end), stage) for stage in self.stages for text in stage.texts]
        for at, stage in sorted(found, key=_at):
            if at >= 0:
                line = whole[at : _line_end(whole, at)]
                self._name(_reached(stage, line), RANK.search(whole, _line_start(whole, at), at))

    def _name(self, named: Reached, rank: re.Match[str] | None) -> None:
        known = self.reached
        if known is None or self._place(named) > self._place(known):
            self.reached = named
        elif named.words == known.words:
            # Another rank begins with a stage of which the first has long counted some.
            self.reached = named if named.total is not None else replace(known, behind="")
        else:
            who = f"{rank.group()}: " if rank else ""
            self.reached = replace(known, behind=f"{who}{named}")

    def _place(self, reached: Reached) -> int:
        return [stage.words for stage in self.stages].index(reached.words)


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


def _line_start(text: str, at: int) -> int:
    return max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1


def _line_end(text: str, at: int) -> int:
    found = re.compile(r"[\r\n]").search(text, at)
    return found.start() if found else len(text)


def _reached(stage: Stage, line: str) -> Reached:
    found = stage.count.search(line) if stage.count else None
    if found is None:
        return Reached(stage.words)
    done, total = int(found["done"]), int(found["total"])
    return Reached(stage.words, min(done, total), total) if total else Reached(stage.words)
