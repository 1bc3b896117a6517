"""The cards are not free: who is in the way, and what a person decided about them."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from deployments.decisions.port import Having, PortHolder
from deployments.decisions.verify import HolderSeen, NotFree, Unmeasured, Verdict
from deployments.lifecycle import EffectKind, JobKind
from deployments.models import Gate
from deployments.plan.collect import PROBE_SECONDS, launches_of_others, look_at_node, others_of
from deployments.plan.port import port_verdict
from deployments.steps import signals
from deployments.steps.base import GateOpened, StepContext, StepFailed
from deployments.steps.signals import Order
from hosts.probe.frames import Unknown
from hosts.probe.probe import SERVING, probe


def ask(ctx: StepContext, verdict: Verdict, others: tuple[HolderSeen, ...], boot_id: str) -> GateOpened:
    """The question, with value, limit and holders; ``raise`` it. ``boot_id``: of the host when it was measured."""
    assert isinstance(verdict, NotFree | Unmeasured)
    measured = isinstance(verdict, NotFree)
    for reason in verdict.reasons:
        ctx.say(reason)
    details = _details(ctx, others) if measured else []
    ctx.remember(strangers=[[holder.pid, holder.start_time] for holder in others], strangers_boot=boot_id)
    evidence: list[dict[str, Any]] = [{"text": reason} for reason in verdict.reasons]
    if details:
        evidence.append({"table": {"head": ["Process", "User", "Command", "Holds"], "rows": details}})
    return ctx.ask(
        "not free",
        title="The cards are not free" if measured else "Whether the cards are free could not be measured",
        text="Nothing is launched until they are, or until somebody decides.",
        evidence=evidence,
        choices=_choices(ctx, others),
    )


def _details(ctx: StepContext, others: tuple[HolderSeen, ...]) -> list[list[str]]:
    """Who is in the way, asked once more with command lines; the node names those a container does not see."""
    port = ctx.deployment.port
    with ctx.link() as transport:
        facts = probe(
            transport,
            sections=(*SERVING, "port"),
            timeout=PROBE_SECONDS,
            ports=[port],
            sudo=ctx.host.sudo,
            tick=ctx.tick,
        )
    node_facts = look_at_node(ctx)
    again = others_of(ctx)(node_facts or facts)
    named = others if isinstance(again, Unknown) else again
    if node_facts is None and others:
        # Exactly those that a confirmed kill would hit.
        named = tuple(holder for holder in named if holder.pid in {other.pid for other in others}) or others
    seen_by = " on the node" if node_facts is not None and named is again else ""
    rows = [_row(holder, seen_by) for holder in named]
    having = port_verdict(facts, port, launches=launches_of_others(ctx)).holders
    return rows + list({tuple(row): row for row in (_owner(holder, port) for holder in having)}.values())


def _row(holder: HolderSeen, seen_by: str) -> list[str]:
    owner = f"{holder.user}, deployment {holder.deployment}" if holder.deployment else holder.user
    return [f"{holder.pid}{seen_by}", owner, holder.name, ", ".join(holder.cards)]


def _owner(holder: PortHolder, port: int) -> list[str]:
    """Who has the port, as a row."""
    owner = f"{holder.user}, deployment {holder.deployment}" if holder.deployment else holder.user
    how = {Having.LISTENS: "", Having.BOUND: " (bound, does not listen)", Having.CONNECTION: " (end of a connection)"}
    pid = "not visible to this login" if holder.pid is None else str(holder.pid)
    return [pid, owner, holder.name, f"port {port}{how[holder.having]}"]


def _choices(ctx: StepContext, others: tuple[HolderSeen, ...]) -> list[dict[str, Any]]:
    again = {
        "key": "again",
        "label": "Look again",
        "action": "ask",
        "detail": "Waits by measuring, up to the same limits.",
    }
    leave = {"key": "leave", "label": "Leave it stopped", "action": "ask", "detail": f"{ctx.deployment} stays down."}
    kill = {
        "key": "kill",
        "label": f"Kill {'this process' if len(others) == 1 else f'these {len(others)} processes'}",
        "action": "confirm_kill",
        "danger": True,
        "needs_reason": True,
        "detail": "SIGKILL to exactly the processes above, if they are still the same. Their work is lost.",
    }
    anyway = {
        "key": "anyway",
        "label": "Launch anyway",
        "action": "approve",
        "danger": True,
        "needs_reason": True,
        "detail": "The launch may fail, or take memory from somebody else's work.",
    }
    killable = others and ctx.host.machine == ctx.host
    return [again, *([kill] if killable else []), leave, *([] if ctx.job.kind == JobKind.STOP else [anyway])]


def carry_out(ctx: StepContext, answer: Gate) -> None:
    """Do what a person chose. Raises StepFailed when the service is to be left stopped."""
    if answer.answer == "leave":
        raise StepFailed(
            f"{answer.answered_by_name} decided to leave {ctx.deployment} stopped.",
            hint="Start it when the cards are free.",
        )
    if answer.answer == "anyway":
        boot_id = ctx.step.data.get("strangers_boot", "")
        ctx.remember(forced=True, boot_id=boot_id, verified_at=timezone.now().isoformat())
        ctx.finish(f"{answer.answered_by_name} decided to launch anyway: {answer.comment}")
    if answer.answer == "kill":
        _kill(ctx, answer)


def _kill(ctx: StepContext, answer: Gate) -> None:
    """SIGKILL to the named strangers, if they are still the same processes."""
    named = tuple((pid, start) for pid, start in ctx.step.data.get("strangers", []))
    words = ", ".join(str(pid) for pid, _ in named)
    ctx.say(f"{answer.answered_by_name} decided to kill {words}: {answer.comment}")
    boot_id = ctx.step.data.get("strangers_boot", "")
    order = Order(EffectKind.KILL_STRANGERS, ctx.host, boot_id, "KILL", named, named, ctx.deployment.kill_seconds)
    try:
        living = signals.send(ctx, order, heard=lambda _: None, may_be_denied=True)
    except signals.Rebooted:
        ctx.say("The host has booted since: those processes cannot live any more.")
        return
    if living.denied:
        ctx.say(f"This login may not signal {', '.join(map(str, living.denied))}: they belong to another user.")
