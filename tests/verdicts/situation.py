"""What a row of the table is: a situation, where it can be, and what is true of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.verdicts.scene import Scene

SSH, PCT, LOCAL = "ssh", "pct", "local"
ALL = (SSH, PCT, LOCAL)
FREE, NOT_FREE, UNMEASURED = "free", "not free", "could not measure"
STOPPED, ASKS, REFUSED, NO_CONTACT = "stopped", "asks", "refused", "no contact"


@dataclass(frozen=True)
class Outcome:
    """What the job came to, in the words of the table, and every sentence that it said of it."""

    verdict: str
    text: str


Act = Callable[["Scene"], Outcome]


@dataclass(frozen=True)
class Situation:
    """``expect``: what must come of it; ``says``: a pattern for its reason, where the reason matters.

    ``slots``: the deployment's cards; ``harmless``: a pattern for what the lab finds on them and a *free* may overlook.
    ``sample``: belongs to ``make test``.
    """

    key: str
    title: str
    act: Act
    expect: str
    says: str = ""
    on: tuple[str, ...] = ALL
    slots: tuple[int, ...] = (0,)
    harmless: str = ""
    sample: bool = False
    policy: dict[str, Any] = field(default_factory=dict)

    def wrong(self, outcome: Outcome) -> list[str]:
        """In which way the outcome is not the one that it must be."""
        if outcome.verdict != self.expect:
            return [f"{outcome.verdict} instead of {self.expect}: {outcome.text}"]
        if not re.search(self.says, outcome.text, re.S):
            return [f"does not say {self.says!r}: {outcome.text}"]
        return []


class Table:
    """Collects situations in their order."""

    def __init__(self, **usual: Any) -> None:
        self.rows: list[Situation] = []
        self._usual = usual

    def row(self, title: str, expect: str, says: str = "", **more: Any) -> Callable[[Act], Act]:
        """Put the function below into the table; its name is the row's key."""

        def take(act: Act) -> Act:
            self.add(act.__name__, title, act, expect, says, **more)
            return act

        return take

    def add(self, key: str, title: str, act: Act, expect: str, says: str = "", **more: Any) -> None:
        """A row without a function of its own."""
        assert key not in {row.key for row in self.rows}, f"two rows are called {key}"
        policy = {**self._usual.get("policy", {}), **more.pop("policy", {})}
        values = {**self._usual, **more, "policy": policy}
        self.rows.append(Situation(key, title, act, expect, says, **values))
