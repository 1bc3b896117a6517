"""The words, icons and tones of every state, and numbers with their units. PURE."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Look:
    """How a state is shown: a word, an icon, and a tone that only underlines the two."""

    word: str
    icon: str
    tone: str


GOOD, BUSY, WARN, BAD, OFF = "good", "busy", "warn", "bad", "off"

LOOKS: dict[str, dict[str, Look]] = {
    "job": {
        "queued": Look("Queued", "clock", OFF),
        "running": Look("Running", "progress", BUSY),
        "waiting": Look("Waiting for a person", "hand-stop", WARN),
        "unknown": Look("Unknown", "help-circle", WARN),
        "succeeded": Look("Succeeded", "circle-check", GOOD),
        "failed": Look("Failed", "alert-octagon", BAD),
        "errored": Look("Error of the panel", "bug", BAD),
        "cancelled": Look("Cancelled", "ban", OFF),
        "rejected": Look("Discarded", "circle-x", OFF),
        "expired": Look("Approval expired", "hourglass-off", OFF),
    },
    "step": {
        "pending": Look("To do", "circle-dashed", OFF),
        "running": Look("At work", "progress", BUSY),
        "done": Look("Done", "circle-check", GOOD),
        "failed": Look("Failed", "alert-octagon", BAD),
        "skipped": Look("Not done", "arrow-forward-up", OFF),
    },
    "service": {
        "serving": Look("Serving", "circle-check", GOOD),
        "not answering": Look("Not answering", "alert-triangle", BAD),
        "crashed": Look("Crashed", "alert-octagon", BAD),
        "stopped": Look("Stopped", "player-stop", OFF),
        "unknown": Look("Unknown", "help-circle", WARN),
        "released": Look("Released", "door-exit", OFF),
    },
    "launch": {
        "intended": Look("About to start", "clock", OFF),
        "starting": Look("Starting", "progress", BUSY),
        "serving": Look("Serving", "circle-check", GOOD),
        "ended": Look("Ended", "player-stop", OFF),
        "failed": Look("Failed", "alert-octagon", BAD),
        "abandoned": Look("Abandoned", "circle-x", OFF),
        "unknown": Look("Unknown", "help-circle", WARN),
    },
    "standing": {
        "after a crash": Look("After a crash", "heart-rate-monitor", OFF),
        "tuning": Look("Tuning", "tool", OFF),
        "when idle": Look("When idle", "moon", OFF),
    },
    "check": {
        "ok": Look("OK", "circle-check", GOOD),
        "not ok": Look("Not OK", "alert-octagon", BAD),
        "unknown": Look("Could not measure", "help-circle", WARN),
        "info": Look("For information", "info-circle", OFF),
    },
    "finding": {
        "error": Look("Wrong", "alert-octagon", BAD),
        "warn": Look("Look at this", "alert-triangle", WARN),
        "note": Look("Good to know", "info-circle", OFF),
    },
    "reach": {
        "unknown": Look("Not tested yet", "help-circle", WARN),
        "reachable": Look("Reachable", "circle-check", GOOD),
        "unreachable": Look("Unreachable", "plug-connected-x", BAD),
    },
}

HASH = re.compile(r"[0-9a-f]{64}")
"""Nobody compares all of it by eye; a file that is exported has it whole."""
NOTHING: tuple[object, ...] = (None, "", [], {})
_NO_LOOK = Look("Unknown", "help-circle", WARN)


def look(kind: str, value: str) -> Look:
    """How the state ``value`` of a ``kind`` of thing is shown; a state that nobody named shows as unknown."""
    return LOOKS[kind].get(value, _NO_LOOK)


def size(mib: int | None) -> str:
    """A size in MiB, in the unit people read: MiB below one GiB, else GiB with one decimal."""
    if mib is None:
        return "unknown"
    return f"{mib} MiB" if mib < 1024 else f"{mib / 1024:,.1f} GiB"


def told(detail: Mapping[str, object]) -> list[tuple[str, str]]:
    """What an audit entry tells beside its action, as names and values a person reads; what is empty is left out."""
    return [(name.replace("_", " "), _value(value)) for name, value in detail.items() if value not in NOTHING]


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_value(inner)}" for name, inner in told(value))
    if isinstance(value, list | tuple):
        return ", ".join(map(_value, value))
    text = str(value)
    return f"{text[:12]}…" if HASH.fullmatch(text) else text


def duration(seconds: float, *, parts: int = 2) -> str:
    """A length of time in its ``parts`` largest units: 3 s, 2 min 5 s, 1 h 12 min, 3 d 4 h."""
    left = max(0, int(seconds))
    if left == 0 and seconds > 0:
        return f"{seconds:.1f} s"
    found: list[str] = []
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        if left >= length or found:
            found.append(f"{left // length} {unit}" if left >= length else "")
            left %= length
    return " ".join(word for word in found[:parts] if word) or "0 s"
