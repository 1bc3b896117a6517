"""How what serves compares with another recipe: the settings that differ, and a few words about them. PURE."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from deployments.engines.configuration import is_same, key_of
from deployments.flags import FlagRow, flags_of

PROGRAMS = ("sglang", "vllm", "llama-server")
MODULES = {"sglang.launch_server": "sglang serve", "vllm.entrypoints.openai.api_server": "vllm serve"}
"""Two ways to start the same."""
SERVE = {"sglang serve": "--model-path", "vllm serve": "--model"}
MOST_IN_WORDS = 3
OURS = re.compile(r"/relaunch\.settings\.yaml$|/relaunch(?:-[^/]+)?/settings\.yaml$|/\.relaunch/.+/settings\.yaml$")
"""Files with an engine's key, which a unit or container goes on to be told of when it is started by itself."""


def differing(
    running: Mapping[str, str], other: Mapping[str, str], *, aliases: Mapping[str, str]
) -> tuple[FlagRow, ...]:
    """The settings that are not the same: one flag under two spellings, or one value in other words, is."""
    left, right = _by_key(running, aliases), _by_key(other, aliases)
    rows = []
    for key in dict.fromkeys([*left, *right]):
        name, mine = left.get(key, (right.get(key, ("", ""))[0], None))
        theirs = right[key][1] if key in right else None
        if mine != theirs and (mine is None or theirs is None or not is_same(mine, theirs)):
            rows.append(FlagRow(name, mine, theirs))
    return tuple(rows)


def _by_key(settings: Mapping[str, str], aliases: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    named = settings.items()
    return {key_of(name, (), aliases) if name.startswith("-") else name: (name, value) for name, value in named}


def found_settings(argv: Sequence[str]) -> dict[str, str]:
    """Of a server that somebody else has started: its flags, and its command without the way to its program.

    Where it finds a key that the panel has given it is no setting of anybody.
    """
    found = {name: value for name, value in flags_of(argv).items() if name != "--config" or not OURS.search(value)}
    return comparable(found)


def comparable(settings: Mapping[str, str]) -> dict[str, str]:
    """What can be compared with such a server: its environment and its directory are not known.

    Its program may have been reached through a wrapper, and a script shows its interpreter instead. A model that is
    named by its place is the same as one named by its flag.
    """
    flags = {name: value for name, value in settings.items() if name.startswith("-")}
    words = _core(settings.get("command", "")).split()
    for serve, flag in SERVE.items():
        if words[:2] == serve.split() and len(words) > 2 and flag not in flags:
            return {"command": serve, flag: " ".join(words[2:]), **flags}
    return {"command": " ".join(words), **flags}


def _core(command: str) -> str:
    words = command.split()
    for position, word in enumerate(words):
        if word == "-m" and words[position + 1 : position + 2] != []:
            return " ".join([MODULES.get(words[position + 1], f"-m {words[position + 1]}"), *words[position + 2 :]])
        if PurePosixPath(word).name in PROGRAMS:
            return " ".join([PurePosixPath(word).name, *words[position + 1 :]])
    return command


def in_words(rows: Collection[FlagRow], *, other: str) -> str:
    """``speculative-num-steps 1, proven 3; ...``: ``other`` is what the right side is called."""
    named = [f"{row.name.lstrip('-')} {row.left or 'not set'}, {other} {row.right or 'not set'}" for row in rows]
    more = len(named) - MOST_IN_WORDS
    return "; ".join(named[:MOST_IN_WORDS]) + (f"; and {more} more" if more > 0 else "")


def drift(now: Mapping[str, Any], then: Mapping[str, Any], *, asked: Collection[FlagRow]) -> tuple[FlagRow, ...]:
    """Settings that the engine runs with now and did not when it was proven, though the flags do not say so.

    ``now``, ``then``: two configurations as stored. ``asked``: flags that differ, which say it for themselves.
    """
    left, right = _effective(now), _effective(then)
    named = {row.name for row in asked}
    return tuple(
        FlagRow(name, left[name], right[name])
        for name in left
        if name in right and name not in named and not is_same(left[name], right[name])
    )


def _effective(stored: Mapping[str, Any]) -> dict[str, str]:
    rows = stored.get("rows", [])
    return {row["name"]: row["effective"] for row in rows if row["effective"] is not None}
