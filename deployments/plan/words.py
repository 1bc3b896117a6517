"""A process in words, as pages and logs show it. PURE."""

from __future__ import annotations

from functools import lru_cache

from controlpanel.masking import mask_text
from hosts.probe.processes import Process, ProcessDetail

LETTERS = 200
"""Of a command that are shown."""
UNNAMED = "(no name)"


def command_of(process: Process, detail: ProcessDetail | None, *, letters: int = LETTERS) -> str:
    """Its command line, else its name; a process may have made both blank."""
    command = detail.command.strip() if detail is not None else ""
    return shortened(command or process.comm.strip() or UNNAMED, letters)


@lru_cache(maxsize=1024)  # a verify says the same commands many times a second
def shortened(command: str, letters: int = LETTERS) -> str:
    """Its beginning, secrets masked: first, for a piece of a secret looks like none.

    It ends with a whole word: whoever knows more secrets than this finds them whole, or not at all.
    """
    text = mask_text(command)
    if len(text) <= letters or text[letters].isspace():
        return text[:letters]
    return text[:letters].rpartition(" ")[0] or text[:letters]


def user_of(uid: int | None) -> str:
    """The user of a process, where its machine was not asked for the name; empty when not known."""
    return "" if uid is None else "root" if uid == 0 else f"uid {uid}"
