"""The port of the host behind which a server answers, in a container too. PURE."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from deployments.commandline.command import Command
from deployments.commandline.container import inside, options_of
from deployments.engines.base import Engine

PUBLISHED = re.compile(
    r"(?:(?:\[[^\]]*\]|[^:]*):)?(?P<host>[0-9]*(?:-[0-9]+)?):(?P<inner>[0-9]+(?:-[0-9]+)?)(?:/(?P<kind>\w+))?"
)
"""[ADDRESS:]HOST:INNER[/KIND], each a port or a range."""
AT_RANDOM = "-p {said} lets a port of the host be chosen at random. Write -p {port}:{port}."


def said_port(command: Command, engine: Engine) -> str | None:
    """What the command itself says for its port; in a container that is the port inside. None where it says nothing."""
    return engine.flag(inside(command.argv), engine.port_flags)


def port_of(command: Command, engine: Engine) -> int:
    """The port of the host that this command answers on. Raises ValueError as ``host_port`` does."""
    port = engine.port(inside(command.argv))
    return host_port(command.container, port) if command.container else port


def host_port(container: Mapping[str, Any], port: int) -> int:
    """Where the host finds what listens on ``port`` of the container.

    Raises ValueError with a sentence where no port leads there, or one that nobody knows beforehand.
    """
    published: list[str] = []
    for option in options_of(container):
        if option.name in ("--network", "--net") and option.value == "host":
            return port
        if option.name == "--publish":
            published.append(option.value or "")
    for said in published:
        if (found := _leads_to(said, port)) is not None:
            return found
    if published:
        raise ValueError(
            f"The server listens on port {port} in its container, but -p {published[-1]} leads to another one. Write "
            f"-p {port}:{port}, or give the server the other port."
        )
    raise ValueError(
        f"No port of the host leads into the container. Write -p {port}:{port} or --network host after run."
    )


def _leads_to(said: str, port: int) -> int | None:
    """The host's port, if this ``-p`` is for ``port``. Raises ValueError for one that is chosen at random."""
    found = PUBLISHED.fullmatch(said)
    if found is None:
        if said.partition("/")[0] == str(port):
            raise ValueError(AT_RANDOM.format(said=said, port=port))
        return None
    first, last = _range(found["inner"])
    if (found["kind"] or "tcp") != "tcp" or not first <= port <= last:
        return None
    if not found["host"]:
        raise ValueError(AT_RANDOM.format(said=said, port=port))
    return _range(found["host"])[0] + port - first


def _range(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return int(first), int(last or first)
