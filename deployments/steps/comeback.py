"""Who is in the way after a stop, and may not be chased: a server that came back by itself, a scheduler's job."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from controlpanel.masking import mask_text
from deployments.decisions.stop_ladder import Record
from deployments.plan.collect import launches_of_others
from deployments.plan.comeback import Back, Stopped, wanted, who_is_back
from deployments.plan.manager import Manager, ManagerKind, find_manager
from deployments.plan.serving import Serving
from deployments.steps.base import StepContext
from hosts.probe.facts import HostFacts
from hosts.probe.frames import Unknown
from hosts.probe.probe import probe

PROBE_SECONDS = 45.0


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
    seen = _with_details(ctx, facts, in_the_way)
    jobs = {pid: words for pid in sorted(in_the_way) if (words := _why_not_ours_to_end(scheduler_over(seen, pid), pid))}
    back = () if record is None else _back(ctx, facts, in_the_way, record)
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


def _back(ctx: StepContext, facts: HostFacts, in_the_way: frozenset[int], record: Record) -> tuple[Back, ...]:
    if not isinstance(facts.host, Unknown) and facts.host.boot_id != record.boot_id:
        return ()
    stopped = Stopped(record, launches_of_others(ctx))
    pids = wanted(facts, stopped, in_the_way)
    if not pids:
        return ()
    return who_is_back(
        _with_details(ctx, facts, pids),
        stopped,
        in_the_way=in_the_way,
        is_server=ctx.engine.recognises,
        is_same=lambda command: bool(command) and mask_text(command) == record.command,
    )


def is_back(ctx: StepContext, facts: HostFacts, record: Record | None) -> str:
    """With nobody on the cards or the port: has the server been started again all the same, and still loads?

    Says so in words; empty when not. Asks the host only when a process of the server's name is new.
    """
    return "" if record is None else " ".join(map(str, _back(ctx, facts, frozenset(), record)))


def _with_details(ctx: StepContext, facts: HostFacts, pids: Iterable[int]) -> HostFacts:
    """The same look, with the command lines of more processes."""
    missing = sorted(set(pids) - facts.details.keys())
    if not missing:
        return facts
    with ctx.link() as transport:
        more = probe(
            transport, sections=("pids",), timeout=PROBE_SECONDS, pids=missing, sudo=ctx.host.sudo, tick=ctx.tick
        )
    return replace(facts, details={**more.details, **facts.details})
