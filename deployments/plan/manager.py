"""Who started a server and starts it again when it ends: a unit, a container engine, a supervisor, a scheduler. PURE.

A server that something restarts must be stopped through that: a signal only makes it come back. What is told here
comes from the control group of the server's process and from its ancestors, in one look at the host, and from what
the manager's own tools say (``manager_answers.py``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from deployments.plan.manager_answers import NOTHING_TOLD, Told
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
    PARENT = "process"
    SCHEDULER = "scheduler"


@dataclass(frozen=True)
class Manager:
    """``name`` as its own tools call it; ``tool`` is that tool."""

    kind: ManagerKind
    name: str
    tool: str = ""
    user: int | None = None
    """Whose own systemd a unit belongs to."""
    become: tuple[str, ...] = ()
    """How root becomes that user: a login's systemd talks to nobody else, not even to root."""
    pid: int | None = None
    """Of a supervisor, a shell or another parent."""
    group: str = ""
    """The control group of the unit or container as a whole."""
    child: int | None = None
    """Of a supervisor: the process that it started."""
    told: Told = NOTHING_TOLD

    def __str__(self) -> str:
        if self.kind == ManagerKind.SUPERVISOR and self.told.name:
            return f"{self.kind} {self.name} (program {self.told.name})"
        return f"{self.kind} {self.told.name or self.name}"

    @property
    def is_certain(self) -> bool:
        """Does it surely start the server again, or does it only wait for it, for all we know?"""
        return self.kind not in (ManagerKind.SHELL, ManagerKind.PARENT)

    @property
    def identity(self) -> tuple[str, ...]:
        """The same before and after it has started the server again; what its tools tell of it does not count."""
        return (str(self.kind), self.group or self.name, "" if self.pid is None else str(self.pid))

    @property
    def starts_one_server(self) -> bool:
        """Is whatever it starts this server? One that looks after many programs, or runs commands, is not so."""
        one = self.kind == ManagerKind.SUPERVISOR and self.name in ONE_PROGRAM
        return one or self.kind in (ManagerKind.UNIT, ManagerKind.CONTAINER)

    @property
    def can_be_asked(self) -> bool:
        """Do we know a command that has it stop the server?"""
        return bool(self._tool_argv("stop", sudo=False))

    def stop_argv(self, *, seconds: int, sudo: bool) -> list[str]:
        """The command that has it stop the server within ``seconds``; empty where there is none that we know."""
        within = ["-t", str(seconds)] if self.kind == ManagerKind.CONTAINER else []
        return self._tool_argv("stop", *within, sudo=sudo)

    def start_argv(self, *, sudo: bool) -> list[str]:
        """The command that has it start the server again."""
        return self._tool_argv("start", sudo=sudo)

    @property
    def tool_words(self) -> list[str]:
        """How its tool is called by whoever may, before the verb."""
        return self._tool_argv("", sudo=False)[:-2]

    def _tool_argv(self, verb: str, *options: str, sudo: bool) -> list[str]:
        as_root = ["sudo", "-n"] if sudo else []
        if self.kind == ManagerKind.UNIT and self.user is not None:
            as_user = [*as_root, *self.become] if self.become else []
            return [*as_user, "env", f"XDG_RUNTIME_DIR=/run/user/{self.user}", "systemctl", "--user", verb, self.name]
        if self.kind == ManagerKind.UNIT:
            return [*as_root, "systemctl", verb, self.name]
        if self.kind == ManagerKind.CONTAINER and self.tool:
            return [*as_root, self.tool, verb, *options, self.name]
        if self.kind == ManagerKind.SUPERVISOR and self.tool and self.told.name:
            settings = ["-c", self.told.settings] if self.told.settings else []
            return [*as_root, self.tool, *settings, verb, self.told.name]
        return []


LOGINS = re.compile(r"(?:sshd?(?:@.*)?|getty@.*|cron|crond|atd|user@\d+|lxc.*|pve-container@.*|dropbear)\.service")
"""Units in which people and their left-overs run: a server found there was started by hand."""
ENGINES = re.compile(r"(?:docker|containerd|podman|crio|supervisor|supervisord)\.service")
"""Units of what manages others; the server itself is recognised by its own control group or its ancestors."""
KUBERNETES = re.compile(r"kubepods")
SLURM = re.compile(r"(?:^|/)(?:slurm|slurmstepd)[^/]*")
CONTAINER = re.compile(r"(docker|libpod|cri-containerd)[-/]([0-9a-f]{64})(?:\.scope)?(?=/|$)")
TOOLS = {"docker": "docker", "libpod": "podman"}
UNIT = re.compile(r"([^/]+\.service)(?=/|$)")
USERS_SYSTEMD = re.compile(r"user@(\d+)\.service/")
SUPERVISORS = {"supervisord": "supervisord", "runsv": "runit", "s6-supervise": "s6", "pm2": "pm2", "circusd": "circus"}
ONE_PROGRAM = frozenset({"runit", "s6"})
"""Supervisors of which a process of its own looks after each program."""
SUPERVISOR_TOOLS = {"supervisord": "supervisorctl"}
SCHEDULERS = {"slurmstepd": "Slurm", "pbs_mom": "PBS", "sge_shepherd": "Grid Engine", "condor_starter": "HTCondor"}
NODE_DAEMONS = {"slurmd": "Slurm", "kubelet": "Kubernetes", "k3s-server": "Kubernetes", "k3s-agent": "Kubernetes"}
NODE_DAEMONS |= {"pbs_mom": "PBS", "sge_execd": "Grid Engine", "condor_startd": "HTCondor"}
"""What runs on every node of a scheduler, job or no job."""
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "fish"})
TERMINALS = frozenset({"tmux", "screen", "SCREEN"})
LOGIN_PARENTS = frozenset({"sshd", "sshd-session", "systemd", "init", "login", "lxc-attach", "dropbear", *TERMINALS})
"""Parents that start what a person asks for, once."""
PASSED_ON = frozenset({"sudo", "su", "runuser", "doas", "timeout", "nohup", "numactl", "conda", "uv", "script", "time"})
PASSED_ON |= {"tini", "dumb-init", "docker-init", "catatonit"}
"""Parents that wait for one command and end with it; what looks after them looks after the server."""
PARTS = ("vllm", "VLLM::", "sglang")
"""How the names of an engine's own processes begin: the first of several API servers has one as its parent."""
MAX_ANCESTORS = 64
LAUNCH_WRAPPER = re.compile(r"sh (/\S*/\.relaunch/[^/\s]+/[^/\s]+/launches/([0-9a-f-]{36}))/run \1(?: \S+)?")
"""How a launch's wrapper is started (remote/start.sh), by whichever panel."""


def find_manager(facts: HostFacts, serving: Serving) -> Manager | Unknown | None:
    """What looks after the server; None when nobody does. Unknown when its processes could not be looked at."""
    root = serving.root
    if root is None:
        return None
    if isinstance(facts.processes, Unknown):
        return facts.processes
    above = ancestors(facts.processes, root)
    if root.pid not in facts.details:
        return Unknown(f"The host did not say in which control group process {root.pid} is.")
    base, cgroup = _own_cgroup(facts, root.pid)
    found = (
        _scheduler(cgroup, above) or _container(cgroup) or _supervisor(root, above) or _unit(cgroup) or waiting(above)
    )
    if found is None:
        return None
    return replace(found, group=base + found.group if found.group else "", become=_become(facts, found.user))


def _become(facts: HostFacts, user: int | None) -> tuple[str, ...]:
    if user is None or (not isinstance(facts.host, Unknown) and facts.host.uid == user):
        return ()
    return ("setpriv", f"--reuid={user}", "--clear-groups")


def _own_cgroup(facts: HostFacts, pid: int) -> tuple[str, str]:
    """(that of process 1, the control group below it): what is above it, of a machine that is itself a container, is
    not its own affair."""
    detail, init = facts.details.get(pid), facts.details.get(1)
    base = (init.cgroup if init is not None else "").removesuffix("/init.scope").rstrip("/")
    cgroup = detail.cgroup if detail is not None else ""
    return (base, cgroup.removeprefix(base)) if cgroup.startswith(base) else ("", cgroup)


def ancestors(table: ProcessTable, root: Process) -> tuple[Process, ...]:
    """Parent, grandparent and so on, init left out."""
    found: list[Process] = []
    process = table.by_pid.get(root.parent)
    while process is not None and process.pid > 1 and len(found) < MAX_ANCESTORS:
        found.append(process)
        process = table.by_pid.get(process.parent)
    return tuple(found)


def _scheduler(cgroup: str, above: Sequence[Process]) -> Manager | None:
    name = next((SCHEDULERS[process.comm] for process in above if process.comm in SCHEDULERS), None)
    name = name or ("Kubernetes" if KUBERNETES.search(cgroup) else "Slurm" if SLURM.search(cgroup) else None)
    return Manager(ManagerKind.SCHEDULER, name) if name else None


def _container(cgroup: str) -> Manager | None:
    found = CONTAINER.search(cgroup)
    if not found:
        return None
    tool = TOOLS.get(found.group(1), "")
    return Manager(ManagerKind.CONTAINER, found.group(2)[:12], tool, group=cgroup[: found.end()])


def _supervisor(root: Process, above: Sequence[Process]) -> Manager | None:
    for child, process in zip((root, *above), above, strict=False):
        if name := SUPERVISORS.get(process.comm):
            tool = SUPERVISOR_TOOLS.get(name, "")
            return Manager(ManagerKind.SUPERVISOR, name, tool, pid=process.pid, child=child.pid)
    return None


def _unit(cgroup: str) -> Manager | None:
    """The innermost unit that is neither a login's nor a manager's own."""
    units = list(UNIT.finditer(cgroup))
    if not units or LOGINS.fullmatch(units[-1].group(1)) or ENGINES.fullmatch(units[-1].group(1)):
        return None
    users = USERS_SYSTEMD.search(cgroup)
    user = int(users.group(1)) if users else None
    return Manager(ManagerKind.UNIT, units[-1].group(1), user=user, group=cgroup[: units[-1].end()])


def waiting(above: Sequence[Process]) -> Manager | None:
    """Whoever waits for the server, perhaps a shell in tmux, may run a loop around it."""
    left = [process for process in above if not _is_passed_on(process.comm)]
    if not left or _terminal(left[0].comm) or left[0].comm in LOGIN_PARENTS:
        return None
    terminal = next((name for process in left if (name := _terminal(process.comm))), "")
    kind = ManagerKind.SHELL if left[0].comm in SHELLS else ManagerKind.PARENT
    place = f" in {terminal}" if terminal else ""
    return Manager(kind, f"{left[0].comm} (pid {left[0].pid}){place}", pid=left[0].pid)


def launch_waited_for(command: str) -> str:
    """The launch whose wrapper a shell of this command line is, of whichever panel: it starts its server once, and ends
    with it. Empty for any other shell.
    """
    found = LAUNCH_WRAPPER.fullmatch(command.strip())
    return found.group(2) if found else ""


def _is_passed_on(comm: str) -> bool:
    return comm in PASSED_ON or comm.startswith(PARTS)


def is_wrapper(comm: str) -> bool:
    """Does a process of this name only start the server? A script that is run by its own name has that name."""
    return _is_passed_on(comm) or comm in SHELLS or comm.endswith(".sh")


def _terminal(comm: str) -> str:
    """`tmux: server` and `SCREEN`, as people call them."""
    name = comm.partition(":")[0]
    return name.lower() if name in TERMINALS else ""


def scheduler_of(facts: HostFacts) -> str:
    """The scheduler that this machine is a node of; empty for none that shows."""
    if isinstance(facts.processes, Unknown):
        return ""
    running = {process.comm for process in facts.processes.by_pid.values() if not process.is_dead_zombie}
    return next((name for comm, name in NODE_DAEMONS.items() if comm in running), "")


def beside(facts: HostFacts, serving: Serving, manager: Manager | None) -> tuple[Process, ...]:
    """Who else is in the server's unit or container and would be ended with it: not of its tree, nor what wraps it.

    A program above the server that is more than a wrapper, a notebook's for one, has work of its own.
    """
    if manager is None or isinstance(facts.processes, Unknown) or serving.root is None:
        return ()
    table = facts.processes
    known = serving.pids | {process.pid for process in ancestors(table, serving.root) if is_wrapper(process.comm)}
    others = [table.by_pid[pid] for pid in manager.told.members if pid in table.by_pid and pid not in known]
    return tuple(process for process in others if not process.is_dead_zombie)
