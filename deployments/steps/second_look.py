"""Who is in the way, looked at once more before a person is asked: with command lines, and from the node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from deployments.decisions.kill_offer import Again, Inside, KillOffer, kill_offer
from deployments.decisions.port import Having, PortHolder
from deployments.decisions.stop_ladder import Record
from deployments.decisions.verify import HolderSeen
from deployments.plan.cards import Held, memory_of, pids_inside
from deployments.plan.collect import (
    PROBE_SECONDS,
    container_behind,
    launches_of_others,
    look_at_node,
    names_asked,
)
from deployments.plan.collect_others import others_of
from deployments.plan.page import co_tenant, since_of
from deployments.plan.port import port_verdict
from deployments.plan.sharing import Planned
from deployments.steps.base import StepContext
from deployments.steps.returned import LeftOver, Spared, left_over_of, spared_among
from hosts.probe.facts import HostFacts
from hosts.probe.frames import Unknown
from hosts.probe.probe import SERVING, probe


@dataclass(frozen=True)
class SecondLook:
    """Who is in the way, as rows; who of them may be killed; the co-tenants of now, as rows of a plan, where nothing
    but these is other than in the plan; who is named and gets no signal.
    """

    rows: list[list[Any]] = field(default_factory=list)
    named: tuple[HolderSeen, ...] = ()
    """Who holds the cards, as the question names them; ``killable``: of these, in the host's own numbers."""
    killable: tuple[HolderSeen, ...] = ()
    found: list[dict[str, Any]] | None = None
    spared: Spared = field(default_factory=Spared)
    why_not: str = ""
    left: tuple[LeftOver, ...] = ()
    """Of the old server, unrecorded: a confirmed kill of its own may hit them."""
    behind_port: str = ""
    """The container for which docker has the port."""
    nobody_holds: bool = False
    """It could be seen who holds the cards, and nobody does but the machine's own daemons."""
    daemons: tuple[HolderSeen, ...] = ()
    pid_namespace: str = ""
    """In which the numbers of those who may be killed hold; empty where the host did not tell."""

    @property
    def reasons(self) -> list[str]:
        """Why somebody gets no signal, in sentences, and who is behind the port."""
        passed_on = (
            f"The port is docker's, for the container {self.behind_port}: stop that container, or ask its owner."
        )
        more = [self.why_not, passed_on if self.behind_port else ""]
        return [*self.spared.reasons, *map(str, self.left), *filter(None, more)]


def second_look(
    ctx: StepContext, others: tuple[HolderSeen, ...], planned: Planned, record: Record | None, boot_id: str
) -> SecondLook:
    """Ask once more, with command lines; the node names those a container does not see."""
    facts, node_facts = _look(ctx), look_at_node(ctx)
    outer = node_facts or facts
    held = others_of(ctx)(outer)
    having = port_verdict(facts, ctx.deployment.port, launches=launches_of_others(ctx)).holders
    inside = held if node_facts is None else others_of(ctx)(facts)
    spared = spared_among(ctx, facts, _in_the_way(inside, having), record)
    left = tuple(each for each in left_over_of(ctx, facts, record) if each.process.pid not in spared.pids)
    offer = kill_offer(
        others,
        held if isinstance(held, Unknown) else _again(held, planned),
        spared=spared.pids | {each.process.pid for each in left},
        boot_id=boot_id,
        inside=None if node_facts is None else _inside(inside, node_facts),
    )
    on_node = node_facts is not None and isinstance(held, Held)
    told_by = facts if isinstance(held, Unknown) else outer  # a pid means nothing to the other one
    rows = [_row(holder, _number(holder, offer, on_node=on_node), told_by) for holder in offer.named]
    by_port = dict.fromkeys(tuple(_port_row(one, ctx.deployment.port)) for one in having)
    rows += [[*row, *_memory_and_since(row[0], facts)] for row in by_port]
    rows += [[*each.row, *_memory_and_since(str(each.process.pid), facts)] for each in left]
    found = None if offer.found is None else [co_tenant(holder, outer) for holder in offer.found]
    nobody_holds = isinstance(held, Held) and not held.all and not left
    daemons = held.daemons if isinstance(held, Held) else ()
    behind = container_behind(ctx, facts, ctx.deployment.port)
    space = "" if isinstance(facts.host, Unknown) else facts.host.pid_namespace
    return SecondLook(
        rows=rows,
        named=offer.named,
        killable=offer.killable,
        found=found,
        spared=spared,
        why_not=offer.why_not,
        left=left,
        behind_port=behind,
        nobody_holds=nobody_holds,
        daemons=daemons,
        pid_namespace=space,
    )


def _look(ctx: StepContext) -> HostFacts:
    with ctx.link() as transport:
        return probe(
            transport,
            sections=(*SERVING, *names_asked(ctx), "port"),
            timeout=PROBE_SECONDS,
            ports=[ctx.deployment.port],
            sudo=ctx.host.sudo,
            tick=ctx.tick,
        )


def _in_the_way(inside: Held | Unknown, having: Sequence[PortHolder]) -> frozenset[int]:
    """The host's own pids of those that hold its cards or the port."""
    on_cards = {holder.pid for holder in (inside.strangers if isinstance(inside, Held) else ())}
    return frozenset(on_cards | {holder.pid for holder in having if holder.pid is not None})


def _again(held: Held, planned: Planned) -> Again:
    known = {(holder.pid, holder.start_time) for holder in held.all if planned.covers(holder, inside=False)}
    return Again(held.strangers, held.co_tenants, frozenset(known), bool(planned.missing(held.all)))


def _inside(held: Held | Unknown, node_facts: HostFacts) -> Inside:
    """What the container sees of its own; nobody is known again on the node where either did not look."""
    numbers = pids_inside(node_facts)
    if isinstance(held, Unknown) or isinstance(numbers, Unknown):
        return Inside((), {})
    return Inside(held.strangers, numbers)


def _number(holder: HolderSeen, offer: KillOffer, *, on_node: bool) -> str:
    if not on_node:
        return str(holder.pid)
    own = offer.own.get(holder.pid)
    return f"{holder.pid} on the node" if own is None else f"{own} ({holder.pid} on the node)"


def _row(holder: HolderSeen, number: str, facts: HostFacts) -> list[Any]:
    memory, since = _memory_and_since(str(holder.pid), facts)
    words = [number, _owner(holder), holder.name, ", ".join(holder.cards)]
    return [*words, memory or "unknown", since]


def _memory_and_since(pid: str, facts: HostFacts) -> list[Any]:
    """What compute-apps says that it uses, and a moment for the page; each empty where it is not known."""
    table = {} if isinstance(facts.processes, Unknown) else facts.processes.by_pid
    process = table.get(int(pid)) if pid.isdecimal() else None
    if process is None:
        return ["", ""]
    used = memory_of(facts, [process.pid]).get(process.pid)
    since = since_of(process.start_time, facts)
    return ["" if used is None else f"{used:,} MiB", {"at": since} if since else ""]


def _port_row(holder: PortHolder, port: int) -> list[str]:
    """Who has the port."""
    how = {Having.LISTENS: "", Having.BOUND: " (bound, does not listen)", Having.CONNECTION: " (end of a connection)"}
    pid = "not visible to this login" if holder.pid is None else str(holder.pid)
    return [pid, _owner(holder), holder.name, f"port {port}{how[holder.having]}"]


def _owner(holder: HolderSeen | PortHolder) -> str:
    return f"{holder.user}, deployment {holder.deployment}" if holder.deployment else holder.user
