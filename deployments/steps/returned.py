"""Who is in the way after a stop: a server that came back by itself and a scheduler's job, which may not be chased;
what is left over from the old server."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from deployments.decisions.stop_ladder import Record
from deployments.plan.after_stop import Back, Stopped, left_over, wanted, who_is_back
from deployments.plan.collect import launches_of, launches_of_others, with_details
from deployments.plan.manager import Manager, ManagerKind, find_manager
from deployments.plan.serving import Serving
from deployments.plan.sharing import COMM_LETTERS
from deployments.plan.words import command_of, user_of
from deployments.steps.base import StepContext
from hosts.probe.facts import HostFacts
from hosts.probe.frames import Unknown
from hosts.probe.processes import Process


@dataclass(frozen=True)
class Spared:
    """Who is named and gets no signal from here, whatever a person answers."""

    back: tuple[Back, ...] = ()
    jobs: tuple[str, ...] = ()
    """Sentences on the jobs of a scheduler, and on those of whom that could not be seen."""
    pids: frozenset[int] = frozenset()

    @property
    def reasons(self) -> list[str]:
        """All of it in sentences."""
        return [*map(str, self.back), *self.jobs]


def spared_among(ctx: StepContext, facts: HostFacts, in_the_way: frozenset[int], record: Record | None) -> Spared:
    """``in_the_way``: the pids of the host that hold its cards or the port. Raises TransportError."""
    seen = with_details(ctx, facts, in_the_way)
    jobs = {pid: words for pid in sorted(in_the_way) if (words := _why_not_ours_to_end(scheduler_over(seen, pid), pid))}
    stopped = stopped_of(ctx, record)
    back = () if stopped is None else _back(ctx, facts, in_the_way, stopped)
    pids = frozenset(jobs).union(*(each.pids for each in back))
    return Spared(back, tuple(jobs.values()), pids)


def _why_not_ours_to_end(scheduler: Manager | Unknown | None, pid: int) -> str:
    """In sentences; empty where no scheduler forbids it."""
    if scheduler is None:
        return ""
    if isinstance(scheduler, Unknown):
        return (
            f"Whether process {pid} is a job of a scheduler could not be seen: {scheduler.reason} It gets no signal "
            "from here. Look again, or ask its owner."
        )
    name = scheduler.name
    return f"Process {pid} is a job of {name}: it gets no signal from here. Ask whoever looks after {name}."


def scheduler_over(facts: HostFacts, pid: int) -> Manager | Unknown | None:
    """The scheduler that a process is a job of; None for one that has ended. Unknown when that could not be seen."""
    if isinstance(facts.processes, Unknown):
        return facts.processes
    process = facts.processes.by_pid.get(pid)
    manager = find_manager(facts, Serving(process, (), "")) if process is not None else None
    if isinstance(manager, Manager) and manager.kind != ManagerKind.SCHEDULER:
        return None
    return manager


@dataclass(frozen=True)
class LeftOver:
    """A process of the old server that was not recorded, so that no signal may reach it before a person has seen it."""

    process: Process
    command: str

    def __str__(self) -> str:
        return (
            f"Process {self.process.pid} ({self.command}) is left over from the old server. It was not there when the "
            "stop was approved, so it got no signal."
        )

    @property
    def row(self) -> list[str]:
        """As the gate shows it: process, user, command, what it holds."""
        return [str(self.process.pid), user_of(self.process.uid), self.command, "left over from the old server"]


def expected(ctx: StepContext) -> Record | None:
    """Of a start: its server, as if it had been stopped when the plan was made; so that one that somebody else has
    started since is known. None where it is not known what was there then.
    """
    revision, plan = ctx.revision, ctx.job.plan or {}
    if revision is None or plan.get("newest") is None or not revision.argv:
        return None
    command = ctx.log.hide(shlex.join(revision.argv))
    name = PurePosixPath(revision.argv[0]).name[:COMM_LETTERS]
    return Record(plan["binding"]["boot"], None, (), command=command, names=(name,), newest=plan["newest"])


def stopped_of(ctx: StepContext, record: Record | None) -> Stopped | None:
    """The record of a stop, with the launches by which a process is told to be this deployment's or another's."""
    if record is None or not (record.processes or record.names):
        return None
    return Stopped(record, launches_of_others(ctx.stopped), frozenset(launches_of(ctx.stopped)))


def left_over_of(ctx: StepContext, facts: HostFacts, record: Record | None) -> tuple[LeftOver, ...]:
    """With command lines, which the host is asked for when there is anybody. Raises TransportError."""
    stopped = stopped_of(ctx, record)
    if stopped is None or _of_another_boot(facts, stopped):
        return ()
    left = left_over(facts, stopped)
    details = with_details(ctx, facts, [process.pid for process in left]).details
    return tuple(LeftOver(process, command_of(process, details.get(process.pid))) for process in left)


def _of_another_boot(facts: HostFacts, stopped: Stopped) -> bool:
    return not isinstance(facts.host, Unknown) and facts.host.boot_id != stopped.record.boot_id


def _back(ctx: StepContext, facts: HostFacts, in_the_way: frozenset[int], stopped: Stopped) -> tuple[Back, ...]:
    if _of_another_boot(facts, stopped):
        return ()
    pids = wanted(facts, stopped, in_the_way)
    if not pids:
        return ()
    start = not stopped.record.processes
    found = who_is_back(
        with_details(ctx, facts, pids),
        stopped,
        in_the_way=in_the_way,
        is_server=ctx.stopped.engine.recognises,
        is_same=lambda command: _is_same(ctx, stopped, command) or (start and _is_of_its_port(ctx, command)),
    )
    # Where nothing was ended nothing has come back: it is one that somebody else has started.
    return tuple(replace(back, is_same=False) for back in found) if start else found


def _is_same(ctx: StepContext, stopped: Stopped, command: str) -> bool:
    return bool(command) and ctx.log.hide(command) == stopped.record.command


def _is_of_its_port(ctx: StepContext, command: str) -> bool:
    """A server of the deployment's engine that is told to listen on its port, with whatever flags."""
    engine = ctx.engine
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    return engine.recognises(command) and engine.port(words) == ctx.deployment.port


def is_back(ctx: StepContext, facts: HostFacts, stopped: Stopped | None) -> str:
    """With nobody on the cards or the port: has the server been started again all the same, and still loads?

    Says so in words; empty when not. Asks the host only when a process of the server's name is new.
    """
    return "" if stopped is None else " ".join(map(str, _back(ctx, facts, frozenset(), stopped)))
