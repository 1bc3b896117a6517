"""The flags that an engine's help text shows: the fall-back where its source is not understood. PURE.

Two kinds: what ``argparse`` prints, and what llama-server prints. A help text is for people: what it does not say
(the type of a value, whether something is required) stays unknown, so nothing is refused because of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from deployments.catalogue.model import NAME, Flag

CHOICES = re.compile(r"\{([^{}]*)\}")
DEFAULT = re.compile(r"\(default: ([^()]*)\)")
TWO_VALUES = re.compile(r"[A-Z]+ [A-Z]+")
REMOVED = re.compile(r"the argument has been removed\b.*", re.I)


def flags_of_help(text: str, *, engine: str) -> tuple[Flag, ...]:
    """Every flag that a help text explains; empty when it explains none."""
    found: dict[str, Flag] = {}
    margins = range(5) if engine == "llama_server" else range(2, 3)
    for head, words in _entries(text.replace("\r\n", "\n").split("\n"), margins):
        flag = _llama(head, words) if engine == "llama_server" else _argparse(head, words)
        if flag is not None and flag.names[0] not in found:
            found[flag.names[0]] = flag
    return tuple(found.values())


def _entries(lines: list[str], margins: range) -> Iterator[tuple[str, str]]:
    """(what stands at the margin, the explanation) of each flag: a dash behind so many blanks begins one.

    ``argparse`` puts two; with others vLLM gives examples below its list.
    """
    head, words = "", list[str]()
    for line in lines:
        indent = len(line) - len(line.lstrip(" "))
        if line.strip().startswith("-") and indent in margins and NAME.match(line.strip()):
            if head:
                yield head, " ".join(words)
            head, _, rest = re.sub(r" {2,}", "\0", _joined(line.strip())).partition("\0")
            words = [rest.replace("\0", " ").strip()]
        elif head and indent > 4:
            words.append(line.strip())
        elif head:
            yield head, " ".join(words)
            head, words = "", []
    if head:
        yield head, " ".join(words)


def _joined(line: str) -> str:
    """llama-server sets its short and long names in columns; they stay together."""
    return re.sub(r", +(?=-)", ", ", line)


def _argparse(head: str, words: str) -> Flag | None:
    """``--name, --other METAVAR``, ``--name {a,b}``, ``--name [X ...]``."""
    names, values = _names(CHOICES.sub(lambda match: "{" + match[1].replace(" ", "") + "}", head))
    if not names:
        return None
    listed = CHOICES.fullmatch(values)
    # A value of the help that is cut over lines does not end in a bracket; it is then any value.
    told = [one.strip() for one in listed[1].split(",")] if listed and "..." not in listed[1] else []
    choices = tuple(filter(None, told)) or None
    takes = "0" if not values else "*" if values.startswith("[") else "+" if "[" in values else "1"
    if takes == "*" and "..." not in values:
        takes = "?"
    return _flag(names, takes, choices if takes == "1" else None, words)


def _llama(head: str, words: str) -> Flag | None:
    """``-c, --ctx-size N``, ``-fa, --flash-attn [on|off|auto]``."""
    names, values = _names(head)
    if not names:
        return None
    # Behind the names stands nothing but what it takes: three blanks come before the explanation, or a new line.
    takes = "0" if not values else "2" if TWO_VALUES.fullmatch(values) else "1"
    listed = re.fullmatch(r"[\[<{]([\w.,|-]+)[\]>}]", values)
    options = tuple(re.split(r"[|,]", listed[1])) if listed and re.search(r"[|,]", listed[1]) else None
    many = options is not None and any(option.isupper() or ".." in option for option in options)
    return _flag(names, takes, None if many else options, words, refused=REMOVED.match(words))


def _names(head: str) -> tuple[tuple[str, ...], str]:
    """The names in front, and what stands behind the last one."""
    names: list[str] = []
    rest = head
    while match := re.match(r"(--?[A-Za-z0-9][\w.+-]*)", rest):
        names.append(match[1])
        rest = rest[match.end() :].lstrip()
        before, comma, after = rest.partition(",")
        # argparse repeats the value behind each name; choices hold commas of their own.
        if rest.startswith("{"):
            before, _, after = rest.partition("}")
            before, after, comma = before + "}", after.lstrip(" ,"), "," if after.lstrip().startswith(",") else ""
        if comma and after.lstrip().startswith("-"):
            rest = after.lstrip()
            continue
        break
    return tuple(names), rest.strip()


def _flag(
    names: tuple[str, ...],
    takes: str,
    choices: tuple[str, ...] | None,
    words: str,
    *,
    refused: re.Match[str] | None = None,
) -> Flag:
    default = DEFAULT.search(words)
    return Flag(
        names, takes, type="", choices=choices, help=" ".join(words.split())[:600],
        default=default[1] if default else None, has_default=default is not None,
        deprecated="deprecated" in words[:40].lower() or "(DEPRECATED)" in words,
        refused=refused[0] if refused is not None else "",
    )  # fmt: skip
