"""Find a flag in a catalogue, and set it in the engine's own words of a command or take it out. PURE."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from deployments.catalogue.matching import NUMBER, Given, match
from deployments.catalogue.model import Catalogue, Flag
from deployments.catalogue.validate import choices_in_words
from deployments.catalogue.values import problem_of


class CannotSet(ValueError):
    """The value is none for this flag; the message says what to write instead."""


def search(catalogue: Catalogue, text: str) -> list[Flag]:
    """The flags that have every word of ``text`` in a spelling, a choice or the help; those named so come first."""
    words = [word.lower().replace("_", "-").lstrip("-") for word in text.split()]

    def place(flag: Flag) -> int | None:
        names = " ".join(flag.names).lower()
        if all(word in names for word in words):
            return 0 if any(name.lstrip("-").startswith(words[0]) for name in flag.names) else 1
        choices = " ".join(map(str, flag.choices or ()))
        told = f"{names} {choices} {flag.help}".lower().replace("_", "-")
        return 2 if all(word in told for word in words) else None

    if not any(words):
        return []
    places = ((place(flag), flag) for flag in catalogue.flags if not flag.is_positional)
    return [
        flag for at, flag in sorted(((at, flag) for at, flag in places if at is not None), key=lambda each: each[0])
    ]


def given(args: Sequence[str], catalogue: Catalogue) -> dict[str, Given]:
    """The flags that the words have, by the name people know them by, in their order; the last one of several counts,
    as for the engine."""
    words = match(args, catalogue, positionals=len(catalogue.positionals))
    return {each.flag.name: each for each in words.given}


def set_flag(args: Sequence[str], catalogue: Catalogue, name: str, text: str) -> list[str]:
    """The words with this flag at the value that was typed: in its old place, else at the end.

    ``name``: any of its spellings, for there are some that mean the opposite. Raises CannotSet.
    """
    flag = catalogue.by_name.get(name)
    if flag is None:
        raise CannotSet(f"{name} is no flag of this engine.")
    words = [name] if flag.takes == "0" else _written(catalogue, flag, text)
    before = given(args, catalogue).get(flag.name)
    first, behind = before.at if before is not None else (len(args), len(args))
    return [*args[:first], *words, *args[behind:]]


def drop_flag(args: Sequence[str], catalogue: Catalogue, name: str) -> list[str]:
    """The words without this flag, however often it is there."""
    kept = list(args)
    while (found := given(kept, catalogue).get(name)) is not None:
        del kept[found.at[0] : found.at[1]]
    return kept


def _written(catalogue: Catalogue, flag: Flag, text: str) -> list[str]:
    values = _values(flag, text)
    if catalogue.is_sure:
        _refuse_wrong(flag, values)
    hidden = len(values) == 1 and values[0].startswith("-") and not NUMBER.fullmatch(values[0])
    if hidden and catalogue.engine != "llama_server":  # argparse would take it for a flag; that one takes any word
        return [f"{flag.name}={values[0]}"]
    return [flag.name, *values]


def _refuse_wrong(flag: Flag, values: Sequence[str]) -> None:
    for value in values:
        if (problem := problem_of(flag, value)) is not None:
            raise CannotSet(f"{flag.name} {problem}. {choices_in_words(flag, value)}".strip())


def _values(flag: Flag, text: str) -> list[str]:
    text = text.strip()
    if flag.takes in ("1", "?"):
        if not text and flag.takes == "1":
            raise CannotSet(f"Write a value for {flag.name}.")
        return [text] if text else []
    try:
        values = shlex.split(text)
    except ValueError:
        raise CannotSet(f"In the value of {flag.name} a quotation mark is not closed.") from None
    if flag.takes == "+" and not values:
        raise CannotSet(f"Write at least one value for {flag.name}, with blanks between them.")
    if flag.takes.isdigit() and len(values) != int(flag.takes):
        raise CannotSet(f"{flag.name} takes {flag.takes} values, with blanks between them.")
    return values
