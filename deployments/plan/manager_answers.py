"""What a server's manager says of it by its own tools: its name, when it starts it again, who else is in it. PURE.

systemctl show prints KEY=VALUE lines (systemctl(1)); docker inspect what its template asks for; supervisorctl status
one line a program, "NAME STATE pid N, uptime ..." (supervisor 4.2).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

AT_BOOT = {"enabled": True, "enabled-runtime": False, "disabled": False, "transient": False}
"""UnitFileState of systemctl show; what is enabled in /run is forgotten at boot. Other words do not tell: a `static`
unit is started when another wants it, an `indirect` one may be, a `generated` one depends on its generator."""
ENGINE_AT_BOOT = {"always": True, "no": False, "on-failure": False, "unless-stopped": False}
"""Of a container that was stopped by its own tool, when the machine or the engine starts again."""
PODMAN_AT_BOOT = {policy: at_boot for policy, at_boot in ENGINE_AT_BOOT.items() if policy != "always"}
"""Podman has no daemon: `always` comes true at boot only where podman-restart is enabled, and that is not asked."""
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600, "d": 86_400, "w": 604_800, "month": 2_629_800}
UNITS |= {"y": 31_557_600}
"""Seconds of what systemd writes; a month and a year as it counts them."""
PROGRAM = re.compile(r"(\S+)\s+[A-Z]+\s+pid (\d+),")


@dataclass(frozen=True)
class Told:
    """All of it empty where the tool was not asked, or has none."""

    name: str = ""
    """As people call it: a container's name, a supervisor's program."""
    restart: str = ""
    """When it is started again: systemd's ``Restart=`` or a container's restart policy."""
    at_boot: bool | None = None
    """Is it started again at the next boot, even though it was stopped? None: not known."""
    triggers: tuple[str, ...] = ()
    """Sockets, timers and paths that start a unit."""
    settings: str = ""
    """The supervisor's configuration file."""
    command: str = ""
    """Of a shell or another parent."""
    members: tuple[int, ...] = ()
    """The pids in the control group of the unit or container."""
    trouble: str = ""
    """Why the tool would not say anything."""
    stop_seconds: float | None = None
    """How long a unit waits for the server to end before it kills it, for ever included. None: not told."""


NOTHING_TOLD = Told()


def read_told(lines: Iterable[tuple[str, str]], *, child: int | None, tool: str = "") -> Told:
    """What ``remote/manager.sh`` says: (word, rest).

    ``child``: the process that a supervisor has started. ``tool``: that of a container's engine.
    """
    found: dict[str, str] = {}
    members: list[int] = []
    program = ""
    for word, text in lines:
        if word == "member" and text.isdigit():
            members.append(int(text))
        elif word == "unit" and "=" in text:
            key, _, value = text.partition("=")
            found[key] = value
        elif word == "program" and (match := PROGRAM.match(text)) and int(match.group(2)) == child:
            program = match.group(1)
        elif word in ("container", "settings", "command", "trouble"):
            found[word] = text
    name, _, policy = found.get("container", "").partition(" ")
    of_engine = PODMAN_AT_BOOT if tool == "podman" else ENGINE_AT_BOOT
    at_boot = of_engine.get(policy) if name else AT_BOOT.get(found.get("UnitFileState", ""))
    return Told(
        name=program or name.removeprefix("/"),
        restart=policy or found.get("Restart", ""),
        at_boot=at_boot,
        triggers=tuple(found.get("TriggeredBy", "").split()),
        settings=found.get("settings", ""),
        command=found.get("command", ""),
        members=tuple(members),
        trouble=found.get("trouble", ""),
        stop_seconds=seconds_of(found.get("TimeoutStopUSec", "")),
    )


def seconds_of(text: str) -> float | None:
    """A time span as systemctl show writes it, such as "1min 30s" (systemd.time(7)); None for what is none."""
    if text == "infinity":
        return math.inf
    words = [re.fullmatch(r"(\d+(?:\.\d+)?)([a-z]+)", word, re.ASCII) for word in text.split()]
    if not words or any(word is None or word[2] not in UNITS for word in words):
        return None
    return sum(float(word[1]) * UNITS[word[2]] for word in words if word is not None)
