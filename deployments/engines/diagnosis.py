"""Why a start failed: the earliest known cause in its log, in plain words. PURE."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from deployments.engines.base import Engine
from deployments.engines.heldmemory import fix_words, memory_words
from deployments.engines.logtext import Part, Place, is_talk, parts, plain, who_says
from deployments.engines.signature import Signature, Worth
from deployments.engines.unknown import Block, LastError

SAME_FAILURE = 64 * 1024
"""Characters after the cause within which a line that repeats it may say more exactly where it happened."""
NOTES = 3

BY_EXIT_CODE = {
    126: ("The command could not be started: it is not a program that may be run.", "Check the program's path."),
    127: ("The command could not be started: the program was not found.", "Check the program's path in the profile."),
    134: ("The server ended itself after a fault in its own code.", "Read the end of the log; tell its makers."),
    137: (
        "The server was killed from outside (SIGKILL); its log does not say why.",
        "Most often the host's memory (RAM) was full: ask who looks after the host to look for “Out of memory” in the "
        "kernel's log. Or somebody has ended it.",
    ),
    139: ("The server crashed in its own code (segmentation fault).", "Read the end of the log; tell its makers."),
}
"""When the log says nothing: what the exit code says."""


@dataclass(frozen=True)
class Diagnosis:
    """The cause, the usual fix, the line it was read from and where that stands, and what the memory says about it.

    ``recognised``: the cause is one we know; else ``block`` shows the last lines that speak of an error.
    ``notes``: what in the log looks like a failure and is none. ``about_memory``: it is one of too little of it.
    """

    cause: str
    fix: str
    line: str
    place: Place | None
    memory: str
    who: str = ""
    recognised: bool = True
    block: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    about_memory: bool = False


@dataclass(frozen=True)
class Hit:
    """A signature found in a line."""

    signature: Signature
    values: dict[str, str]
    line: str
    place: Place
    order: tuple[int, int, int]
    """Number of the part, of the character in it where the line begins, and of the signature: by these the first."""

    @property
    def words(self) -> str:
        """The cause as a sentence, with the values of the line."""
        return self.signature.cause.format(**{name: value[:200] for name, value in self.values.items()})


@dataclass
class Search:
    """Looks for an engine's signatures in one log, part by part."""

    signatures: Sequence[Signature]
    cause: Hit | None = None
    found: dict[int, Hit] = field(default_factory=dict)
    """By number of the signature: the first line of each that is no cause."""
    last_error: LastError = field(default_factory=LastError)
    _number: int = 0
    _since_cause: int = 0

    def read(self, part: Part) -> bool:
        """Take the next part; False when nothing that follows can change the answer."""
        hits = list(self._hits(part))
        causes = [hit for hit in hits if hit.signature.worth is Worth.CAUSE]
        if self.cause is None and causes:
            self.cause = min(causes, key=lambda hit: hit.order)
        elif self.cause is None:
            self.last_error.read(part)
        if self.cause is not None:
            self._be_more_exact(causes)
            self._since_cause += len(part.text)
        self._number += 1
        return self._since_cause < SAME_FAILURE

    def _hits(self, part: Part) -> Iterator[Hit]:
        """The first line of each signature in this part; of one that is no cause only the first in all."""
        for number, signature in enumerate(self.signatures):
            if signature.worth is not Worth.CAUSE and number in self.found:
                continue
            hit = _first(signature, part, (self._number, number))
            if hit is None:
                continue
            if signature.worth is not Worth.CAUSE:
                self.found[number] = hit
            yield hit

    def _be_more_exact(self, causes: Sequence[Hit]) -> None:
        """A later line that repeats the cause and is known better: an out-of-memory, and then in which stage."""
        assert self.cause is not None
        first = self.cause
        better = [
            hit for hit in causes if hit.order[2] < first.order[2] and first.signature.match(hit.line) is not None
        ]
        if better:
            self.cause = min(better, key=lambda hit: hit.order[2])

    def is_vague(self, line: str) -> bool:
        """Whether a line only says that something else failed."""
        return any(known.worth is not Worth.CAUSE and known.match(line) is not None for known in self.signatures)

    @property
    def vague(self) -> Hit | None:
        """The best known of the lines that give up."""
        return next((hit for _, hit in sorted(self.found.items()) if hit.signature.worth is Worth.VAGUE), None)

    @property
    def notes(self) -> tuple[str, ...]:
        """What looks like a failure and is none."""
        harmless = [hit for _, hit in sorted(self.found.items()) if hit.signature.worth is Worth.HARMLESS]
        return tuple(dict.fromkeys(f"{hit.words} {hit.signature.fix}" for hit in harmless))[:NOTES]


def _first(signature: Signature, part: Part, order: tuple[int, int]) -> Hit | None:
    """The first line of a part that a signature matches."""
    best: Hit | None = None
    for text in signature.texts:
        at = part.text.find(text)
        while at >= 0:
            begin, end = part.line_at(at)
            if best is not None and begin >= best.order[1]:
                break
            line = plain(part.text[begin:end])
            values = None if _is_talk(signature, line) else signature.match(line)
            if values is not None:
                best = Hit(signature, values, line, part.place(begin), (order[0], begin, order[1]))
                break
            at = part.text.find(text, end)
    return best


def _is_talk(signature: Signature, line: str) -> bool:
    """A warning is no cause; that it is one is what makes a harmless line."""
    return is_talk(line) and (signature.worth is not Worth.HARMLESS or '" ' in line)


def search(pieces: Iterable[tuple[int, str]], engine: Engine) -> Search:
    """Look through a log, given in numbered pieces, as far as is needed."""
    found = Search(engine.signatures)
    for part in parts(pieces):
        if not found.read(part):
            break
    return found


def diagnose(
    pieces: Iterable[tuple[int, str]],
    *,
    engine: Engine,
    cards_were_clean: bool | None,
    shared: bool = False,
    exit_code: int | None = None,
) -> Diagnosis:
    """Read a failed launch's log, given in numbered pieces, from its beginning.

    The earliest cause wins, whichever rank writes it; lines that give up count only when nothing else is known.
    ``cards_were_clean``: whether every card was measured at its baseline before the start, None if unknown.
    ``shared``: some had co-tenants, and as much memory free as was to be needed.
    """
    found = search(pieces, engine)
    hit = found.cause
    if hit is None:
        return _unknown(found, exit_code, memory_words(False, cards_were_clean, shared, ""))
    about = hit.signature.about_memory
    return Diagnosis(
        hit.words,
        fix_words(hit.signature.fix, about_memory=about, clean=cards_were_clean),
        hit.line[:500],
        hit.place,
        memory_words(about, cards_were_clean, shared, hit.line),
        who_says(hit.line),
        notes=found.notes,
        about_memory=about,
    )


def _unknown(found: Search, exit_code: int | None, memory: str) -> Diagnosis:
    """No cause that we know: the error that stands there, else who gives up, else what the exit code says."""
    block = found.last_error.traceback(found.is_vague)
    if block is not None:
        words = f"Relaunch does not know this error: {block.says}"
        return _with_block(block, words, "Read the lines below, and in the log what stands above them.", memory, found)
    block = found.last_error.errors or found.last_error.end
    if found.vague is not None:
        hit = found.vague
        return Diagnosis(
            hit.words,
            hit.signature.fix,
            hit.line[:500],
            hit.place,
            memory,
            who_says(hit.line),
            recognised=False,
            block=block.lines if block else (),
            notes=found.notes,
        )
    unknown = ("Its log names no cause that Relaunch knows.", "Read the end of the log.")
    words, fix = BY_EXIT_CODE.get(exit_code or 0, unknown)
    if block is None:
        return Diagnosis(words, fix, "", None, memory, recognised=False)
    return _with_block(block, words, fix, memory, found)


def _with_block(block: Block, words: str, fix: str, memory: str, found: Search) -> Diagnosis:
    return Diagnosis(
        words, fix, block.says, block.place, memory, recognised=False, block=block.lines, notes=found.notes
    )
