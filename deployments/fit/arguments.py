"""The flags of a revision that decide about memory, read from its argv. PURE."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deployments.engines.base import Engine
from deployments.fit.span import CannotTell

COUNT = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)([kKmMgG]i?)?", re.ASCII)
SGLANG_UNITS = {"k": 10**3, "K": 10**3, "M": 10**6, "m": 10**6, "Ki": 1 << 10, "ki": 1 << 10, "Mi": 1 << 20}
"""``256k`` and ``256Ki``, from 0.5.10."""
VLLM_UNITS = {"k": 10**3, "K": 1 << 10, "m": 10**6, "M": 1 << 20, "g": 10**9, "G": 1 << 30}


@dataclass(frozen=True)
class Arguments:
    """A revision's argv; of a flag that is given twice the last counts, as it does for the engines."""

    engine: Engine
    argv: Sequence[str]
    units: Mapping[str, int]

    def has(self, *names: str) -> bool:
        """Is one of these switches given?"""
        return any(word.partition("=")[0] in names for word in self.argv)

    def text(self, *names: str) -> str | None:
        """The value given; None when there is none."""
        return self.engine.flag(self.argv, names)

    def count(self, *names: str) -> int | None:
        """A whole number, also written with a unit. Raises CannotTell for anything else."""
        value = self.text(*names)
        if value is None:
            return None
        found = COUNT.fullmatch(value)
        if found is None or (found[2] and found[2] not in self.units):
            raise CannotTell(f"{names[0]} {value} {_wrong(value)}. Correct it in the profile.")
        return int(float(found[1]) * self.units.get(found[2] or "", 1))

    def positive(self, *names: str) -> int | None:
        """As ``count``, but not zero."""
        value = self.count(*names)
        if value == 0:
            raise CannotTell(f"{names[0]} is 0. Correct it in the profile.")
        return value

    def share(self, *names: str) -> float | None:
        """A number above 0 and not above 1."""
        value = self.ratio(*names)
        if value is not None and not 0 < value <= 1:
            raise CannotTell(f"{names[0]} {value:g} is not between 0 and 1. Correct it in the profile.")
        return value

    def ratio(self, *names: str) -> float | None:
        """A number that is not negative."""
        value = self.text(*names)
        if value is None:
            return None
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if not 0 <= number < 1e9:
            raise CannotTell(f"{names[0]} {value} {_wrong(value)}. Correct it in the profile.")
        return number


def _wrong(value: str) -> str:
    """Why it does not count, as the end of a sentence."""
    try:
        return "is less than 0" if float(value) < 0 else "is not a number"
    except ValueError:
        return "is not a number"
