"""A catalogue of an engine's flags, as it was read from one installation. PURE."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

NAME = re.compile(r"--?[A-Za-z0-9][A-Za-z0-9_.+-]{0,99}", re.ASCII)
TAKES = re.compile(r"[?*+]|\d{1,2}", re.ASCII)
MOST_FLAGS = 3000
LONGEST = 600
Source = Literal["source", "help"]
Value = str | int | float | bool | None


class BadAnswer(ValueError):
    """What the host says is no list of flags; the message says why."""


@dataclass(frozen=True)
class Flag:
    """One argument of an engine. ``takes``: how many values: 0, 1, ?, *, + or a number of them.

    ``type``: str, int, float, json, the name of a function of the engine, or ? for one that is not known; empty where
    a help text does not say it.
    ``choices`` None: any. ``refused``: what the engine says when it is used, and ends.
    """

    names: tuple[str, ...]
    takes: str = "1"
    type: str = "str"
    choices: tuple[str | int | float, ...] | None = None
    default: Value = None
    has_default: bool = False
    help: str = ""
    required: bool = False
    optional: bool = False
    deprecated: bool = False
    instead: str = ""
    refused: str = ""

    @property
    def name(self) -> str:
        """The name people know it by: the first long one."""
        return next((name for name in self.names if name.startswith("--")), self.names[0])

    @property
    def is_positional(self) -> bool:
        return not self.names[0].startswith("-")

    def plain(self) -> dict[str, Any]:
        """As it is stored, and as a host tells it."""
        made: dict[str, Any] = {"names": list(self.names), "takes": self.takes, "type": self.type, "help": self.help}
        if self.choices is not None:
            made["choices"] = list(self.choices)
        if self.has_default:
            made["default"] = self.default
        for name in ("required", "optional", "deprecated", "instead", "refused"):
            if getattr(self, name):
                made[name] = getattr(self, name)
        return made


@dataclass(frozen=True)
class Catalogue:
    """The flags of one installed engine.

    ``source``: read from its source, or from its help text. ``gaps``: what of the source could not be followed; with
    one, a flag that is not here may exist all the same.
    """

    engine: str
    version: str
    interpreter: str
    source: Source
    flags: tuple[Flag, ...]
    gaps: tuple[str, ...] = ()
    stamp: str = ""
    package: str = ""

    @cached_property
    def by_name(self) -> dict[str, Flag]:
        """Every spelling."""
        return {name: flag for flag in self.flags if not flag.is_positional for name in flag.names}

    @cached_property
    def positionals(self) -> tuple[Flag, ...]:
        return tuple(flag for flag in self.flags if flag.is_positional)

    @property
    def count(self) -> int:
        """How many flags it has, whatever the number of their spellings."""
        return len(self.flags) - len(self.positionals)

    @property
    def is_sure(self) -> bool:
        """What is not in it does not exist."""
        return self.source == "source" and not self.gaps


def flags_from(told: object) -> tuple[Flag, ...]:
    """The flags that a host tells, or that were stored. Raises BadAnswer for what no engine has."""
    if not isinstance(told, list) or len(told) > MOST_FLAGS:
        raise BadAnswer("it is no list of flags, or far too long")
    flags = tuple(_flag(one) for one in told)
    if not any(not flag.is_positional for flag in flags):
        raise BadAnswer("it names no flag")
    return flags


def _flag(told: object) -> Flag:
    if not isinstance(told, Mapping) or not isinstance(told.get("names"), list) or not told["names"]:
        raise BadAnswer("a flag has no name")
    names = tuple(name for name in told["names"][:20] if isinstance(name, str))
    positional = not names or not names[0].startswith("-")
    if not names or (not positional and not all(NAME.fullmatch(name) for name in names)):
        raise BadAnswer("a flag has a name that none can have")
    takes = str(told.get("takes", "1"))
    default = told.get("default")
    return Flag(
        names=tuple(clean(name, 100) for name in names),
        takes=takes if TAKES.fullmatch(takes) else "1",
        type=clean(told.get("type"), 60),
        choices=_choices(told.get("choices")),
        default=clean(default, 200) if isinstance(default, str) else default if _is_plain(default) else None,
        has_default="default" in told and _is_plain(default),
        help=clean(told.get("help"), LONGEST),
        required=told.get("required") is True,
        optional=told.get("optional") is True,
        deprecated=told.get("deprecated") is True,
        instead=clean(told.get("instead"), 200),
        refused=clean(told.get("refused"), LONGEST),
    )


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int | float | bool | None)


def _choices(told: object) -> tuple[str | int | float, ...] | None:
    if not isinstance(told, list) or not told or len(told) > 400:
        return None
    if not all(isinstance(one, str | int | float) and not isinstance(one, bool) for one in told):
        return None
    return tuple(clean(one, 200) if isinstance(one, str) else one for one in told)


def clean(text: object, longest: int) -> str:
    """A text of the host in one line, without what a terminal or a page could take for more than text."""
    words = "".join(letter if letter.isprintable() else " " for letter in text) if isinstance(text, str) else ""
    return " ".join(words.split())[:longest]


def catalogue_from(engine: str, told: Mapping[str, Any]) -> Catalogue:
    """The catalogue that the reader tells. Raises BadAnswer."""
    gaps = told.get("gaps", [])
    return Catalogue(
        engine=engine,
        version=clean(told.get("version"), 40),
        interpreter=clean(told.get("interpreter"), 300),
        source="source",
        flags=flags_from(told.get("arguments")),
        gaps=tuple(clean(gap, 100) for gap in gaps[:20]) if isinstance(gaps, Sequence) else ("?",),
        stamp=clean(told.get("stamp"), 64),
        package=clean(told.get("package"), 300),
    )
