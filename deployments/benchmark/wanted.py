"""What a benchmark asks a server: how many requests at once, and how many tokens of each. PURE."""

from __future__ import annotations

import re
from dataclasses import dataclass

USUAL_AT_ONCE = (1, 8, 32)
USUAL_TOKENS = 128
MOST_AT_ONCE = 256
MOST_LEVELS = 8
FEWEST_TOKENS, MOST_TOKENS = 8, 8192
FEWEST_REQUESTS = 3
ROUNDS = 2
"""So often each place of a level is filled: a later round does not begin all at the same moment."""


@dataclass(frozen=True)
class Wanted:
    """``at_once``: levels of concurrency, each measured by itself. ``tokens``: of each answer."""

    at_once: tuple[int, ...] = USUAL_AT_ONCE
    tokens: int = USUAL_TOKENS

    @property
    def requests(self) -> int:
        """All that are sent, the one before the measuring included."""
        return 1 + sum(map(requests_at, self.at_once))


def requests_at(at_once: int) -> int:
    """How many requests a level sends."""
    return max(FEWEST_REQUESTS, ROUNDS * at_once)


def levels_from(text: str) -> tuple[int, ...]:
    """``1, 8, 32`` as levels in rising order, each once. Raises ValueError with what to write."""
    words = re.split(r"[\s,;]+", text.strip(" \t\r\n,;"))
    if not all(re.fullmatch(r"[0-9]{1,4}", word) for word in words):
        raise ValueError("Write whole numbers with commas between them, for example 1, 8, 32.")
    levels = tuple(sorted({int(word) for word in words}))
    if not levels[0] >= 1 or levels[-1] > MOST_AT_ONCE:
        raise ValueError(f"Each must be from 1 to {MOST_AT_ONCE}.")
    if len(levels) > MOST_LEVELS:
        raise ValueError(f"Write at most {MOST_LEVELS} numbers.")
    return levels


def prompt(run: str, number: int) -> str:
    """One of a kind from its beginning, so that no cache of an earlier request knows it; small models take it too."""
    return f"{run}-{number}: Tell me a long story."
