"""Why a start failed: the earliest known cause in its log, in plain words. PURE."""

from __future__ import annotations

import re
from dataclasses import dataclass

from deployments.engines.base import Engine

ENGINE_GIVES_UP = re.compile(r"[Ss]igquit|SIGQUIT|^Killed$")


@dataclass(frozen=True)
class Diagnosis:
    """The cause, the usual fix, the line it was read from (0-based) and what the memory says about it."""

    cause: str
    fix: str
    line: str
    line_number: int | None
    memory: str


def diagnose(log: str, *, engine: Engine, cards_were_clean: bool | None, shared: bool = False) -> Diagnosis:
    """Read a failed launch's log.

    Searched from the top, since the cause stands above the lines in which the engine gives up.
    ``cards_were_clean``: whether every card was measured at its baseline before the start, None if unknown.
    ``shared``: some had co-tenants, and as much memory free as was to be needed.
    """
    lines = log.splitlines()
    for number, line in enumerate(lines):
        for known in engine.signatures:
            match = known.pattern.search(line)
            if match is None or (ENGINE_GIVES_UP.search(line) and _names_a_cause_below(lines, number, engine)):
                continue
            cause = known.cause.format(**{"what": (match.groupdict().get("what") or "").strip()})
            return Diagnosis(
                cause,
                known.fix,
                line.strip()[:500],
                number,
                _memory_words(known.about_memory, cards_were_clean, shared),
            )
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return Diagnosis(
        "Its log names no cause that Relaunch knows.",
        "Read the end of the log.",
        last[:500],
        None,
        _memory_words(False, cards_were_clean, shared),
    )


def _names_a_cause_below(lines: list[str], number: int, engine: Engine) -> bool:
    """Ranks write at once: a give-up line may stand above the cause of another rank."""
    below = lines[number + 1 : number + 200]
    return any(
        known.pattern.search(line) and not ENGINE_GIVES_UP.search(line) for line in below for known in engine.signatures
    )


def _memory_words(about_memory: bool, clean: bool | None, shared: bool) -> str:
    """Never mix up left-over memory with a model that is too large."""
    if clean and shared:
        words = "Before this start the shared cards had as much memory free as it was to need"
        return f"{words}: it took more than that." if about_memory else f"{words}."
    if clean is None:
        return "Whether the cards were free before this start is not known."
    if not clean:
        return "The cards were not at their baseline before this start: something else held memory."
    if about_memory:
        return "The cards were at their baseline before the start: the model does not fit; nothing was left over."
    return "The cards were at their baseline before the start."
