"""Where secrets stand in a text. PURE."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from controlpanel.masking.colours import COLOUR, without_colours
from controlpanel.masking.names import PROSE, counts, is_secret_name, words_of
from controlpanel.masking.values import (
    BEGINS_WITH_NOTHING,
    NEXT_WORD,
    NUMBER,
    before_backslashes,
    end_of_brackets,
    end_of_line,
    holds_nothing,
    one_value,
)

MASK = "********"
LONGEST_KEY_BLOCK = 32 * 1024
LONGEST_LIST = 8 * 1024  # of a secret's values, one a line

_NAME = r"(?<![A-Za-z0-9_.-])(?P<name>(?P<option>-++)?[A-Za-z0-9_.][A-Za-z0-9_.-]{0,250}+)(?P<quote>\\{0,7}[\"'])?\]?"
_NAMED = re.compile(
    rf"{_NAME}(?:[ \t]{{0,80}}+(?:(?P<sep>=>|[=:]{{1,3}}+|>(?!=))[ \t]*+|(?P<comma>,)[ \t]*+(?=[bru]?\\*+[\"']))"
    r"|(?(option)[ \t]++|(?!)))(?=\S)"
)
_BEFORE_NAME = re.compile(r"(?:(?:[(\[][bBrRuU]?)?\\{0,7}[\"'])?\Z")
_OPEN_LIST = re.compile(
    rf"{_NAME}[ \t]{{0,80}}+(?P<sep>=>|[=:]{{1,3}}+|>(?!=))[ \t]*+"
    r"(?P<value>(?:[A-Za-z_][A-Za-z0-9_.]{0,60}+)?[\[({])[ \t]*+(?=[\n\r])"
)
_LIST_OPENED = re.compile(r"[\[({][ \t]*+[\n\r]")
_HINT = re.compile("key|token|secret|pass|pw|cred|auth|sig|cookie|pat|jwt|hft")
"""In the small letters of each name that holds a secret (``names.py``)."""
_OF_NAMES = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
_HEADERS = ("authorization", "cookie", "cookies")  # their values are made of several words

# Each with what a text without it is spared the search for, in small letters: a server's log holds hardly any.
_SHAPES: tuple[tuple[tuple[str, ...], re.Pattern[str]], ...] = (
    (
        ("bearer", "basic"),
        re.compile(r"(?i)\b(?:bearer|basic)[ \t]+(?P<hide>(?=[A-Za-z0-9._~+/=-]*[0-9._+/=-])[A-Za-z0-9._~+/=-]{8,})"),
    ),
    (("k-",), re.compile(r"(?<![A-Za-ln-z0-9])(?P<hide>(?:sk|rk|pk)-[A-Za-z0-9_-]{12,})")),
    (("hf_",), re.compile(r"(?<![A-Za-ln-z0-9])(?P<hide>hf_[A-Za-z0-9]{8,})")),
    (
        ("gh", "glpat-"),
        re.compile(r"(?<![A-Za-ln-z0-9])(?P<hide>(?:gh[opsur]_|github_pat_|glpat-)[A-Za-z0-9_-]{12,})"),
    ),
    (("akia", "asia"), re.compile(r"(?<![A-Za-ln-z0-9])(?P<hide>(?:AKIA|ASIA)[A-Z0-9]{16})\b")),
    (("xox",), re.compile(r"(?<![A-Za-ln-z0-9])(?P<hide>xox[abprs]-[A-Za-z0-9-]{10,})")),
    (
        ("eyj",),
        re.compile(r"(?<![A-Za-z0-9_-])(?P<hide>eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+)"),
    ),
    # A password in a URL; in one of the web also what stands alone before the @, for tokens are given so.
    (("://",), re.compile(r"://[^\s/:@\"']{0,256}:(?P<hide>[^\s/\"']{1,512})@")),
    (("://",), re.compile(r"(?i)\b(?:https?|wss?)://(?P<hide>[^\s/?#<>\"']{1,1024})@")),
)
_KEY_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----")
_KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----")


class Secret(NamedTuple):
    """Where a secret begins (what names it included), and what of the text is hidden. A block that has not ended
    goes beyond the text.
    """

    begin: int
    hide: int
    end: int
    something: bool = True  # False: what stands there is nothing to hide, but not to be divided either

    @property
    def span(self) -> tuple[int, int]:
        return self.begin, self.end


def hidden(text: str, secrets: Iterable[Secret]) -> str:
    """Return `text` with a mask for each secret, one mask where they overlap."""
    parts, position = [], 0
    for secret in sorted((secret for secret in secrets if secret.something), key=lambda secret: secret.hide):
        if secret.hide >= position:
            parts += [text[position : secret.hide], MASK]
        position = max(position, secret.end)
    return "".join(parts) + text[position:] if parts else text


def blocks(text: str) -> Iterator[Secret]:
    """Yield the secrets of several lines: private keys, and what stands in brackets that a line opens."""
    plain, place = without_colours(text)
    keys = ((found.start(), found, True) for found in _KEY_BEGIN.finditer(plain)) if "PRIVATE KEY" in plain else ()
    lists = ((found.start(), found, False) for found in _opened_lists(plain) if _may_hold_secret(found))
    position = 0
    for begin, found, is_key in sorted([*keys, *lists], key=lambda each: each[0]):
        if begin < position:
            continue
        if is_key:
            hide, last, something = begin, found.end() + LONGEST_KEY_BLOCK, True
            ending = _KEY_END.search(plain, found.end(), last)
            end = ending.end() if ending else last
        else:
            hide, last = found.start("value"), found.end() + LONGEST_LIST
            end = end_of_brackets(plain, found.end("value"), last)
            something = end == last or not holds_nothing(plain, hide, end, name=found["name"])
        position = end
        yield Secret(place(begin), place(hide), place(end - 1) + 1, something)


def _opened_lists(text: str) -> Iterator[re.Match[str]]:
    """Yield the lists that the end of a line opens, with their names."""
    position = 0
    for opened in _LIST_OPENED.finditer(text):
        line = max(text.rfind(end, position, opened.start()) + 1 for end in "\n\r")
        yield from _OPEN_LIST.finditer(text, max(line, position), opened.end())
        position = opened.end()


def in_lines(text: str) -> Iterator[Secret]:
    """Yield everything else that looks like a secret; none of it goes beyond its line."""
    plain, place = without_colours(text)
    small = _small(plain)
    for hints, shape in _SHAPES:
        if not any(hint in small for hint in hints):
            continue
        for found in shape.finditer(plain):
            yield Secret(place(found.start()), place(found.start("hide")), place(found.end("hide") - 1) + 1)
        if plain is not text:  # what a colour parts are two words, too
            spaced = COLOUR.sub(lambda colour: " " * len(colour[0]), text)
            for found in shape.finditer(spaced):
                yield Secret(found.start(), found.start("hide"), found.end("hide"))
    for secret in _named(plain, small):
        yield Secret(place(secret.begin), place(secret.hide), place(secret.end - 1) + 1)


def _small(text: str) -> str:
    """The text in small letters, each where it was: one letter alone would become two."""
    return text.replace("\u0130", "I").lower()


def _named(text: str, small: str) -> Iterator[Secret]:
    """Yield the values of secret names; the search goes on inside a value that is none. ``small``: the text in small
    letters, in which names are looked for much faster.
    """
    position = seen = 0  # where the last value ended; where the last name did that was looked at
    for hint in _HINT.finditer(small):
        if hint.start() < seen:
            continue
        begin = seen + len(text[seen : hint.start()].rstrip(_OF_NAMES))
        seen = hint.end()
        found = _NAMED.match(text, begin) if begin >= position else None
        if found is None:
            continue
        seen = max(seen, found.end("name"))
        if _may_hold_secret(found) and (value := _value(text, found)):
            yield Secret(found.start() - len(_before(found)), *value)
            position = value[1]


def _before(found: re.Match[str]) -> str:
    """What stands before a name, as far as it matters: a quote, and the bracket before that."""
    before = _BEFORE_NAME.search(found.string[max(found.start() - 10, 0) : found.start()])
    return before[0] if before else ""


def _may_hold_secret(found: re.Match[str]) -> bool:
    """Whether a name, as it stands here, has a secret's value."""
    name = found["name"]
    if not is_secret_name(name):
        return False
    if found.groupdict().get("comma"):  # ("HF_TOKEN", "abc") and ["serve", "--api-key", "abc"], not any list
        first = _before(found).startswith(("(", "[")) and name.lower() not in PROSE
        return bool(found["quote"] and (found["option"] or first))
    if name.lower() not in PROSE:
        return True
    return "=" in (found["sep"] or "") or bool(found["quote"] and found["sep"])


def _value(text: str, found: re.Match[str]) -> tuple[int, int] | None:
    """Return what to hide of the value that follows a secret's name; None if it is no secret."""
    name, at = found["name"], found.end()
    an_option = found["sep"] is None and found["comma"] is None
    if an_option and text[at] == "-":
        return None
    if BEGINS_WITH_NOTHING.match(text, at) and not (an_option and text.startswith(MASK, at)):
        return None
    if counts(name) and NUMBER.match(text, at):
        return None
    if name.lower() == "pwd" and text[at] in "/~":
        return None
    if not found["quote"] and ":" in (found["sep"] or "") and words_of(name)[-1] in _HEADERS:
        end = end_of_line(text, at, before=_before(found)[-1:])
        return at, before_backslashes(text, at, end)
    hide, end, after = one_value(text, at)
    if holds_nothing(text, hide, end, name=name) and not an_option:
        return None
    while an_option and (gap := NEXT_WORD.match(text, after)):
        hide, (_, _, after) = at, one_value(text, gap.end())
        end = after
    return hide, end
