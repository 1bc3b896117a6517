"""Who serves now: the whole tree of a deployment's server, from one look at its host. PURE."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from deployments.plan.marks import marks, undecided
from deployments.plan.ways import AUTO, By, Way
from hosts.probe.facts import HostFacts
from hosts.probe.frames import Unknown
from hosts.probe.processes import HostIdentity, Process, ProcessTable


@dataclass(frozen=True)
class KnownLaunch:
    """What we recorded of a launch of our own."""

    launch_id: str
    boot_id: str
    pid: int | None
    start_time: int | None
    argv: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str = ""
    container: Mapping[str, Any] = field(default_factory=dict)
    started_by: Way = AUTO
    adopted: bool = False
    """Somebody else has started it."""
    ended: bool = False
    """Its end was seen."""


@dataclass(frozen=True)
class Serving:
    """``root`` gets the SIGTERM; None when only members of its tree are left. ``processes``: the whole tree."""

    root: Process | None
    processes: tuple[Process, ...]
    how: str
    is_launched: bool = False
    """The root is the very process that the known launch has recorded: by boot and start time, not by its pid alone."""

    @property
    def pids(self) -> frozenset[int]:
        """The pids of the tree."""
        return frozenset(process.pid for process in self.processes)


NOTHING = Serving(None, (), "nothing serves")


def find_serving(
    facts: HostFacts,
    *,
    launch: KnownLaunch | None,
    port: int,
    is_ours: Callable[[str], bool],
    earlier: Collection[str] = (),
) -> Serving | Unknown:
    """The server of a deployment: what we launched, else the engine that listens on its port.

    ``is_ours`` says whether a command line is a server of the deployment's engine. A listener of another kind is
    not ours; the plan names it. ``earlier``: ids of the deployment's earlier launches, for a worker may outlive
    its server by days.
    """
    if isinstance(facts.host, Unknown):
        return facts.host
    if isinstance(facts.processes, Unknown):
        return facts.processes
    launched = _launched(facts, facts.host, facts.processes, launch, earlier)
    if isinstance(launched, Unknown) or launched.processes:
        return launched
    owners = port_owners(facts, port)
    if isinstance(owners, Unknown):
        return owners
    for pid in sorted(owners):
        detail = facts.details.get(pid)
        if detail is not None and is_ours(detail.command):
            return Serving(facts.processes.by_pid.get(pid), alive(facts.processes.tree(pid)), "listens on its port")
    return NOTHING


def _launched(
    facts: HostFacts, host: HostIdentity, table: ProcessTable, launch: KnownLaunch | None, earlier: Collection[str]
) -> Serving | Unknown:
    """The recorded process and its descendants, and whatever carries a launch's marker, also outside the tree."""
    root = _recorded(host, table, launch) if launch is not None else None
    if launch is not None and _may_be_hidden(host, table, launch):
        return Unknown(
            "Whether the server that was launched last still runs cannot be seen: this machine hides other users' "
            "processes from the panel's login (/proc is mounted with hidepid)."
        )
    ours = {*earlier, *([launch.launch_id] if launch is not None else [])}
    user = root.uid if root is not None else None
    if unknown := undecided(facts, ours, server=user):
        return unknown
    found = {process.pid: process for process in (table.tree(root.pid) if root is not None else ())}
    for mark in marks(facts, server=user):
        if mark.counts and mark.launch in ours:
            found |= {process.pid: process for process in table.tree(mark.pid)}
    processes = alive(tuple(found.values()))
    how = "recorded at its launch" if root is not None else "carries the launch's marker"
    lives = root is not None and root in processes
    return Serving(root if lives else None, processes, how, is_launched=lives)


def _recorded(host: HostIdentity, table: ProcessTable, launch: KnownLaunch) -> Process | None:
    """The process that a launch recorded, if it is still that one."""
    if launch.pid is None or (launch.boot_id and launch.boot_id != host.boot_id):
        return None
    process = table.by_pid.get(launch.pid)
    return process if process is not None and process.start_time == launch.start_time else None


def _may_be_hidden(host: HostIdentity, table: ProcessTable, launch: KnownLaunch) -> bool:
    """Its process is not to be seen, and if it lives as another user it would not be either.

    What our own wrapper has started is the login's own, and seen while it lives.
    """
    own = launch.started_by.by == By.WRAPPER and not launch.adopted
    here = launch.pid is not None and launch.boot_id == host.boot_id and not launch.ended
    return here and not own and table.hides_others and launch.pid not in table.by_pid


def alive(processes: tuple[Process, ...]) -> tuple[Process, ...]:
    """Without those that have ended and only wait to be noticed."""
    return tuple(process for process in processes if not process.is_dead_zombie)


def port_owners(facts: HostFacts, port: int) -> frozenset[int] | Unknown:
    """The pids that listen on ``port``; empty when nobody does. Unknown when that cannot be seen."""
    if isinstance(facts.listeners, Unknown):
        return facts.listeners
    inodes = [listener.inode for listener in facts.listeners.all if listener.port == port]
    if not inodes:
        return frozenset()
    if isinstance(facts.files, Unknown):
        return facts.files
    owners = frozenset(pid for inode in inodes for pid in facts.files.owners_of(inode))
    return owners or Unknown(f"Somebody listens on port {port}, but this login may not see who.")
