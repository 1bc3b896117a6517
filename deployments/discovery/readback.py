"""The command of a server that runs, as a revision that starts exactly that again; or why it cannot be one. PURE."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from controlpanel.masking import SHORTEST_KNOWN
from deployments.commandline import Command, check_command
from deployments.discovery.environment import Given
from deployments.engines.base import Engine
from deployments.plan.cards import CARDS_VARIABLE
from deployments.plan.passing import API_KEY, why_not_passed

KEY_FLAG = "--api-key"
PASTE = "Paste the command into a new profile instead, as you type it."


class CannotReadBack(Exception):
    """The command cannot be read back exactly; the message says why, as sentences."""


@dataclass(frozen=True)
class ReadBack:
    """``secrets``: name -> value, by the names under which a deployment keeps them."""

    command: Command
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()
    """What a person should know of it, in sentences."""


def read_back(engine: Engine, argv: Sequence[str], *, given: Given, workdir: str, program: str) -> ReadBack:
    """Of a server that the panel will start itself. ``program``: the full path of its first word, empty: as it is.

    Raises CannotReadBack.
    """
    words, key = without_key(engine, argv)
    if program and "/" not in words[0]:
        words = [program, *words[1:]]
    secrets = dict(given.secret)
    if engine.api_key_variable in secrets:
        secrets[API_KEY] = secrets.pop(engine.api_key_variable)
    if key:
        secrets[API_KEY] = key
    plain = _without_secrets(given.plain, secrets)
    if any(_holds(word, secrets) for word in (*words, workdir)):
        raise CannotReadBack("A secret that it has stands in its command line too, where every user can read it.")
    if why := why_not_passed(engine, words, secrets):
        raise CannotReadBack(f"It has secrets ({', '.join(sorted(secrets))}) that cannot be passed on: {why}.")
    command = checked(Command(words, plain, workdir))
    return ReadBack(command, secrets, _notes(secrets, key=key, left=given.left))


def _without_secrets(plain: Mapping[str, str], secrets: dict[str, str]) -> dict[str, str]:
    """The variables that hold none of ``secrets``; one that does, whatever its name, becomes one of them."""
    holding = {name for name, value in plain.items() if _holds(value, secrets)}
    secrets |= {name: plain[name] for name in holding}
    return {name: value for name, value in plain.items() if name not in holding}


def _holds(text: str, secrets: Mapping[str, str]) -> bool:
    return any(value in text for value in secrets.values() if len(value) >= SHORTEST_KNOWN)


def read_back_managed(engine: Engine, argv: Sequence[str], *, keeper: str) -> ReadBack:
    """Of a server that ``keeper``, its unit or container, starts again: that keeps environment and directory too.

    Raises CannotReadBack.
    """
    words, key = without_key(engine, argv)
    if key:
        raise CannotReadBack(
            f"The {keeper} has the key of its API in its command line, where every user of the host can read it, and "
            "the panel passes no secrets to it. Take the key out there first."
        )
    note = f"The {keeper} starts it again; its environment and directory stay as they are written there."
    return ReadBack(checked(Command(words)), notes=(note,))


def without_key(engine: Engine, argv: Sequence[str]) -> tuple[list[str], str]:
    """The command without the key of its API, and that key; empty where it has none.

    Raises CannotReadBack for a key that cannot be told apart.
    """
    words: list[str] = []
    keys: list[str] = []
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word == KEY_FLAG and rest and engine.takes_api_key:
            keys.append(rest.pop(0))
            if rest and not rest[0].startswith("-"):
                raise CannotReadBack(f"{KEY_FLAG} has more than one value, and the panel keeps one key.")
        elif word.startswith(f"{KEY_FLAG}=") and engine.takes_api_key:
            keys.append(word.partition("=")[2])
        else:
            words.append(word)
    if len(keys) > 1:
        raise CannotReadBack(f"{KEY_FLAG} is there more than once, and the panel keeps one key.")
    return words, keys[0] if keys else ""


def checked(command: Command) -> Command:
    """Raises CannotReadBack for one that no revision may hold, or that would not be read back as it is."""
    try:
        check_command(command)
    except ValueError as problem:
        raise CannotReadBack(str(problem)) from problem
    return command


def _notes(secrets: Mapping[str, str], *, key: str, left: Sequence[str]) -> tuple[str, ...]:
    notes = []
    if key:
        notes.append(
            "The key of its API stands in its command line. It becomes a secret of the deployment, and from the first "
            "restart on it is in no command line any more."
        )
    if others := sorted(name for name in secrets if name != API_KEY or not key):
        notes.append(f"{', '.join(others)} of its environment becomes a secret of the deployment.")
    if left:
        notes.append(f"Not kept of its environment, for the panel cannot set it: {', '.join(left)}.")
    return tuple(notes)


def seeing_all_cards(read: ReadBack, *, cards_here: int, held: Collection[int]) -> ReadBack:
    """A server that was not told which cards to use, and uses others than the first ones, counts from the first card
    on (main-gpu, base-gpu-id): it must go on seeing all of them. Whoever uses the first ones finds the same where the
    panel shows it only these.

    ``held``: indices of the cards that it uses. Whether such a revision may be launched: plan/warnings.py.
    """
    command = read.command
    if CARDS_VARIABLE in command.env or not held or set(held) == set(range(len(held))):
        return read
    every = ",".join(map(str, range(cards_here)))
    note = (
        f"It sees all cards of the host and does not use the first ones, so its flags count from the first. "
        f"{CARDS_VARIABLE}={every} keeps that as it is."
    )
    return replace(
        read, command=replace(command, env={**command.env, CARDS_VARIABLE: every}), notes=(*read.notes, note)
    )
