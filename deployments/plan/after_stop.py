"""Has a server come back by itself after its stop, and what has started it again? PURE.

Only what started after the stop was recorded is looked at. It is the server again when it has the same command or is
looked after by the same. Any other server of the engine that holds the deployment's cards or its port is told too, as
one that has been started meanwhile; not one that the panel has launched for another deployment. And what the old
server forked after the record was made, and left behind, has not come back: it is left over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from deployments.decisions.stop_ladder import Record
from deployments.plan.cards import deployment_of
from deployments.plan.manager import LOGINS, UNIT, Manager, ManagerKind, ancestors, find_manager, waiting
from deployments.plan.marks import launch_of, marks, undecided
from deployments.plan.serving import Serving
from deployments.plan.words import shortened
from hosts.probe.facts import HostFacts
from hosts.probe.frames import Unknown
from hosts.probe.processes import Process, ProcessTable


@dataclass(frozen=True)
class Stopped:
    """What is known of the server that was stopped; ``record``: as it was before the first signal."""

    record: Record
    others: Mapping[str, str] = field(default_factory=dict)
    """launch -> deployment, of what the panel has launched for others."""
    launches: frozenset[str] = frozenset()
    """Of this deployment."""

    def was_there(self, process: Process) -> bool:
        """Had it started when the record was made? What is not known counts as yes: nobody has come back then."""
        return self.record.newest is None or process.start_time <= self.record.newest


@dataclass(frozen=True)
class Back:
    """A server that was started after the stop. ``by``: what did it, as a sentence."""

    root: Process
    command: str
    pids: frozenset[int]
    by: str
    is_same: bool = True
    """Is it the server that was stopped, or may it as well be somebody else's?"""

    def __str__(self) -> str:
        what = "The server has come back by itself" if self.is_same else "A server of this engine was started meanwhile"
        return f"{what} as pid {self.root.pid} ({self.command}): {self.by}"


def left_over(facts: HostFacts, stopped: Stopped) -> tuple[Process, ...]:
    """Who belongs to the server that was stopped, and was not recorded: it carries the marker of a launch of this
    deployment or writes to its log, or is of a group or session that the server's own process began.
    """
    if isinstance(facts.processes, Unknown):
        return ()
    table, root = facts.processes, stopped.record.root
    pids = {
        mark.pid for mark in marks(facts, server=stopped.record.uid) if mark.counts and mark.launch in stopped.launches
    }
    # A number is not given away while a group or session has it; whoever has it now has begun his own.
    leader = None if root is None else table.by_pid.get(root[0])
    if root is not None and (leader is None or leader.start_time == root[1]):
        alike = [each for each in table.by_pid.values() if root[0] in (each.group, each.session)]
        # Who was there before the stop was approved and is not of the record was no part of what is stopped.
        pids |= {process.pid for process in alike if not stopped.was_there(process)}
    found = {process.pid: process for pid in sorted(pids) for process in table.tree(pid)}
    recorded = set(stopped.record.processes)
    return tuple(
        process
        for process in found.values()
        if (process.pid, process.start_time) not in recorded and not process.is_dead_zombie
    )


def survivors(facts: HostFacts, stopped: Stopped | None) -> tuple[int, ...] | None:
    """Processes of the old server that still live, recorded or left over; those of another boot cannot. None: could not
    be seen.
    """
    if stopped is None:
        return ()
    record = stopped.record
    if isinstance(facts.processes, Unknown) or undecided(facts, stopped.launches, server=record.uid):
        return None
    if not isinstance(facts.host, Unknown) and facts.host.boot_id != record.boot_id:
        return ()
    found, table = [], facts.processes.by_pid
    for pid, start in record.processes:
        process = table.get(pid)
        if process is None and facts.processes.hides_others and not _is_own(facts, record):
            return None  # /proc may hide it from this login
        if process is not None and process.start_time == start and not process.is_dead_zombie:
            found.append(pid)
    return (*found, *(process.pid for process in left_over(facts, stopped)))


def _is_own(facts: HostFacts, record: Record) -> bool:
    return not isinstance(facts.host, Unknown) and facts.host.uid in (0, record.uid)


def who_is_back(
    facts: HostFacts,
    stopped: Stopped,
    *,
    in_the_way: Collection[int],
    is_server: Callable[[str], bool],
    is_same: Callable[[str], bool],
) -> tuple[Back, ...]:
    """The servers that have come back; ``in_the_way``: who holds the cards or the port.

    ``is_server`` says whether a command is one of the engine, ``is_same`` whether it is that of the server that was
    stopped.
    """
    if isinstance(facts.processes, Unknown):
        return ()
    found: dict[int, Back] = {}
    for process in new_processes(facts, stopped, in_the_way):
        root = _first_of_its_tree(facts.processes, process, stopped)
        manager = _restarter(facts, process, root)
        commands = [detail.command for each in (root, process) if (detail := facts.details.get(each.pid)) is not None]
        same = _same_manager(manager, stopped, process, in_the_way) or any(map(is_same, commands))
        if same or (process.pid in in_the_way and any(map(is_server, commands))):
            pids = frozenset(each.pid for each in facts.processes.tree(root.pid))
            command = commands[0] if commands else process.comm
            back = Back(root, shortened(command), pids, _words(facts, process, manager, same), same)
            if root.pid not in found or (same and not found[root.pid].is_same):
                found[root.pid] = back
    return tuple(found.values())


def new_processes(facts: HostFacts, stopped: Stopped, in_the_way: Collection[int]) -> list[Process]:
    """Who may be the server again: those in the way, and those of its names; none that was there before the stop, is
    left over from it, or is a server of another deployment."""
    if isinstance(facts.processes, Unknown):
        return []
    left, logs = {process.pid for process in left_over(facts, stopped)}, launch_of(facts, stopped.others)
    return [
        process
        for process in facts.processes.by_pid.values()
        if not stopped.was_there(process)
        and process.pid not in left
        and not process.is_dead_zombie
        and (process.pid in in_the_way or process.comm in stopped.record.names)
        and not deployment_of(process, facts.processes, logs, stopped.others)
    ]


def wanted(facts: HostFacts, stopped: Stopped, in_the_way: Collection[int]) -> frozenset[int]:
    """The pids of those whose command lines ``who_is_back`` goes by."""
    if isinstance(facts.processes, Unknown):
        return frozenset()
    new = new_processes(facts, stopped, in_the_way)
    roots = {_first_of_its_tree(facts.processes, process, stopped).pid for process in new}
    return frozenset(roots | {process.pid for process in new})


def _first_of_its_tree(table: ProcessTable, process: Process, stopped: Stopped) -> Process:
    """The outermost ancestor that started after the stop."""
    root = process
    for parent in ancestors(table, process):
        if stopped.was_there(parent):
            break
        root = parent
    return root


def _restarter(facts: HostFacts, process: Process, root: Process) -> Manager | Unknown | None:
    """By the control group of the one that is in the way; who waits for it only above all that is new."""
    manager = find_manager(facts, Serving(process, (), ""))
    if isinstance(facts.processes, Unknown) or isinstance(manager, Unknown) or (manager and manager.is_certain):
        return manager
    return waiting(ancestors(facts.processes, root))


def _same_manager(
    manager: Manager | Unknown | None, stopped: Stopped, process: Process, in_the_way: Collection[int]
) -> bool:
    """Is it started by what looked after the server? That may start others too: then only one in the way, and of the
    server's names, is taken for it."""
    if not isinstance(manager, Manager) or manager.identity != stopped.record.manager_identity:
        return False
    return manager.starts_one_server or (process.pid in in_the_way and process.comm in stopped.record.names)


def _words(facts: HostFacts, process: Process, manager: Manager | Unknown | None, is_same: bool) -> str:
    if isinstance(manager, Unknown):
        return f"what started it is not known. {manager.reason}"
    if manager is not None and manager.kind == ManagerKind.PARENT:
        return f"the {manager} has started it, perhaps a watchdog."
    if manager is not None:
        return f"the {manager} has started it{' again' if is_same else ''}."
    detail = facts.details.get(process.pid)
    units = UNIT.findall(detail.cgroup) if detail is not None else []
    if units and LOGINS.fullmatch(units[-1]):
        return f"it was started from {units[-1]}; what did so has ended since."
    return "what started it has ended since. Look for a watchdog or a cron job on the host."
