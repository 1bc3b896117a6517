"""Ask a machine what runs on it, and what its units and containers would start: the scripts of a look."""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from controlpanel.identity import panel_id
from deployments.plan.manager import Manager, ManagerKind
from deployments.plan.manager_answers import Told, read_told
from deployments.plan.starter import Starter, read_container_told, read_unit_told
from deployments.plan.ways import By, Way
from deployments.remote import run as remote
from deployments.remote.script import Said, build
from hosts.probe.frames import Frame, Section, Unknown, parse_frame
from hosts.probe.processes import parse_commands
from hosts.transport.base import Transport

LOOK_SECONDS = 45.0
ASKED_AS = {ManagerKind.UNIT: "unit", ManagerKind.CONTAINER: "container"}


@dataclass(frozen=True)
class Process:
    """What /proc tells of one server beside the probe's facts; ``environ`` is None where it may not be read."""

    cwd: str = ""
    environ: bytes | None = None
    program: str = ""
    """Where its command's first word leads; empty where that is not known."""
    is_same: bool = False
    """Is that the very file that runs?"""


@dataclass(frozen=True)
class Asker:
    """A link to a host, with how this login becomes root there."""

    transport: Transport
    sudo: bool
    tick: Callable[[], None]

    @property
    def as_root(self) -> list[str]:
        """In front of a command."""
        return ["sudo", "-n"] if self.sudo else []

    def commands(self) -> dict[int, tuple[str, ...]]:
        """The command line of every process that can be seen. Raises TransportError."""
        section = self._frame("commands", ()).get("commands")
        return {} if isinstance(section, Unknown) else parse_commands(section)

    def processes(self, pids: Collection[int]) -> dict[int, Process]:
        """More of these. Raises TransportError."""
        sections = self._frame("servers", pids).sections if pids else {}
        return {pid: _process(sections, pid) for pid in pids}

    def login(self) -> bytes:
        """The environment that each command of the panel finds there. Raises TransportError."""
        return self.transport.run(["cat", "/proc/self/environ"], timeout=LOOK_SECONDS, tick=self.tick).stdout

    def _frame(self, ask: str, pids: Collection[int]) -> Frame:
        token = secrets.token_hex(8)
        values = {"TOKEN": token, "ASK": ask, "PIDS": " ".join(map(str, pids))}
        head = "".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items())
        stdin = (head + _script()).encode()
        result = self.transport.run([*self.as_root, "sh", "-s"], stdin=stdin, timeout=LOOK_SECONDS, tick=self.tick)
        return parse_frame(result.stdout, token=token)

    def told(self, manager: Manager) -> Told:
        """What a unit or a container's tool says of the server. Raises TransportError."""
        if manager.kind not in ASKED_AS:
            return Told()
        said = self._said(
            "manager",
            kind=ASKED_AS[manager.kind],
            name=manager.name,
            tool=manager.tool,
            owner="" if manager.user is None else manager.user,
            become=" ".join(manager.become),
            group="",
            above="",
        )
        return read_told(((line.word, line.text) for line in said), child=None, tool=manager.tool)

    def starter(self, manager: Manager) -> Starter | Unknown:
        """What the unit or container would start. Raises TransportError."""
        way = Way(By.UNIT if manager.kind == ManagerKind.UNIT else By.CONTAINER, manager.name)
        tool = list(manager.tool_words) if way.by == By.UNIT else [manager.tool]
        root = [] if tool[:1] == ["env"] else self.as_root
        said = self._said("starter", kind=way.by, name=way.name, tool=[*root, *tool], image="", as_root=root)
        lines = [(line.word, line.rest, line.payload) for line in said]
        if way.by == By.UNIT:
            return read_unit_told(lines, name=way.name, of_login="--user" in tool)
        return read_container_told(lines)

    def _said(self, part: str, **values: object) -> list[Said]:
        named: Mapping[str, object] = {name.upper(): value for name, value in values.items()}
        common = {"PANEL": panel_id(), "DEPLOYMENT": 0, "FENCE": 0, "BOOT": "", "AS_ROOT": self.as_root}
        script = build(part, values={**common, **named})
        return remote.run(self.transport, script, timeout=LOOK_SECONDS, tick=self.tick)


def with_told(manager: Manager, told: Told) -> Manager:
    """With what its own tools say, as far as they say anything."""
    return replace(manager, told=told)


@cache
def _script() -> str:
    return Path(__file__).with_name("look.sh").read_text()


def _process(sections: Mapping[str, Section], pid: int) -> Process:
    cwd, environ, program = (sections.get(f"{name}.{pid}") for name in ("cwd", "environ", "program"))
    return Process(
        cwd=cwd.text if cwd is not None and cwd.status == 0 else "",
        environ=environ.content if environ is not None and environ.status == 0 else None,
        program=program.text if program is not None else "",
        is_same=program is not None and program.status == 0,
    )
