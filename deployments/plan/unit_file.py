"""A service's unit file and the environment files beside it, read and quoted as systemd does. PURE.

systemd.service(5), systemd.exec(5), systemd.syntax(7): words are split at blanks, quotes may stand anywhere, a
backslash escapes as in C; `$NAME` as a word of its own becomes several words, `${NAME}` never does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hosts.probe.frames import Unknown

ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "s": " ", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
WHOLE = re.compile(r"\$([A-Za-z_]\w*)", re.ASCII)
BRACED = re.compile(r"\$\$|\$\{([A-Za-z_]\w*)\}", re.ASCII)
SPECIAL_PREFIX = "@-:+!|"
ASSIGNED = re.compile(r"\s*([A-Za-z_]\w*)\s*=(.*)", re.ASCII | re.S)
PLAIN = re.compile(r"[A-Za-z0-9_./:=,@+-]+", re.ASCII)


@dataclass(frozen=True)
class UnitFile:
    """``words``: of ExecStart, variables as they are written; ``environment``: of Environment= alone."""

    words: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    workdir: str = ""


def read_unit(text: str) -> UnitFile | Unknown:
    """What ``systemctl cat`` shows, drop-ins included. Unknown for what is not one plain command."""
    commands: list[str] = []
    environment: dict[str, str] = {}
    files: list[str] = []
    workdir = section = ""
    try:
        for line in _logical_lines(text):
            if line.startswith("["):
                section = line
                continue
            key, equals, value = line.partition("=")
            key, value = key.strip(), value.strip()
            if section != "[Service]" or not equals:
                continue
            if key == "ExecStart":
                commands = [*commands, value] if value else []
            elif key == "Environment":
                pairs = (word.partition("=") for word in split_words(value.replace("%%", "%")))
                environment = {**environment, **{name: text for name, _, text in pairs}} if value else {}
            elif key == "EnvironmentFile":
                files = [*files, value.removeprefix("-")] if value else []
            elif key == "WorkingDirectory":
                workdir = value.removeprefix("-")
        return UnitFile(_command(commands), environment, tuple(files), workdir)
    except ValueError as problem:
        return Unknown(str(problem))


def _command(commands: Sequence[str]) -> tuple[str, ...]:
    if len(commands) != 1:
        raise ValueError(f"The unit has {len(commands)} commands instead of one.")
    words = split_words(commands[0])
    if not words or words[0][0] in SPECIAL_PREFIX or ";" in words:
        raise ValueError("The unit's command is not a plain one.")
    if any("%" in word.replace("%%", "") for word in words):
        raise ValueError("The unit's command holds words that systemd fills in (%).")
    return tuple(word.replace("%%", "%") for word in words)


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    pending = ""
    for raw in text.split("\n"):
        line = raw.strip()
        if line.startswith(("#", ";")):
            continue
        if line.endswith("\\"):
            pending += line[:-1] + " "
            continue
        if pending or line:
            lines.append(pending + line)
        pending = ""
    return lines


def split_words(text: str, *, escapes: bool = True) -> list[str]:
    """``escapes``: as in a unit file; in the value of a variable a backslash only makes the next letter plain.

    Raises ValueError for a quote that does not end.
    """
    words: list[str] = []
    word: str | None = None
    quote = ""
    position = 0
    while position < len(text):
        letter = text[position]
        position += 1
        if letter == "\\" and position < len(text):
            plain, position = _escaped(text, position) if escapes else (text[position], position + 1)
            word = (word or "") + plain
        elif quote:
            quote, word = ("", word) if letter == quote else (quote, (word or "") + letter)
        elif letter in "'\"":
            quote, word = letter, word or ""
        elif letter.isspace():
            words, word = ([*words, word], None) if word is not None else (words, None)
        else:
            word = (word or "") + letter
    if quote:
        raise ValueError("A quote in the unit does not end.")
    return words if word is None else [*words, word]


def _escaped(text: str, position: int) -> tuple[str, int]:
    """What stands after a backslash, and where it ends."""
    letter = text[position]
    number = re.match(r"x[0-9a-fA-F]{2}", text[position:])
    if number:
        return chr(int(number.group()[1:], 16)), position + 3
    return ESCAPES.get(letter, letter), position + 1


def expand(words: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """The command that runs. Raises ValueError for a value with a quote that does not end."""
    found: list[str] = []
    for word in words:
        whole = WHOLE.fullmatch(word)
        if whole:
            found += split_words(environment.get(whole.group(1), ""), escapes=False)
        else:
            found.append(BRACED.sub(lambda match: environment.get(match.group(1), "") if match.group(1) else "$", word))
    return found


def read_environment(text: str) -> dict[str, str] | Unknown:
    """An environment file. Unknown where a value goes on in the next line, which is not edited from here."""
    found: dict[str, str] = {}
    for raw in text.split("\n"):
        line = raw.strip()
        if not line or line.startswith(("#", ";")):
            continue
        match = ASSIGNED.fullmatch(line)
        if match is None:
            continue
        try:
            found[match.group(1)] = _value(match.group(2).strip())
        except ValueError:
            return Unknown(f"The value of {match.group(1)} goes on in the next line.")
    return found


def _value(text: str) -> str:
    if text.startswith("'"):
        inner, end, _ = text[1:].partition("'")
        if not end:
            raise ValueError(text)
        return inner
    if not text.startswith('"'):
        if text.endswith("\\"):
            raise ValueError(text)
        return re.sub(r"\\(.)", r"\1", text)
    match = re.match(r'"((?:\\.|[^"\\])*)"', text, re.S)
    if match is None:
        raise ValueError(text)
    return re.sub(r'\\(["\\$`])', r"\1", match.group(1))


def quoted_word(word: str) -> str:
    """For a unit file: nothing in it is filled in by systemd."""
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    text = text.replace("\n", "\\n").replace("\t", "\\t")
    return text if text and PLAIN.fullmatch(text) else f'"{text}"'


def quoted_assignment(name: str, value: str) -> str:
    """For Environment= in a unit file, where a dollar sign is only that."""
    text = value.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("\n", "\\n")
    return f'"{name}={text}"'


def environment_line(name: str, value: str) -> str:
    """For an environment file. Raises ValueError for a value that such a line cannot hold."""
    if "\n" in value:
        raise ValueError(f"The value of {name} holds a line break.")
    text = re.sub(r'(["\\$`])', r"\\\1", value)
    return f'{name}="{text}"'


def as_value(words: Sequence[str]) -> str:
    """Words as the value of a variable that stands in a command as ``$NAME``."""
    return " ".join(
        word if word and PLAIN.fullmatch(word) else '"' + re.sub(r'(["\\])', r"\\\1", word) + '"' for word in words
    )
