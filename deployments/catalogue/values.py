"""Whether a value is one that a flag can take. PURE."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from deployments.catalogue.model import Flag

PLAIN_TYPES = ("str", "int", "float")
READABLE = re.compile(r"\d+(\.\d+)?\s*([kKmMgGtT]i?)?")


def problem_of(flag: Flag, value: str) -> str | None:
    """What is wrong with a value, as the end of a sentence; None when nothing is, or when that is not known."""
    if flag.optional and value in ("", "None"):
        return None
    reads = READERS.get(flag.type)
    if reads is not None:
        kind, can_be = reads
        if not can_be(value):
            return f"takes {kind}, and “{value}” is none"
    # With a function of the engine's own in between, what is compared with the choices is not what was written.
    if flag.choices is not None and flag.type in (*PLAIN_TYPES, "") and not _is_among(flag, value):
        return f"does not take “{value}”"
    return None


def _is_among(flag: Flag, value: str) -> bool:
    assert flag.choices is not None
    if value in map(str, flag.choices):
        return True
    try:
        return float(value) in [choice for choice in flag.choices if not isinstance(choice, str)]
    except ValueError:
        return False


def _can(read: Callable[[str], object]) -> Callable[[str], bool]:
    def can_be(value: str) -> bool:
        try:
            read(value)
        except (ValueError, RecursionError):
            return False
        return True

    return can_be


def _is_readable(value: str) -> bool:
    """A number with or without a unit; the versions differ in which, so more is let through than refused."""
    return _can(int)(value) or bool(READABLE.fullmatch(value.strip()))


READERS: dict[str, tuple[str, Callable[[str], bool]]] = {
    "int": ("a whole number", _can(int)),
    "float": ("a number", _can(float)),
    "json": ("JSON", _can(json.loads)),
    "human_readable_int": ("a whole number, or one with a unit such as 256k", _is_readable),
}
