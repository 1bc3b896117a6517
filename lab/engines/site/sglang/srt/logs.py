"""Log lines in SGLang's shape. One write a line, so that lines of several processes never mix."""

import os
import time

_prefix = ""


def set_prefix(prefix: str) -> None:
    """What stands after the time in every line of this process, e.g. " TP0"."""
    global _prefix
    _prefix = prefix


def log(message: str, *, prefix: str | None = None) -> None:
    """A line with time and rank."""
    stamp = time.strftime("%Y-%m-%d %H:%M:%S")
    raw(f"[{stamp}{_prefix if prefix is None else prefix}] {message}\n")


def web(message: str, *, level: str = "INFO") -> None:
    """A line of the web server."""
    log(f"{level + ':':<9} {message}", prefix="")


def raw(text: str) -> None:
    """Text without time: progress bars, lines of libraries."""
    data = text.encode()
    while data:
        data = data[os.write(2, data) :]
