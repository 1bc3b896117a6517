"""The cards are not free: who is in the way, and what a person decided about them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.utils import timezone

from deployments.decisions.kill_offer import NO_BOOT, Again, Inside, KillOffer, kill_offer
from deployments.decisions.port import Having, PortHolder
from deployments.decisions.stop_ladder import Record
from deployments.decisions.verify import CardSeen, HolderSeen, NotFree, Round, Unmeasured, Verdict
from deployments.lifecycle import EffectKind, GateKind, JobKind, ServiceState, StepName
from deployments.models import Deployment, Gate
from deployments.plan.cards import Held, memory_of, pids_inside
from deployments.plan.collect import (
    PROBE_SECONDS,
    container_behind,
    launches_of_others,
    look_at_node,
    measured_needs,
    names_asked,
    others_of,
)
from deployments.plan.collect_fit import why_it_cannot_fit
from deployments.plan.page import co_tenant, since_of
from deployments.plan.port import port_verdict
from deployments.plan.sharing import Planned, in_words
from deployments.steps import signals
from deployments.steps.base import GateOpened, StepContext, StepFailed
from deployments.steps.returned import LeftOver, Spared, left_over_of, spared_among
from deployments.steps.signals import Order
from hosts.probe.facts import HostFacts
from hosts.probe.frames import Unknown
from hosts.probe.probe import SERVING, probe

NOBODY_HOLDS_IT = (
    "No process that can be seen holds that memory: the driver may release it late, or the card needs a reset, which "
    "is done on the host."
)
ONLY_DAEMONS = (
    "Only the machine's own services hold the cards, and what memory they use counts. They get no signal from here; "
    "whoever looks after the machine may restart them:"
)
HEAD = ["Process", "User", "Command", "Holds", "GPU memory", "Since"]


def planned_of(ctx: StepContext) -> Planned:
    """The co-tenants that a person has agreed to: those of the plan, or others at this step's question."""
    accepted = ctx.step.data.get("co_tenants")
    return Planned.of(ctx.job.plan) if accepted is None else Planned(tuple(accepted))


def ask(ctx: StepContext, verdict: Verdict, seen: Round, boot_id: str, *, record: Record | None) -> GateOpened:
    """The question, with value, limit and holders; ``raise`` it. ``boot_id``: of the host when it was measured.

    ``record``: what the stop has ended, to know it again when it has come back.
    """
    assert isinstance(verdict, NotFree | Unmeasured)
    measured = isinstance(verdict, NotFree)
    for reason in verdict.reasons:
        ctx.say(reason)
    again = _look_again(ctx, seen.holders or (), record, boot_id) if measured else _Again()
    for reason in again.reasons:
        ctx.say(reason)
    strangers = [[holder.pid, holder.start_time] for holder in again.killable]
    left = [[each.process.pid, each.process.start_time] for each in (again.left if boot_id else ())]
    ctx.remember(strangers=strangers, strangers_boot=boot_id, found=again.found, left=left)
    reasons = dict.fromkeys((*again.reasons, *verdict.reasons, *_whose_memory(seen, again)))
    evidence: list[dict[str, Any]] = [{"text": reason} for reason in reasons]
    since = _down_since(ctx, seen, again)
    if since is not None:
        evidence.append({"text": f"{_served(ctx)} is down since", "at": since.isoformat(timespec="seconds")})
    if again.rows:
        evidence.append({"table": {"head": HEAD, "rows": again.rows}})
    choices = _choices(ctx, seen, again)
    return ctx.ask(
        GateKind.NOT_FREE,
        title=_title(verdict, again),
        text=f"Nothing goes on until somebody decides, and nothing is measured while this question is open. When what "
        f"is in the way is gone, press “{choices[0]['label']}”.",
        evidence=evidence,
        choices=choices,
    )


def _whose_memory(seen: Round, again: _Again) -> list[str]:
    """Of memory that no stranger holds."""
    if not _full(seen) or seen.holders or not again.nobody_holds:
        return []
    if not again.daemons:
        return [NOBODY_HOLDS_IT]
    named = "; ".join(f"{daemon} on {', '.join(daemon.cards)}" for daemon in again.daemons)
    return [f"{ONLY_DAEMONS} {named}."]


@dataclass(frozen=True)
class _Again:
    """Who is in the way, as rows; who of them may be killed; the co-tenants of now, as rows of a plan, where nothing
    but these is other than in the plan; who is named and gets no signal.
    """

    rows: list[list[Any]] = field(default_factory=list)
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

    @property
    def reasons(self) -> list[str]:
        """Why somebody gets no signal, in sentences, and who is behind the port."""
        passed_on = (
            f"The port is docker's, for the container {self.behind_port}: stop that container, or ask its owner."
        )
        more = [self.why_not, passed_on if self.behind_port else ""]
        return [*self.spared.reasons, *map(str, self.left), *filter(None, more)]


def _title(verdict: Verdict, again: _Again) -> str:
    if again.spared.back:
        same = any(back.is_same for back in again.spared.back)
        return "The server has come back by itself" if same else "Another server was started meanwhile"
    if again.left:
        return "Something is left over from the old server"
    if not isinstance(verdict, NotFree):
        return "Whether the cards are free could not be measured"
    return "The cards cannot be used as they are" if verdict.unusable else "The cards are not free"


def _down_since(ctx: StepContext, seen: Round, again: _Again) -> datetime | None:
    """When this job had ended the server, or since when it was known to be stopped; None where it may be up."""
    if again.spared.back or seen.survivors != ():
        return None
    for step in ctx.job.steps.filter(name=StepName.STOP).exclude(ended_at=None).order_by("position"):
        if step.data.get("processes"):
            return step.ended_at
    state = Deployment.objects.values("state", "state_since").get(pk=_served(ctx).pk)
    return state["state_since"] if state["state"] in (ServiceState.STOPPED, ServiceState.CRASHED) else None


def _served(ctx: StepContext) -> Deployment:
    """Whose server users had: of a replacement the one that goes, whose cards are meant to be free."""
    return ctx.job.replaces or ctx.deployment


def _left(ctx: StepContext) -> str:
    """What is down when nothing more is started."""
    return " and ".join(one.name for one in ctx.job.subjects) or ctx.deployment.name


def _look_again(ctx: StepContext, others: tuple[HolderSeen, ...], record: Record | None, boot_id: str) -> _Again:
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
        held if isinstance(held, Unknown) else _again(held, planned_of(ctx)),
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
    return _Again(rows, offer.killable, found, spared, offer.why_not, left, behind, nobody_holds, daemons)


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


def _choices(ctx: StepContext, seen: Round, again: _Again) -> list[dict[str, Any]]:
    others = again.killable
    numbers = _processes(holder.pid for holder in others)
    look = {
        "key": "again",
        "label": "Look again",
        "action": "ask",
        "detail": "Everything is measured again, for as long as before.",
    }
    both = ctx.job.replaces is not None
    leave = {
        "key": "leave",
        "label": "Leave both stopped" if both else "Leave it stopped",
        "action": "ask",
        "detail": f"{_left(ctx)} {'stay' if both else 'stays'} down.",
    }
    kill = {
        "key": "kill",
        "label": f"Kill {'this process' if len(others) == 1 else f'these {len(others)} processes'}",
        "action": "confirm_kill",
        "danger": True,
        "needs_reason": True,
        "detail": f"Ends by force (SIGKILL) exactly {numbers}, each only if it is still the same process. Their work "
        "is lost.",
    }
    anyway = {
        "key": "anyway",
        "label": "Launch anyway",
        "action": "approve",
        "danger": True,
        "needs_reason": True,
        "detail": " ".join(("The launch may fail, or take memory from somebody else's work.", *_rooms(ctx, seen))),
    }
    accept = {
        "key": "accept",
        "label": "Go on beside these co-tenants",
        "action": "approve",
        "detail": f"They may share the cards: {_names(again.found)}. Everything is measured again with them.",
    }
    kill_left = {
        "key": "kill_left",
        "label": "Kill what is left over from the old server",
        "action": "confirm_kill",
        "danger": True,
        "needs_reason": True,
        "detail": f"Ends by force (SIGKILL) exactly {_processes(each.process.pid for each in again.left)}, each only "
        "if it is still the same process.",
    }
    if seen.holders:
        look["label"] = "Ask the owner, then look again"
        look["detail"] = f"Whoever it belongs to may end it in order. {look['detail']}"
    full = _too_full(ctx, seen)
    if full:
        look["detail"] += f" To launch anyway is not offered: {full}"
    alive = again.spared.back or again.left or seen.survivors != ()
    return [
        look,
        *([accept] if again.found is not None and ctx.job.kind != JobKind.STOP else []),
        *([kill] if others else []),
        *([kill_left] if ctx.step.data["left"] else []),
        leave,
        # Never a second server beside one that lives, or may live.
        *([] if ctx.job.kind == JobKind.STOP or full or alive else [anyway]),
    ]


def _full(seen: Round) -> list[CardSeen]:
    """Its own cards that hold memory; those with co-tenants say in their own sentence what is needed there."""
    return [card for card in seen.cards if card.too_full and not card.shared]


def _rooms(ctx: StepContext, seen: Round) -> list[str]:
    """What is free on the cards that hold memory and what is needed there, a sentence each, as far as it is known."""
    if ctx.job.kind == JobKind.STOP:
        return []
    needs, said = measured_needs(ctx), []
    for card in _full(seen):
        free = "how much is free is not known" if card.free_mib is None else f"{card.free_mib:,} MiB are free"
        need = f"{needs[card.uuid]:,} MiB" if card.uuid in needs else "an amount that was never measured"
        said.append(f"On {card.label} {free}; {ctx.revision} needs {need} there.")
    return said


def _too_full(ctx: StepContext, seen: Round) -> str:
    """Where it is known what the launch needs and what there is, it cannot fit, whoever takes the risk: a sentence.

    What was measured counts first; where this revision never served there, the estimate of its model's files.
    """
    needs = {} if ctx.job.kind == JobKind.STOP else measured_needs(ctx)
    for card in seen.cards:
        need = card.need_mib if card.shared else needs.get(card.uuid)
        if card.has_no_room_for(need):
            return f"{card.label} has {card.free_mib:,} MiB free, and {ctx.revision} needs {need:,} MiB there."
    return "" if ctx.job.kind == JobKind.STOP else why_it_cannot_fit(ctx, seen.cards)


def _names(found: list[dict[str, Any]] | None) -> str:
    return ", ".join(in_words(row) for row in found or ()) or "nobody"


def carry_out(ctx: StepContext, answer: Gate) -> None:
    """Do what a person chose. Raises StepFailed when the service is to be left stopped."""
    if answer.answer == "leave":
        raise StepFailed(
            f"{answer.answered_by_name} decided to leave {_left(ctx)} stopped.",
            hint=f"Start {_served(ctx)} when the cards are free.",
        )
    if answer.answer == "accept":
        ctx.remember(co_tenants=ctx.step.data["found"] or [])
        ctx.say(f"{answer.answered_by_name} agreed to these co-tenants: {_names(ctx.step.data['co_tenants'])}.")
    if answer.answer == "anyway":
        boot_id = ctx.step.data.get("strangers_boot", "")
        ctx.remember(forced=True, boot_id=boot_id, verified_at=timezone.now().isoformat())
        ctx.finish(f"{answer.answered_by_name} decided to launch anyway: {answer.comment}")
    if answer.answer == "kill":
        _kill(ctx, answer, ctx.step.data.get("strangers", []), EffectKind.KILL_STRANGERS)
    if answer.answer == "kill_left":
        _kill(ctx, answer, ctx.step.data.get("left", []), EffectKind.SIGNAL_KILL)


def _processes(pids: Iterable[int]) -> str:
    numbers = [str(pid) for pid in pids]
    return f"process{'' if len(numbers) == 1 else 'es'} {', '.join(numbers)}"


def _kill(ctx: StepContext, answer: Gate, processes: list[list[int]], kind: EffectKind) -> None:
    """SIGKILL to those that were named at the gate, if they are still the same processes."""
    named = tuple((pid, start) for pid, start in processes)
    words = ", ".join(str(pid) for pid, _ in named)
    ctx.say(f"{answer.answered_by_name} decided to kill {words}: {answer.comment}")
    boot_id = ctx.step.data.get("strangers_boot", "")
    if not boot_id:  # asked by an older version of the panel
        ctx.say(f"Nobody was signalled. {NO_BOOT}")
        return
    order = Order(kind, ctx.host, boot_id, "KILL", named, named, ctx.deployment.kill_seconds)
    try:
        signals.send(ctx, order, heard=lambda _: None, may_be_denied=True)
    except signals.Rebooted:
        ctx.say("The host has booted since: those processes cannot live any more.")
