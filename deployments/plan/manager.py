"""Who started a server and starts it again when it ends: a unit, a container engine, a supervisor, a scheduler. PURE.

A server that something restarts must be stopped through that: a signal only makes it come back. What is told here
comes from the control group of the server's process and from its ancestors, in one look at the host.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from deployments.plan.serving import Serving
from hosts.probe.facts import HostFacts
from hosts.probe.frames import Unknown
from hosts.probe.processes import Process, ProcessTable


class ManagerKind(StrEnum):
    """What looks after a server."""

    UNIT = "systemd unit"
    CONTAINER = "container"
    SUPERVISOR = "supervisor"
    SHELL = "shell"
    SCHEDULER = "scheduler"


@dataclass(frozen=True)
class Manager:
    """``name`` as its own tools call it; ``user`` whether it is a unit of a login's own systemd."""

    kind: ManagerKind
    name: str
    user: bool = False

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    def stop_argv(self, *, seconds: int, sudo: bool) -> list[str]:
        """The command that has it stop the server within ``seconds``; empty where there is none that we know."""
        as_root = ["sudo", "-n"] if sudo else []
        if self.kind == ManagerKind.UNIT and self.user:
            return ["systemctl", "--user", "stop", self.name]
        if self.kind == ManagerKind.UNIT:
            return [*as_root, "systemctl", "stop", self.name]
        if self.kind == ManagerKind.CONTAINER:
            return [*as_root, "docker", "stop", "--time", str(seconds), self.name]
        return []


LOGINS = re.compile(r"(?:sshd?(?:@.*)?|getty@.*|cron|crond|atd|user@\d+|lxc.*|pve-container@.*|dropbear)\.service")
"""Units in which people and their left-overs run: a server found there was started by hand."""
ENGINES = re.compile(r"(?:docker|containerd|podman|crio|supervisor|supervisord)\.service")
"""Units of what manages others; the server itself is recognised by its own control group or its ancestors."""
KUBERNETES = re.compile(r"kubepods")
SLURM = re.compile(r"(?:^|/)(?:slurm|slurmstepd)[^/]*")
CONTAINER = re.compile(r"(?:docker|libpod|cri-containerd)[-/]([0-9a-f]{64})(?:\.scope)?(?:/|$)")
UNIT = re.compile(r"([^/]+\.service)")
SUPERVISORS = {"supervisord": "supervisord", "runsv": "runit", "s6-supervise": "s6", "pm2": "pm2", "circusd": "circus"}
SCHEDULERS = {"slurmstepd": "Slurm", "pbs_mom": "PBS", "sge_shepherd": "Grid Engine", "condor_starter": "HTCondor"}
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "fish"})
TERMINALS = frozenset({"tmux", "screen", "SCREEN"})
MAX_ANCESTORS = 64


def find_manager(facts: HostFacts, serving: Serving) -> Manager | Unknown | None:
    """What looks after the server; None when nobody does. Unknown when its processes could not be looked at."""
    root = serving.root
    if root is None:
        return None
    if isinstance(facts.processes, Unknown):
        return facts.processes
    ancestors = _ancestors(facts.processes, root)
    if root.pid not in facts.details:
        return Unknown(f"The host did not say in which control group process {root.pid} is.")
    cgroup = _own_cgroup(facts, root.pid)
    return (
        _scheduler(cgroup, ancestors)
        or _container(cgroup)
        or _supervisor(ancestors)
        or _unit(cgroup)
        or _shell(ancestors)
    )


def _own_cgroup(facts: HostFacts, pid: int) -> str:
    """The control group below that of process 1: what is above it, of a machine that is itself a container, is not its
    own affair."""
    detail, init = facts.details.get(pid), facts.details.get(1)
    base = (init.cgroup if init is not None else "").removesuffix("/init.scope").rstrip("/")
    return detail.cgroup.removeprefix(base) if detail is not None else ""


def _ancestors(table: ProcessTable, root: Process) -> tuple[Process, ...]:
    """Parent, grandparent and so on, init left out."""
    found: list[Process] = []
    process = table.by_pid.get(root.parent)
    while process is not None and process.pid > 1 and len(found) < MAX_ANCESTORS:
        found.append(process)
        process = table.by_pid.get(process.parent)
    return tuple(found)


def _scheduler(cgroup: str, ancestors: tuple[Process, ...]) -> Manager | None:
    name = next((SCHEDULERS[process.comm] for process in ancestors if process.comm in SCHEDULERS), None)
    name = name or ("Kubernetes" if KUBERNETES.search(cgroup) else "Slurm" if SLURM.search(cgroup) else None)
    return Manager(ManagerKind.SCHEDULER, name) if name else None


def _container(cgroup: str) -> Manager | None:
    found = CONTAINER.search(cgroup)
    return Manager(ManagerKind.CONTAINER, found.group(1)[:12]) if found else None


def _supervisor(ancestors: tuple[Process, ...]) -> Manager | None:
    name = next((SUPERVISORS[process.comm] for process in ancestors if process.comm in SUPERVISORS), None)
    return Manager(ManagerKind.SUPERVISOR, name) if name else None


def _unit(cgroup: str) -> Manager | None:
    """The innermost unit that is neither a login's nor a manager's own."""
    units: list[str] = UNIT.findall(cgroup)
    if not units or LOGINS.fullmatch(units[-1]) or ENGINES.fullmatch(units[-1]):
        return None
    return Manager(ManagerKind.UNIT, units[-1], user=any(unit.startswith("user@") for unit in units[:-1]))


def _shell(ancestors: tuple[Process, ...]) -> Manager | None:
    """A shell that waits for the server, perhaps in tmux, may run a loop around it."""
    if not ancestors or ancestors[0].comm not in SHELLS:
        return None
    terminal = next((process.comm for process in ancestors if process.comm.split(":")[0] in TERMINALS), "")
    place = f" in {terminal.split(':')[0].lower()}" if terminal else ""
    return Manager(ManagerKind.SHELL, f"{ancestors[0].comm} (pid {ancestors[0].pid}){place}")
