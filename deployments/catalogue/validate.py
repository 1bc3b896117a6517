"""Check a command line against the catalogue of the engine that is to read it. PURE."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from deployments.catalogue.finding import ERROR, LEVELS, NOTE, WARN, Finding
from deployments.catalogue.matching import Ambiguous, Given, Words, match
from deployments.catalogue.model import Catalogue, Flag
from deployments.catalogue.pairs import pairs_of
from deployments.catalogue.ranges import out_of_range
from deployments.catalogue.values import problem_of
from deployments.catalogue.versions import change_of

LABELS = {"sglang": "SGLang", "vllm": "vLLM", "llama_server": "llama-server"}
SHOWN_CHOICES = 12
CONFIG = "--config"
"""With it more flags come from a file on the host."""


def check(args: Sequence[str], catalogue: Catalogue) -> list[Finding]:
    """Everything to say of the engine's own words, the gravest first.

    What stops a start is an error only where the catalogue is sure; else it is a warning.
    """
    words = match(args, catalogue, positionals=len(catalogue.positionals))
    found = [
        *(_unknown(flag, catalogue) for flag in words.unknown),
        *(_ambiguous(one, catalogue) for one in words.ambiguous),
        *(finding for given in words.given for finding in _given(given, catalogue)),
        *(_stray(word, catalogue) for word in words.stray),
        *_twice(words),
        *_required(words, catalogue),
        *pairs_of(catalogue.engine, _values(words), catalogue.version),
        *_out_of_range(args, words, catalogue),
    ]
    return sorted(found, key=lambda finding: LEVELS.index(finding.level))


def _engine(catalogue: Catalogue) -> str:
    return f"{LABELS.get(catalogue.engine, catalogue.engine)} {catalogue.version}".strip()


def _sure(catalogue: Catalogue, flag: str, text: str, todo: str) -> Finding:
    """An error that stops the engine; a warning where the catalogue may lack something."""
    if catalogue.is_sure:
        return Finding(ERROR, flag, text, todo, stops=True)
    return Finding(WARN, flag, text, f"{todo} The list of flags may not be whole, so this may be wrong.")


def _unknown(flag: str, catalogue: Catalogue) -> Finding:
    change = change_of(catalogue.engine, catalogue.version, flag)
    if change is not None:
        what, instead = change
        todo = f"Write {instead} instead." if instead else "Leave it out."
        return _sure(catalogue, flag, f"{_engine(catalogue)} does not have {flag}: {what}.", todo)
    near = nearest(flag, catalogue)
    todo = f"Did you mean {near}? Else leave it out." if near else "Leave it out, or look for its new name."
    return _sure(catalogue, flag, f"{_engine(catalogue)} does not know {flag}.", todo)


def nearest(flag: str, catalogue: Catalogue) -> str:
    """The name most like a misspelt one; empty when none is."""
    as_written = flag.replace("_", "-")
    if as_written in catalogue.by_name:
        return as_written
    return next(iter(difflib.get_close_matches(as_written, catalogue.by_name, n=1, cutoff=0.75)), "")


def _ambiguous(one: Ambiguous, catalogue: Catalogue) -> Finding:
    names = one.names[:6]
    more = f" and {len(one.names) - len(names)} more" if len(one.names) > len(names) else ""
    change = change_of(catalogue.engine, catalogue.version, one.written)
    instead = change[1] if change is not None else ""
    todo = f"Write {instead} instead." if instead else "Write the flag in full."
    return _sure(catalogue, one.written, f"{one.written} could mean {', '.join(names)}{more}.", todo)


def _given(given: Given, catalogue: Catalogue) -> Iterator[Finding]:
    flag = given.flag
    if given.is_short_for:
        text = f"{given.written} is short for {given.name}, and may mean something else in another version."
        yield Finding(NOTE, given.written, text, f"Write {given.name}.")
    if flag.refused:
        yield _sure(
            catalogue, given.name, f"{_engine(catalogue)} refuses {given.name}: {flag.refused}", "Leave it out."
        )
    elif flag.deprecated:
        todo = f"Write {flag.instead} instead." if flag.instead else flag.help
        yield Finding(NOTE, given.name, f"{given.name} is deprecated in {_engine(catalogue)}.", todo)
    if given.surplus is not None:
        yield _sure(catalogue, given.name, f"{given.name} takes no value.", f"Write only {given.name}.")
    if given.too_few:
        yield _sure(catalogue, given.name, f"{given.name} lacks its value.", choices_in_words(given.flag) or "Add it.")
    for value in given.values:
        problem = problem_of(flag, value)
        if problem is not None:
            yield _sure(
                catalogue,
                given.name,
                f"{given.name} {problem}.",
                choices_in_words(given.flag, value) or "Correct the value.",
            )


def choices_in_words(flag: Flag, value: str = "") -> str:
    """The values to choose from, the nearest first; empty where any is."""
    choices = [str(choice) for choice in flag.choices or ()]
    if not choices:
        return ""
    near = difflib.get_close_matches(value, choices, n=1, cutoff=0.6)
    if near:
        return f"Did you mean {near[0]}? It takes {_listed(choices)}."
    return f"It takes {_listed(choices)}."


def _listed(choices: list[str]) -> str:
    shown = choices[:SHOWN_CHOICES]
    more = f" and {len(choices) - len(shown)} more" if len(choices) > len(shown) else ""
    return ", ".join(shown) + more


def _stray(word: str, catalogue: Catalogue) -> Finding:
    text = f"“{word[:60]}” belongs to no flag."
    return _sure(catalogue, "", text, "Leave it out, or write its flag in front of it.")


def _twice(words: Words) -> Iterator[Finding]:
    seen: dict[tuple[str, ...], Given] = {}
    for given in words.given:
        earlier = seen.get(given.flag.names)
        if earlier is not None and earlier.values != given.values and "." not in given.written:
            text = f"{given.name} is given more than once; the last value counts."
            yield Finding(WARN, given.name, text, "Keep only the one that you mean.")
        seen[given.flag.names] = given


def _required(words: Words, catalogue: Catalogue) -> Iterator[Finding]:
    there = {name for given in words.given for name in given.flag.names}
    by_place = len(catalogue.positionals) and not words.stray and catalogue.engine == "sglang"
    if CONFIG in there:
        return
    for flag in catalogue.flags:
        if flag.required and not flag.is_positional and flag.name not in there and not by_place:
            yield _sure(catalogue, flag.name, f"{flag.name} is missing; the engine needs it.", f"Add {flag.name}.")


def _out_of_range(args: Sequence[str], words: Words, catalogue: Catalogue) -> Iterator[Finding]:
    """What its source lets through and its start does not; a value of the wrong type is said already."""
    read = {given.written for given in words.given if given.values}
    said = {given.written for given in words.given for value in given.values if problem_of(given.flag, value)}
    for flag, problem in out_of_range(catalogue.engine, args):
        if flag in read - said:
            yield Finding(WARN, flag, f"{flag} {problem}.", "Correct the value.")


def _values(words: Words) -> dict[str, tuple[str, ...]]:
    """Under every spelling, so that a pair can ask for any."""
    return {name: given.values for given in words.given for name in (*given.flag.names, given.name)}
