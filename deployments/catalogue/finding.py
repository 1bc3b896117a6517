"""What a check of a command line has found. PURE."""

from __future__ import annotations

from dataclasses import dataclass

ERROR, WARN, NOTE = "error", "warn", "note"
LEVELS = (ERROR, WARN, NOTE)


@dataclass(frozen=True)
class Finding:
    """One of them. ``stops``: the engine would end at once with it, so a launch makes no sense."""

    level: str
    flag: str
    text: str
    todo: str = ""
    stops: bool = False
