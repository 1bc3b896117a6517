"""Numbers out of somebody else's JSON: a field that is missing or odd is named, never replaced. PURE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deployments.fit.span import CannotTell

LARGEST = 1 << 40


@dataclass(frozen=True)
class Fields:
    """The fields of one JSON object. ``where``: the file's name, for the words."""

    values: Mapping[str, object]
    where: str

    def integer(self, *names: str) -> int:
        """The first of ``names`` that is there. Raises CannotTell, naming the first, when none is."""
        found = self.optional(*names)
        if found is None:
            raise CannotTell(f"{self.where} does not say {names[0]}.")
        return found

    def optional(self, *names: str) -> int | None:
        """The first of ``names`` that is there and not null. Raises CannotTell for what is not a count."""
        for name in names:
            value = self.values.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < LARGEST:
                raise CannotTell(f"In {self.where}, {name} is not a number to count with.")
            return value
        return None

    def text(self, *names: str) -> str:
        """The first of ``names`` that is a text; empty when none is."""
        return next((value for name in names if isinstance(value := self.values.get(name), str)), "")

    def inner(self, name: str) -> Fields:
        """The object in a field; without any fields when there is none."""
        value = self.values.get(name)
        return Fields(value if isinstance(value, Mapping) else {}, f"{name} of {self.where}")

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of words; empty when there is none."""
        value = self.values.get(name)
        return tuple(map(str, value)) if isinstance(value, list) else ()
