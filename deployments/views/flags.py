"""Flags of a command line, side by side with another one or with what the engine made of them. PURE."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

NUMBER = re.compile(r"-\d")
SET = "(set)"  # a flag without a value


@dataclass(frozen=True)
class FlagRow:
    """One flag in two places; None means that it is not there."""

    name: str
    left: str | None
    right: str | None

    @property
    def changed(self) -> bool:
        """The two differ, or only one side has it."""
        return self.left != self.right


def flags_of(argv: Sequence[str]) -> dict[str, str]:
    """The flags with their values, in the order of the command; the words before the first are ``command``."""
    found: dict[str, list[str]] = {"command": []}
    name = "command"
    for word in argv:
        if word.startswith("-") and len(word) > 1 and not NUMBER.match(word) and (found["command"] and word != "-m"):
            name, equals, value = word.partition("=")
            found[name] = [value] if equals else []
        else:
            found[name].append(word)
    return {flag: " ".join(values) or SET for flag, values in found.items()}


def side_by_side(left: Mapping[str, str], right: Mapping[str, str]) -> list[FlagRow]:
    """All flags of both, the left one's order first."""
    names: Iterable[str] = dict.fromkeys([*left, *right])
    return [FlagRow(name, left.get(name), right.get(name)) for name in names]


def in_effect(argv: Sequence[str], effective: Mapping[str, object]) -> list[FlagRow]:
    """Each requested flag beside the engine's own word for it, where the engine names it."""
    rows = []
    for name, value in flags_of(argv).items():
        key = name.lstrip("-").replace("-", "_")
        if name == "command" or key not in effective:
            continue
        rows.append(FlagRow(name, value, _told(effective[key], asked=value)))
    return rows


def _told(value: object, *, asked: str) -> str:
    """The engine's value in the words of a command line, so that the same reads the same."""
    if isinstance(value, bool):
        return SET if value else "off"
    text = "none" if value is None else str(value)
    try:
        return asked if float(text) == float(asked) else text
    except ValueError:
        return text
