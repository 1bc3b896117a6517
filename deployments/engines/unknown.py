"""The last error of a log that names no cause we know: its last traceback, or last lines that speak of errors. PURE.

What is kept while a log is read does not grow with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from deployments.engines.logtext import Part, Place, is_talk, plain

TRACEBACK = "Traceback (most recent call last):"
WORDS = ("ERROR", "Error", "FATAL", "CRITICAL", "error:", "fatal", "failed", "Exception")
CHAINED = ("The above exception was the direct cause", "During handling of the above exception")
MOST_LINES = 30
MOST_CHARACTERS = 8_000
KEPT_BLOCKS = 6
LAST_LINES = 10
LEVEL = re.compile(r"^(?:\([^)]*\) )?(?:ERROR|CRITICAL) \d\d-\d\d [\d:.]+ \[[^\]]*\] ?|^\[rank\d+\]: ?")
"""What vLLM and torch write before each line of a traceback."""
ERROR_LINE = re.compile(r"^[A-Za-z_][\w.]*(?:: .*|:)?$")
"""The last line of a traceback: a class, and what it says."""


@dataclass(frozen=True)
class Block:
    """Lines that belong together, where they begin, and the one that says most."""

    lines: tuple[str, ...]
    place: Place
    says: str
    is_chained: bool = False
    """Another traceback follows that came of this one."""


@dataclass
class _Kept:
    place: Place
    text: str


@dataclass
class LastError:
    """Remembers of the parts it is shown what may be the last error."""

    _blocks: list[_Kept] = field(default_factory=list)
    _errors: list[tuple[Place, str]] = field(default_factory=list)
    _tail: list[tuple[Place, str]] = field(default_factory=list)

    def read(self, part: Part) -> None:
        """Take the next part of the log."""
        if self._blocks and len(self._blocks[-1].text) < MOST_CHARACTERS:
            self._blocks[-1].text += part.text[: MOST_CHARACTERS - len(self._blocks[-1].text)]
        self._keep_tracebacks(part)
        if any(word in part.text for word in WORDS):
            self._errors = [*self._errors, *_last_lines(part, _speaks_of_errors)][-MOST_LINES:]
        self._tail = [*self._tail, *_last_lines(part, plain, LAST_LINES)][-LAST_LINES:]

    def _keep_tracebacks(self, part: Part) -> None:
        found: list[_Kept] = []
        at = part.text.rfind(TRACEBACK)
        while at >= 0 and len(found) < KEPT_BLOCKS:
            begin, _ = part.line_at(at)
            found.append(_Kept(part.place(begin), part.text[begin : begin + MOST_CHARACTERS]))
            at = part.text.rfind(TRACEBACK, 0, at)
        self._blocks = [*self._blocks, *reversed(found)][-KEPT_BLOCKS:]

    def traceback(self, is_vague: Callable[[str], bool]) -> Block | None:
        """The last traceback that says more than that something else failed; of a chain its first."""
        blocks = [_read_traceback(kept) for kept in self._blocks]
        telling = [number for number, block in enumerate(blocks) if not is_vague(block.says)]
        if not telling:
            return None
        number = telling[-1]
        while number and blocks[number - 1].is_chained and not is_vague(blocks[number - 1].says):
            number -= 1
        return blocks[number]

    @property
    def errors(self) -> Block | None:
        """The last lines that speak of errors."""
        return _block(self._errors) if self._errors else None

    @property
    def end(self) -> Block | None:
        """The last lines of all."""
        return _block(self._tail) if self._tail else None


def _block(lines: list[tuple[Place, str]]) -> Block:
    return Block(tuple(text for _, text in lines), *lines[-1])


def _speaks_of_errors(line: str) -> bool:
    return any(word in line for word in WORDS) and not is_talk(plain(line))


def _last_lines(part: Part, is_wanted: Callable[[str], object], most: int = MOST_LINES) -> list[tuple[Place, str]]:
    """The last lines of a part that are wanted, without their earlier states."""
    found: list[tuple[Place, str]] = []
    end = len(part.text)
    while end > 0 and len(found) < most:
        begin = part.text.rfind("\n", 0, end - 1) + 1
        line = part.text[begin:end].rstrip("\r\n").rpartition("\r")[2]
        if line.strip() and is_wanted(line):
            found.append((part.place(begin), plain(line)[:500]))
        end = begin
    return found[::-1]


def _read_traceback(kept: _Kept) -> Block:
    """From its first line to the one that names the error, and what that says in further lines."""
    raw = [LEVEL.sub("", plain_end(line)) for line in re.split(r"[\r\n]+", kept.text)]
    last = next((number for number, line in enumerate(raw[1:], 1) if ERROR_LINE.match(line)), None)
    if last is None:
        shown = [line for line in raw[:MOST_LINES] if line]
        return Block(tuple(shown), kept.place, shown[-1].strip())
    following = [line for line in raw[last + 1 :] if line]
    chained = bool(following) and following[0].startswith(CHAINED)
    lines = raw[: last + 1]
    if len(lines) > MOST_LINES:
        lines = [lines[0], "  ...", *lines[-(MOST_LINES - 2) :]]
    return Block(tuple(line[:500] for line in lines if line), kept.place, raw[last].strip()[:500], chained)


def plain_end(line: str) -> str:
    """Without colours and blanks at its end; those in front show what belongs together."""
    text = plain(line)
    indent = len(line) - len(line.lstrip(" "))
    return " " * indent + text
