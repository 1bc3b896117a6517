"""Who is in the way after a stop, and may not be chased: a server that came back by itself, a scheduler's job."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from controlpanel.masking import mask_text
from deployments.decisions.stop_ladder import Record
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
    """Sentences on the jobs of a scheduler."""
    pids: frozenset[int] = frozenset()

    @property
    def reasons(self) -> list[str]:
        """All of it in sentences."""
        return [*map(str, self.back), *self.jobs]


def spared_among(ctx: StepContext, facts: HostFacts, in_the_way: frozenset[int], record: Record | None) -> Spared:
    """``in_the_way``: the pids of the host that hold its cards or the port. Raises TransportError."""
    jobs = {pid: manager.name for pid in in_the_way if (manager := scheduler_over(facts, pid)) is not None}
    sentences = tuple(
        f"Process {pid} is a job of {name}: it gets no signal from here. Ask whoever looks after {name}."
        for pid, name in sorted(jobs.items())
    )
    back = () if record is None or record.newest is None else _back(ctx, facts, in_the_way, record, record.newest)
    pids = frozenset(jobs).union(*(each.pids for each in back))
    return Spared(back, sentences, pids)


def scheduler_over(facts: HostFacts, pid: int) -> Manager | None:
    """The scheduler that a process is a job of."""
    process = None if isinstance(facts.processes, Unknown) else facts.processes.by_pid.get(pid)
    manager = find_manager(facts, Serving(process, (), "")) if process is not None else None
    return manager if isinstance(manager, Manager) and manager.kind == ManagerKind.SCHEDULER else None


def _back(
    ctx: StepContext, facts: HostFacts, in_the_way: frozenset[int], record: Record, newest: int
) -> tuple[Back, ...]:
    if not isinstance(facts.host, Unknown) and facts.host.boot_id != record.boot_id:
        return ()
    stopped = Stopped(newest, record.manager, record.names)
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
    if record is None or record.newest is None:
        return ""
    return " ".join(map(str, _back(ctx, facts, frozenset(), record, record.newest)))


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
