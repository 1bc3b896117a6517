"""Where lines begin in the pieces of a log, and which of them say a text. PURE.

A piece holds several lines and may end in the middle of one; the next piece of the same source goes on with it. The
browser cuts lines in the same way (static/js/log/lines.js).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
TAB = " " * 8


@dataclass
class LineCount:
    """Counts the lines of a log, piece by piece: ``next`` is the number of the next line that begins."""

    next: int = 1
    open: set[str] = field(default_factory=set)
    """The sources whose last line has not ended."""

    def copy(self) -> LineCount:
        """One that counts on by itself."""
        return LineCount(self.next, set(self.open))

    def take(self, source: str, text: str, *, dropped: int = 0) -> tuple[int, int]:
        """Count a piece in: the number of the first line that begins in it, and how many begin.

        Of bytes that were dropped without a word of it (``dropped``, no text) a line tells.
        """
        first = self.next
        if text:
            begun = len(pieces(text)) - (source in self.open)
            (self.open.discard if text.endswith("\n") else self.open.add)(source)
        else:
            begun = 1 if dropped else 0
            if dropped:
                self.open.discard(source)
        self.next += begun
        return first, begun


def pieces(text: str) -> list[str]:
    """The lines of a piece, or parts of lines at its ends, without what ends them."""
    found = text.replace("\r\n", "\n").split("\n")
    return found[:-1] if not found[-1] else found


def saying(text: str, needle: str) -> list[int]:
    """The numbers, within a piece, of its lines that say ``needle`` as they are shown; ``needle`` in small letters."""
    plain = ESCAPES.sub("", text) if "\x1b" in text else text
    plain = plain.replace("\t", TAB).lower()
    if needle not in plain:
        return []
    if "\r" in plain:
        return [number for number, line in enumerate(pieces(plain)) if needle in _last_state(line)]
    return _lines_with(plain, needle)


def _lines_with(plain: str, needle: str) -> list[int]:
    found, number, counted = [], 0, 0
    at = plain.find(needle)
    while at >= 0:
        number += plain.count("\n", counted, at)
        found.append(number)
        end = plain.find("\n", at)
        if end < 0:
            break
        counted = end
        at = plain.find(needle, end)
    return found


def _last_state(line: str) -> str:
    """What a terminal would show: after a carriage return the line is written anew."""
    return next((state for state in reversed(line.split("\r")) if state), "")
