"""Reads settings that a Python program has printed: ``Name(a=1, b='x')``, ``{'a': 1}`` or ``a=1, b='x'``. PURE.

What is read was printed by somebody else's program, so nothing of it is evaluated, whatever it looks like: numbers,
quoted text, True, False and None are understood; a list, an object or an enum member is kept as the text it is.
"""

from __future__ import annotations

import ast
import re

LONGEST = 256 * 1024
"""Characters that are read of one line; what stands behind them is left out."""
LONGEST_VALUE = 300
MOST_SETTINGS = 2000
PLAIN = re.compile(r"None|True|False|-?\d{1,18}(?:\.\d{1,18})?(?:e[+-]?\d{1,3})?", re.ASCII)
QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.S)
MEMBER = re.compile(r"<(?:\w+\.)+(\w+): [^<>]*>")
NAME = re.compile(r"\s*(?:(\w+)\s*=(?!=)|'(\w+)'\s*:|\"(\w+)\"\s*:)", re.ASCII)
OPENS, CLOSES = "([{<", ")]}>"

Scalar = str | int | float | bool | None


def settings_printed(text: str) -> dict[str, Scalar]:
    """Name -> value of everything at the outermost level; what has no name is left out.

    ``text`` begins where the settings begin, at a name or a bracket. It ends at the bracket that closes the first.
    """
    found: dict[str, Scalar] = {}
    for piece in _pieces(text[:LONGEST]):
        named = NAME.match(piece)
        if named is not None:
            found[named[1] or named[2] or named[3]] = value_printed(piece[named.end() :].strip())
        if len(found) >= MOST_SETTINGS:
            break
    return found


def value_printed(text: str) -> Scalar:
    """A number, a text, True, False or None as such; anything else as the text it was printed as, cut."""
    if PLAIN.fullmatch(text):
        value: Scalar = ast.literal_eval(text)
        return value
    if len(text) <= LONGEST_VALUE and QUOTED.fullmatch(text):
        try:
            return str(ast.literal_eval(text))
        except (ValueError, SyntaxError):  # an escape that is none
            return text[1:-1]
    member = MEMBER.fullmatch(text) if len(text) <= LONGEST_VALUE else None
    if member is not None:
        return member[1]
    return (text.strip("'\"") if QUOTED.fullmatch(text) else text)[:LONGEST_VALUE]


def _pieces(text: str) -> list[str]:
    """Cut at the commas of the outermost level; a bracket around all of it is taken off first."""
    body = re.match(r"\s*\w*\s*([({])", text)
    start, inside = (body.end(), True) if body is not None and "=" not in body.group() else (0, False)
    pieces, depth, begin, at = [], 0, start, start
    while at < len(text):
        letter = text[at]
        if letter in "'\"":
            at = _end_of_quotes(text, at)
            continue
        if letter in OPENS:
            depth += 1
        elif letter in CLOSES:
            depth -= 1
            if depth < 0 and inside:
                break
        elif letter == "," and depth == 0:
            pieces.append(text[begin:at])
            begin = at + 1
        at += 1
    return [*pieces, text[begin:at]]


def _end_of_quotes(text: str, at: int) -> int:
    """Behind the quote that closes the one at ``at``; behind that one alone when none does."""
    end = at + 1
    while end < len(text) and text[end] != text[at]:
        end += 2 if text[end] == "\\" else 1
    return end + 1 if end < len(text) else at + 1
