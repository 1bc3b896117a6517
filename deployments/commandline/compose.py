"""The ``command:`` of a compose file, as one word list or one line. PURE.

Only the forms that people write there are read; the rest of the file is not (``docker run`` says as much).
"""

from __future__ import annotations

import json
import re
import shlex

BEGINS = re.compile(r"\s*command:[ \t]*(?P<first>[^\n]*)(?P<rest>(?:\n.*)?)", re.S)
VARIABLE = re.compile(r"(?<!\$)\$(?:\w+|\{[^}]*\}?)")
ITEM = re.compile(r"\s*-[ \t]+(?P<text>.*\S)\s*")


def command_of(text: str) -> list[str] | None:
    """The words after ``command:``; None where the text is no such thing. Raises ValueError with a sentence."""
    found = BEGINS.fullmatch(text.replace("\r\n", "\n"))
    if found is None:
        return None
    first, rest = found["first"].strip(), found["rest"].strip("\n")
    if first.startswith("["):
        words = _flow(f"{first}\n{rest}")
    elif first in (">", ">-", "|", "|-", "") and rest:
        lines = rest.split("\n")
        words = [_item(line) for line in lines if line.strip()] if ITEM.fullmatch(lines[0]) else _line(rest)
    elif rest.strip():
        raise ValueError("Paste the command only: after command: come lines that do not belong to it.")
    else:
        words = _line(first)
    if unknown := next(filter(None, map(VARIABLE.search, words)), None):
        raise ValueError(f"{unknown[0]!r} would be filled in by compose first. Write the value itself.")
    words = [word.replace("$$", "$") for word in words]
    if words[:1] and words[0].startswith("-"):
        raise ValueError(
            "This command: holds only flags, since its image starts the program. Write the program in front, for "
            "example vllm serve, or paste a docker run with the image."
        )
    return words


def _flow(text: str) -> list[str]:
    try:
        words = json.loads(text)
    except (ValueError, RecursionError):
        words = None
    if not isinstance(words, list) or not all(isinstance(word, str | int | float) for word in words):
        raise ValueError('Write the list after command: as ["python", "-m", "x"], every word in double quotes.')
    return [str(word) for word in words]


def _item(line: str) -> str:
    """The text of one ``- word``."""
    found = ITEM.fullmatch(line)
    if found is None:
        raise ValueError(f"The line {line.strip()[:60]!r} is not one word of the list, as in “- --port”.")
    text = found["text"]
    if text[0] == '"' == text[-1:] and len(text) > 1:
        try:
            return str(json.loads(text))
        except ValueError as error:
            raise ValueError(f"The quotes in {text[:60]!r} do not match.") from error
    if text[0] == "'" == text[-1:] and len(text) > 1:
        return text[1:-1].replace("''", "'")
    return text


def _line(text: str) -> list[str]:
    """One line, or several that are folded into one; compose splits it as a shell does."""
    try:
        return shlex.split(re.sub(r"\\?\n\s*", " ", text.strip()))
    except ValueError as error:
        raise ValueError(f"The quotes do not match ({error}). Close every quote that is opened.") from error
