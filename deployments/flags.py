"""What a launch is made of: of two or three of them side by side. PURE."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deployments.commandline import container as containers
from deployments.commandline.prefixes import split_prefix

SET = "(set)"
"""The value of a flag that takes none."""
DIRECTORY = "directory"
PREFIX = "started by"
NOT_KNOWN = "not known"
"""The environment of a server that somebody else has started."""


@dataclass(frozen=True)
class FlagRow:
    """One flag in two places; None means that it is not there."""

    name: str
    left: str | None
    right: str | None

    @property
    def changed(self) -> bool:
        """The two differ, or only one side has it."""
        return self.left != self.right


def flags_of(argv: Sequence[str]) -> dict[str, str]:
    """Flag -> value, ``SET`` for a switch, in the order of the command. The words before the first are ``command``.

    What only starts it (numactl and its like) is left out: a server shows no trace of it.
    """
    _, argv = split_prefix(argv)
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
            flags[name] = value if equals else " ".join(values) or SET
        else:
            words.append(word)
        position += 1
    return {"command": " ".join(words), **flags}


def _is_number(word: str) -> bool:
    return word.lstrip("-").replace(".", "", 1).isdigit()


def _is_value(word: str) -> bool:
    return not word.startswith("-") or _is_number(word)


def side_by_side(left: Mapping[str, str], right: Mapping[str, str]) -> list[FlagRow]:
    """All flags of both, the left one's order first."""
    names: Iterable[str] = dict.fromkeys([*left, *right])
    return [FlagRow(name, left.get(name), right.get(name)) for name in names]


def settings_of(
    argv: Sequence[str], env: Mapping[str, str], workdir: str, container: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """All that a launch is made of: its flags, ``NAME=`` for each variable, and what is around it."""
    variables = {f"{name}=": value for name, value in env.items()}
    return {**flags_of(argv), **variables, **around(argv, workdir, container)}


def around(argv: Sequence[str], workdir: str, container: Mapping[str, Any] | None) -> dict[str, str]:
    """What starts the command, its directory and its container, as far as there are any."""
    prefix, _ = split_prefix(argv)
    found = {PREFIX: " ".join(prefix), DIRECTORY: workdir}
    return {name: value for name, value in found.items() if value} | containers.settings(container or {})


def compare(
    running: Mapping[str, str] | None, new: Mapping[str, str] | None, proven: Mapping[str, str] | None
) -> list[dict[str, str | None]]:
    """Rows {flag, running, new, proven} for every setting that is not the same everywhere; None where it is absent."""
    sides = {"running": running, "new": new, "proven": proven}
    names = dict.fromkeys(name for known in sides.values() if known for name in known)
    rows: list[dict[str, str | None]] = []
    for name in names:
        row = {side: None if known is None else known.get(name) for side, known in sides.items()}
        present = [row[side] for side, known in sides.items() if known is not None]
        if len(set(present)) > 1:
            rows.append({"flag": name, **row})
    return rows
