"""Flags of a command line, and where two or three command lines differ. PURE."""

from __future__ import annotations

from collections.abc import Sequence


def flags_of(argv: Sequence[str]) -> dict[str, str]:
    """Flag -> value; "" for a switch. Words before the first flag stand under ``command``."""
    flags: dict[str, str] = {}
    words: list[str] = []
    position = 0
    while position < len(argv):
        word = argv[position]
        if word.startswith("-") and not _is_number(word) and not (word == "-m" and not flags and len(words) <= 1):
            name, equals, value = word.partition("=")
            values = []
            while not equals and position + 1 < len(argv) and _is_value(argv[position + 1]):
                position += 1
                values.append(argv[position])
            flags[name] = value if equals else " ".join(values)
        else:
            words.append(word)
        position += 1
    return {"command": " ".join(words), **flags}


def _is_number(word: str) -> bool:
    return word.lstrip("-").replace(".", "", 1).isdigit()


def _is_value(word: str) -> bool:
    return not word.startswith("-") or _is_number(word)


def compare(
    running: Sequence[str] | None, new: Sequence[str] | None, proven: Sequence[str] | None
) -> list[dict[str, str | None]]:
    """Rows {flag, running, new, proven} for every flag that is not the same everywhere; None where it is absent."""
    sides = {"running": running, "new": new, "proven": proven}
    flags = {name: flags_of(argv) if argv is not None else None for name, argv in sides.items()}
    names = dict.fromkeys(flag for known in flags.values() if known for flag in known)
    rows: list[dict[str, str | None]] = []
    for flag in names:
        row = {name: None if known is None else known.get(flag) for name, known in flags.items()}
        present = [row[name] for name, known in flags.items() if known is not None]
        if len(set(present)) > 1:
            rows.append({"flag": flag, **row})
    return rows
