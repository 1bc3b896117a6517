"""A launch's log as it is stored, in pieces; where a line of it stands, and what of it is only talk. PURE.

A log is read once from its beginning, in pieces of some ten thousand characters, so that a hundred megabytes cost no
more memory than one of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

LONGEST_LINE = 256 * 1024
"""Characters after which a line without an end is taken as it is."""

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
"""A colour or a movement of a terminal's cursor."""

CALLS_ITSELF_HARMLESS = re.compile(
    r"^(?:\[[^\]]*\] ?|\([^)]*\) ?)*(?:INFO|WARNING|WARN|DEBUG|NOTICE)\b|^\[(?:rank\d+\]:\[)?W\d{3,6} "
)
"""Begins with a level below that of an error. The last is torch's."""

QUOTES_A_REQUEST = re.compile(
    r'"(?:GET|POST|PUT|HEAD|OPTIONS|DELETE|PATCH) \S.*" \d{3}\b'  # uvicorn's access log
    r"|\b(?:Receive|Finish): obj=|server_args="  # SGLang, --log-requests
    r"|\bReceived request |\bGenerated response "  # vLLM, --enable-log-requests
    r"|\brequest: +\{|log_server_r"  # llama-server
)
"""Shows what people asked, or what was asked for at the start: anything may stand in it."""

WHO = re.compile(
    r"^\[\d{4}-\d\d-\d\d [\d:.]+ (?P<rank>[A-Z_]+\d+(?: [A-Z_]+\d+)*)\]|^\((?P<process>\w+)(?: pid=\d+)?\)"
)
"""Which worker process says it: SGLang's ``[2026-04-14 16:08:44 TP0]``, vLLM's ``(Worker_TP0 pid=71)``."""


@dataclass(frozen=True)
class Place:
    """Where a line begins: the number of its piece, and of the line in it (0-based, counted by line feeds)."""

    seq: int
    line: int


@dataclass(frozen=True)
class Part:
    """Whole lines. The first ``carried`` characters came with an earlier piece, and began at ``began``."""

    seq: int
    text: str
    carried: int = 0
    began: Place = Place(0, 0)

    def place(self, at: int) -> Place:
        """Where the line stands that begins with character ``at``."""
        return self.began if at < self.carried else Place(self.seq, self.text.count("\n", self.carried, at))

    def line_at(self, at: int) -> tuple[int, int]:
        """Begin and end of what a terminal shows at once around ``at``: between line feeds and carriage returns."""
        begin = max(self.text.rfind("\n", 0, at), self.text.rfind("\r", 0, at)) + 1
        ends = [end for end in (self.text.find("\n", at), self.text.find("\r", at)) if end >= 0]
        return begin, min(ends, default=len(self.text))


def parts(pieces: Iterable[tuple[int, str]]) -> Iterator[Part]:
    """Whole lines of numbered pieces, each piece once; a line that is cut comes with the piece that ends it."""
    kept, began, seq = "", Place(0, 0), 0
    for seq, text in pieces:
        whole = kept + text
        cut = max(whole.rfind("\n"), whole.rfind("\r")) + 1
        if not cut and len(whole) > LONGEST_LINE:
            cut = len(whole)
        part = Part(seq, whole[:cut], min(len(kept), cut), began)
        if cut:
            yield part
        if cut >= len(kept) and cut < len(whole):
            began = Place(seq, text.count("\n", 0, cut - len(kept)))
        kept = whole[cut:]
    if kept:
        yield Part(seq, kept, len(kept), began)


def is_talk(line: str) -> bool:
    """Whether no failure can be read from a line, whatever words stand in it."""
    return bool(CALLS_ITSELF_HARMLESS.search(line) or QUOTES_A_REQUEST.search(line))


def plain(line: str) -> str:
    """Without colours and blanks around it."""
    return ESCAPE.sub("", line).strip()


def who_says(line: str) -> str:
    """The worker process that a line names in front; empty when it names none."""
    found = WHO.search(line)
    if found is None:
        return ""
    return found["rank"] or found["process"].removeprefix("Worker_")
