"""The versions of an engine that a recipe is known to be good with, and whether the installed one is among them. PURE.

Written as people write it: ``0.5.11``, ``0.5.10 or newer`` (also ``>=0.5.10``), ``0.5.10 - 0.5.14``; several by comma.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

NUMBER = r"[vb]?(\d{1,9}(?:\.\d{1,9}){0,5})(?:\.?(?:post|rc|dev|alpha|beta|a|b)\d*|[+-][\w.+-]{1,40})*"
VERSION = re.compile(NUMBER, re.ASCII | re.I)
NEWER = re.compile(rf"(?:>=\s*{NUMBER}|{NUMBER}\s*(?:\+|or newer))", re.ASCII | re.I)
RANGE = re.compile(rf"{NUMBER}\s*(?: - |\.\.|–| to )\s*{NUMBER}", re.ASCII | re.I)
HOW = "Write a version such as 0.5.11, “0.5.10 or newer”, or “0.5.10 - 0.5.14”; several are separated by commas."
PYTHON = re.compile(r"python[\d.]*", re.ASCII)

Number = tuple[int, ...]


@dataclass(frozen=True)
class Stated:
    """From ``low`` to ``high``, both included; no ``high``: and everything newer."""

    low: Number
    high: Number | None

    def holds(self, number: Number) -> bool:
        """0.5.11 holds 0.5.11.1 as well: what is not written is not asked for."""
        if _padded(number) < _padded(self.low):
            return False
        return self.high is None or _padded(number[: len(self.high)]) <= _padded(self.high)


def stated(text: str) -> list[Stated]:
    """What is written. Raises ValueError with a sentence for what cannot be read."""
    found = []
    for piece in filter(None, (piece.strip() for piece in text.split(","))):
        if match := NEWER.fullmatch(piece):
            found.append(Stated(_number(match[1] or match[2]), None))
        elif match := RANGE.fullmatch(piece):
            low, high = _number(match[1]), _number(match[2])
            if _padded(high) < _padded(low):
                raise ValueError(f"“{piece}” ends before it begins. {HOW}")
            found.append(Stated(low, high))
        elif match := VERSION.fullmatch(piece):
            found.append(Stated(_number(match[1]), _number(match[1])))
        else:
            raise ValueError(f"“{piece}” is no version that can be read. {HOW}")
    return found


def is_among(installed: str, text: str) -> bool | None:
    """Is the installed version one of those? None when that cannot be said."""
    match = VERSION.fullmatch(installed.strip())
    try:
        known = stated(text)
    except ValueError:
        return None
    if match is None or not known:
        return None
    return any(one.holds(_number(match[1])) for one in known)


def _number(text: str) -> Number:
    return tuple(map(int, text.split(".")))


def _padded(number: Number) -> Number:
    return (*number, *[0] * (8 - len(number)))


def program_with_version(argv: Sequence[str], package: str) -> str | None:
    """The interpreter or the engine's own command in a command line, which knows the version; None: none is there."""
    for word in argv:
        name = PurePosixPath(word).name
        if PYTHON.fullmatch(name) or name == package:
            return word
    return None
