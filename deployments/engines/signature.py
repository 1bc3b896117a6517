"""Texts in a log that tell why a start failed, and what each is worth. PURE."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class Worth(StrEnum):
    """What a line says about the end of a server."""

    CAUSE = "cause"
    """It ends a start. The earliest one is why."""
    VAGUE = "vague"
    """Something gives up because of something else: why only when nothing better stands anywhere in the log."""
    HARMLESS = "harmless"
    """A warning, or the mistake of one request: never why a start failed."""


@dataclass(frozen=True)
class Signature:
    """``texts``: one of them stands in the line, exactly so. ``pattern``: then this must be found there too.

    ``cause`` is a sentence, in which the pattern's named groups may stand in braces.
    """

    texts: tuple[str, ...]
    cause: str
    fix: str
    pattern: re.Pattern[str] | None = None
    about_memory: bool = False
    worth: Worth = Worth.CAUSE

    def match(self, line: str) -> dict[str, str] | None:
        """The named values of ``line``, which may be none; None when this is another line."""
        if not any(text in line for text in self.texts):
            return None
        if self.pattern is None:
            return {}
        found = self.pattern.search(line)
        return None if found is None else {name: (value or "").strip() for name, value in found.groupdict().items()}


def cause(*texts: str, says: str, fix: str, pattern: str = "", about_memory: bool = False) -> Signature:
    """What ends a start."""
    return Signature(texts, says, fix, re.compile(pattern) if pattern else None, about_memory)


def vague(*texts: str, says: str, fix: str, pattern: str = "") -> Signature:
    """What gives up because of something else."""
    return Signature(texts, says, fix, re.compile(pattern) if pattern else None, worth=Worth.VAGUE)


def harmless(*texts: str, says: str, fix: str, pattern: str = "") -> Signature:
    """What looks like a failure and is none."""
    return Signature(texts, says, fix, re.compile(pattern) if pattern else None, worth=Worth.HARMLESS)
