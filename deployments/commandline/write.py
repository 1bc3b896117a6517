"""A command as text that ``parse`` reads back exactly. PURE."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from deployments.commandline.command import Command
from deployments.commandline.container import options_of
from deployments.commandline.prefixes import split_prefix
from deployments.commandline.words import ASSIGNMENT

GO_ON = " \\\n"
QUOTED = re.compile(r"(?P<before>\s*)(?P<word>(?:'[^']*'|\"[^\"]*\")+)\s*")


def write(command: Command) -> str:
    """As a person would write it: directory first, then environment, then one flag a line."""
    place = f"cd {shlex.quote(command.workdir)} &&\n" if command.workdir else ""
    env = "".join(f"{name}={shlex.quote(value)}{GO_ON}" for name, value in command.env.items())
    return place + env + f"{GO_ON}  ".join(_lines(command))


def on_one_line(command: Command) -> str:
    """The same on one line, without the directory: for logs and lists."""
    env = [f"{name}={shlex.quote(value)}" for name, value in command.env.items()]
    return " ".join([*env, *_lines(command)])


def _lines(command: Command) -> list[str]:
    if not command.container:
        return _by_flag(command.argv)
    options = [shlex.join(option.words) for option in options_of(command.container)]
    image = shlex.quote(command.container["image"])
    inside = _by_flag(command.argv, first=[image])
    return [f"{command.container['tool']} run", *options, *inside]


def _by_flag(argv: list[str], *, first: list[str] | None = None) -> list[str]:
    """One flag with its values a line; ``first`` stands in front of the first line."""
    prefix, rest = ([], argv) if first else split_prefix(argv)
    lines: list[list[str]] = [[*(first or []), *map(shlex.quote, prefix)]]
    for word in rest:
        if word.startswith("--") and lines[-1]:
            lines.append([])
        lines[-1].append(shlex.quote(word) if lines[0] else _begun(word))
    return [" ".join(line) for line in lines]


def _begun(word: str) -> str:
    """The first word: one that reads as NAME=value, or as a line of a compose file, is a program only in quotes."""
    quoted = shlex.quote(word)
    plain = quoted == word
    return f"'{word}'" if plain and (ASSIGNMENT.fullmatch(word) or word.startswith("command:")) else quoted


def write_env(env: Mapping[str, str]) -> str:
    """One NAME=value a line, as ``read_env`` reads it; in quotes where blanks or quotes at an end would be lost."""
    return "\n".join(f"{name}={value if _is_plain(value) else shlex.quote(value)}" for name, value in env.items())


def _is_plain(value: str) -> bool:
    return value == value.strip() and value[:1] not in ("'", '"')


def read_env(text: str) -> dict[str, str]:
    """Read one NAME=value a line. Raises ValueError with a sentence for a line that is none."""
    found: dict[str, str] = {}
    for line in text.replace("\r\n", "\n").split("\n"):
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if not line.strip():
            continue
        if not equals:
            raise ValueError(f"“{line.strip()}” is not NAME=value.")
        found[name.strip()] = _unquoted(value)
    return found


def _unquoted(value: str) -> str:
    """What stands between quotes that enclose all of it; anything else as it is."""
    if value[:1] not in ("'", '"') or not QUOTED.fullmatch(value):
        return value
    words = shlex.split(value)
    return words[0] if len(words) == 1 else value
