"""Which flag each word of a command means to the engine, as the engine itself would take it. PURE.

Facts: Python's ``argparse`` (abbreviations, ``--flag=value``, negative numbers), vLLM's parser on top of it
(``vllm/utils/argparse_utils.py``: underscores, ``--json.key value``, ``-O3``), and llama.cpp's own
(``common/arg.cpp``: whole names only, the value is the next word whatever it is).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from deployments.catalogue.model import Catalogue, Flag

NUMBER = re.compile(r"-\d+|-\d*\.\d+")


@dataclass(frozen=True)
class Given:
    """One flag as it was written. ``values``: as many as it took. ``too_few``: it wants more."""

    written: str
    flag: Flag
    values: tuple[str, ...] = ()
    name: str = ""
    """The full spelling that it stands for."""
    too_few: bool = False
    surplus: str | None = None
    """A value behind an equals sign where the flag takes none."""
    at: tuple[int, int] = (0, 0)
    """Its first word, and the one behind its last."""

    @property
    def is_short_for(self) -> bool:
        return self.name != self.written


@dataclass(frozen=True)
class Ambiguous:
    """A beginning that several flags share."""

    written: str
    names: tuple[str, ...]


@dataclass
class Words:
    """What a command says to the engine."""

    given: list[Given] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    ambiguous: list[Ambiguous] = field(default_factory=list)
    stray: list[str] = field(default_factory=list)


def match(args: Sequence[str], catalogue: Catalogue, *, positionals: int = 0) -> Words:
    """Read the engine's words. ``positionals``: how many words without a flag the engine takes."""
    return _Matcher(catalogue, positionals).read(list(args))


class _Matcher:
    def __init__(self, catalogue: Catalogue, positionals: int) -> None:
        self._catalogue = catalogue
        self._names = catalogue.by_name
        self._left = positionals
        self._abbreviates = catalogue.engine != "llama_server"
        self._words = Words()

    def read(self, args: list[str]) -> Words:
        """Go through the words from left to right."""
        position = 0
        while position < len(args):
            written, value, found = self._find(args[position])
            position += 1
            if found is None:
                self._plain(args[position - 1])
            elif isinstance(found, Ambiguous):
                self._words.ambiguous.append(found)
                position = self._skip(args, position, value)
            elif not found:
                self._words.unknown.append(written)
                position = self._skip(args, position, value)
            else:
                position = self._take(written, found, value, args, position)
        return self._words

    def _plain(self, word: str) -> None:
        if self._left > 0:
            self._left -= 1
        else:
            self._words.stray.append(word)

    def _skip(self, args: list[str], position: int, value: str | None) -> int:
        """Past the value of a flag that is not known: its next word, if that is none."""
        has_value = value is None and position < len(args) and self._is_value(args[position])
        return position + 1 if has_value else position

    def _find(self, word: str) -> tuple[str, str | None, str | Ambiguous | None]:
        """(as written, value behind =, full name or "" for unknown or None for no flag)."""
        if not word.startswith("-") or len(word) == 1 or word == "--":
            return word, None, None
        word = self._normal(word)
        if word in self._names:
            return word, None, word
        name, equals, value = word.partition("=")
        given = value if equals else None
        if equals and name in self._names and self._abbreviates:
            return name, given, name
        candidates = self._beginning_with(name) if self._abbreviates else []
        if len(candidates) == 1:
            return name, given, candidates[0]
        if candidates:
            return name, given, Ambiguous(name, tuple(candidates))
        if NUMBER.fullmatch(word) or " " in word:
            return word, None, None
        return name if self._abbreviates else word, given, ""

    def _normal(self, word: str) -> str:
        """The spelling that the engine makes of it before it looks."""
        engine = self._catalogue.engine
        if engine == "vllm" and re.match(r"-O=?\d", word):
            return f"--optimization-level={word[-1]}"
        if engine == "sglang" or not word.startswith("--"):
            return word
        name, equals, value = word.partition("=")
        name = name.replace("_", "-") if engine == "llama_server" else _dashes(name)
        top = name.partition(".")[0].rstrip("+")
        if engine == "vllm" and "." in name and top in self._names:
            name = top
        return name + equals + value

    def _beginning_with(self, name: str) -> list[str]:
        """The names that a beginning can mean, one for each flag (``argparse``: ``_get_option_tuples``)."""
        if name.startswith("--"):
            return [full for full in self._names if full.startswith(name)]
        short = name[:2] if len(name) > 2 else ""
        return [full for full in self._names if full.startswith(name) or (short and full == short)]

    def _is_value(self, word: str) -> bool:
        return (
            self._find(word)[2] is None
            if self._abbreviates
            else not word.startswith("-") or bool(NUMBER.fullmatch(word))
        )

    def _take(self, written: str, name: str | Ambiguous, value: str | None, args: list[str], position: int) -> int:
        assert isinstance(name, str)
        flag = self._names[name]
        if value is None and written not in self._names and name == written[:2] and not written.startswith("--"):
            value = written[2:]  # -n4
        dotted = self._catalogue.engine == "vllm" and "." in args[position - 1].partition("=")[0]
        if flag.takes == "0" or value is not None:
            kept = () if value is None or flag.takes == "0" or dotted else (value,)
            surplus = value if flag.takes == "0" else None
            self._words.given.append(Given(written, flag, kept, name, surplus=surplus, at=(position - 1, position)))
            return position
        first = position - 1
        values, position = self._values(flag, args, position)
        least = 1 if flag.takes in ("1", "+") else 0 if flag.takes in ("?", "*") else int(flag.takes)
        too_few = len(values) < least
        own = () if dotted else tuple(values)
        self._words.given.append(Given(written, flag, own, name, too_few=too_few, at=(first, position)))
        return position

    def _values(self, flag: Flag, args: list[str], position: int) -> tuple[list[str], int]:
        most = {"1": 1, "?": 1, "*": len(args), "+": len(args)}.get(flag.takes) or int(flag.takes)
        values: list[str] = []
        while position < len(args) and len(values) < most:
            # llama.cpp takes the next word as it is.
            if self._abbreviates and not self._is_value(args[position]):
                break
            values.append(args[position])
            position += 1
        return values, position


def _dashes(name: str) -> str:
    top, dot, rest = name.partition(".")
    return top.replace("_", "-") + dot + rest
