"""The six settings that people change first, read from a command line and written back into it. PURE.

No flags of an installation are asked for: these few have kept their names. The last one given counts, as it does for
the engines.
"""

from __future__ import annotations

from collections.abc import Sequence

from deployments.engines.base import Engine
from deployments.engines.knob import MODEL


def first_command(engine: Engine, model: str) -> list[str]:
    """A command that serves this model, where there is none yet."""
    return [word.format(model=model) for word in engine.first_command]


def own_words(engine: Engine, argv: Sequence[str], *, in_image: bool) -> int | None:
    """Where the engine's own words begin; None where they cannot be told apart, as inside of ``bash -c "..."``.

    ``in_image``: the image may start the engine by itself, and all of the words are its own.
    """
    for end in range(1, len(argv) + 1):
        if engine.recognises(" ".join(argv[:end])):
            return end if len(argv[end - 1].split()) == 1 else None
    return 0 if in_image and (not argv or argv[0].startswith("-")) else None


def read_knobs(engine: Engine, argv: Sequence[str], begin: int) -> dict[str, str]:
    """What the command says of each; empty where it leaves it to the engine. ``begin``: of ``own_words``."""
    args = argv[begin:]
    found = {}
    for name, knob in engine.knobs.items():
        places = _places(args, knob.flags[0])
        found[name] = _value(args, places[-1]) if places else ""
    if not found[MODEL] and (at := _served(engine, argv, begin)) is not None:
        found[MODEL] = argv[at]
    return found


def set_knob(engine: Engine, argv: Sequence[str], begin: int, name: str, value: str) -> list[str]:
    """The command with this setting: in its old place, else at the end. An empty value takes it out, so that the
    engine decides. Raises KeyError for a setting that the engine has no flag for."""
    at = _served(engine, argv, begin) if name == MODEL else None
    if at is not None:
        return [*argv[:at], *([value] if value else []), *argv[at + 1 :]]
    args = [*argv[begin:]]
    if name == MODEL and value and _is_served(engine, argv, begin) and not _places(args, engine.knobs[MODEL].flags[0]):
        return [*argv[:begin], value, *args]  # vllm serve takes it as its first word
    for spellings in engine.knobs[name].flags:
        args = _with_flag(args, spellings, value)
    return [*argv[:begin], *args]


def _with_flag(args: list[str], spellings: Sequence[str], value: str) -> list[str]:
    places = _places(args, spellings)
    if value and places:
        at = places[-1]
        flag, equals, _ = args[at].partition("=")
        if equals:
            return [*args[:at], f"{flag}={value}", *args[at + 1 :]]
        return [*args[: at + 1], value, *args[at + 2 :]]
    if value:
        return [*args, spellings[0], value]
    for at in reversed(places):
        del args[at : at + (1 if "=" in args[at] else 2)]
    return args


def _places(args: Sequence[str], spellings: Sequence[str]) -> list[int]:
    return [
        at
        for at, word in enumerate(args)
        if _spelled(word) in spellings and ("=" in word or (at + 1 < len(args) and not args[at + 1].startswith("--")))
    ]


def _spelled(word: str) -> str:
    """The flag, as vLLM takes it with _ too."""
    flag = word.partition("=")[0]
    return flag.replace("_", "-") if flag.startswith("--") else flag


def _value(args: Sequence[str], at: int) -> str:
    _, equals, value = args[at].partition("=")
    return value if equals else args[at + 1]


def _served(engine: Engine, argv: Sequence[str], begin: int) -> int | None:
    """Where the model of ``vllm serve MODEL`` stands, which is a word of its own."""
    there = _is_served(engine, argv, begin) and begin < len(argv) and not argv[begin].startswith("-")
    return begin if there else None


def _is_served(engine: Engine, argv: Sequence[str], begin: int) -> bool:
    """Is it ``vllm serve``?"""
    return engine.key == "vllm" and begin > 0 and argv[begin - 1] == "serve"
