"""How secrets reach a server without anybody seeing them, and which commands would lose them on the way. PURE."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Sequence
from pathlib import PurePosixPath

from deployments.engines.base import Engine
from deployments.plan.unit_file import environment_line

API_KEY = "API key"
"""Stands for the key that the server's own API asks for: each engine takes it in its own way. The other names are those
of environment variables."""
ROUTER_KEY = "Router key"
"""Stands for the key that a router asks for: the panel sends it in the requests of traffic hooks; no server gets it."""
IN_BETWEEN = frozenset({"docker", "podman", "nerdctl", "sudo", "doas", "su", "systemd-run", "ssh"})
"""Programs that start the server in another environment than their own."""
SETTINGS_FLAG = "--config"
SETTINGS_INSIDE = "/run/relaunch/settings.yaml"
"""Where a container finds the engine's own file."""


def variables_of(engine: Engine, names: Collection[str]) -> tuple[str, ...]:
    """Those that the server's environment gets, in order; the API key under its variable, if the engine reads one."""
    found = {engine.api_key_variable if name == API_KEY else name for name in names}
    return tuple(sorted(filter(None, found)))


def by_settings(engine: Engine, names: Collection[str]) -> bool:
    """Does the engine get its API key by its own file?"""
    return API_KEY in names and bool(engine.api_key_setting)


def in_environment(engine: Engine, secrets: Sequence[tuple[str, str]]) -> str:
    """Of (name, value): those that the server's environment gets, as shell text; the API key under its variable."""
    named = [(engine.api_key_variable if name == API_KEY else name, value) for name, value in secrets]
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in named if name)


def in_env_file(engine: Engine, secrets: Sequence[tuple[str, str]]) -> str:
    """The same as lines of a file for ``docker run --env-file``, which takes a value as it stands."""
    named = [(engine.api_key_variable if name == API_KEY else name, value) for name, value in secrets]
    return "\n".join(f"{name}={value}" for name, value in named if name)


def in_unit_file(engine: Engine, secrets: Sequence[tuple[str, str]]) -> str:
    """The same as lines of a file for ``EnvironmentFile=`` of a unit."""
    named = [(engine.api_key_variable if name == API_KEY else name, value) for name, value in secrets]
    return "\n".join(environment_line(name, value) for name, value in named if name)


def in_compose_file(engine: Engine, secrets: Sequence[tuple[str, str]]) -> str:
    """The same as lines of a file for ``env_file`` of compose, which fills in nothing between single quotes.

    Raises ValueError for a value that it cannot be given (``is_odd_for_compose``).
    """
    named = [(engine.api_key_variable if name == API_KEY else name, value) for name, value in secrets]
    if odd := next((name for name, value in named if name and is_odd_for_compose(value)), ""):
        raise ValueError(f"The value of {odd} cannot be written for docker compose.")
    return "\n".join("{}='{}'".format(name, value.replace("'", "\\'")) for name, value in named if name)


def is_odd_for_compose(value: str) -> bool:
    """Only a quotation mark is escaped between single quotes, so a backslash before one means something else
    (compose-go, dotenv/parser.go)."""
    return "\\'" in value or value.endswith("\\")


def in_settings(engine: Engine, secrets: Sequence[tuple[str, str]]) -> str:
    """Of (name, value): the API key of an engine that reads no variable, as YAML. A text of JSON is one of YAML."""
    key = dict(secrets).get(API_KEY)
    return f"{engine.api_key_setting}: {json.dumps(key)}" if key and engine.api_key_setting else ""


def why_not_in_container(
    engine: Engine, options: Sequence[str], names: Collection[str], argv: Sequence[str] = ()
) -> str:
    """Why a container that is made with these options, for this command, would not get the secrets; empty when it gets
    them."""
    given = {word.removeprefix("--env=").partition("=")[0] for word in options}
    if twice := next((name for name in variables_of(engine, names) if name in given), ""):
        return f"its options set {twice} themselves, and that would win"
    return _why_no_settings(engine, argv) if by_settings(engine, names) else ""


def why_not_passed(engine: Engine, argv: Sequence[str], names: Collection[str]) -> str:
    """Why the server of this command would not get the secrets; empty when it gets them."""
    if not names:
        return ""
    if between := next((word for word in argv[:3] if PurePosixPath(word).name in IN_BETWEEN), ""):
        return f"{PurePosixPath(between).name} starts the server in an environment of its own"
    if API_KEY not in names:
        return ""
    if not engine.takes_api_key:
        return f"the panel does not know how {engine.label} takes a key for its API"
    return _why_no_settings(engine, argv) if engine.api_key_setting else ""


def _why_no_settings(engine: Engine, argv: Sequence[str]) -> str:
    if any(word == SETTINGS_FLAG or word.startswith(f"{SETTINGS_FLAG}=") for word in argv):
        return f"the command has its own {SETTINGS_FLAG}, and {engine.label} reads one such file only"
    if not engine.recognises(" ".join(word for word in argv if not any(letter.isspace() for letter in word))):
        return f"the command does not start {engine.label} itself, so it cannot be told where its key is"
    return ""
