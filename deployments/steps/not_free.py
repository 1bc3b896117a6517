"""The cards are not free: who is in the way, and what a person decided about them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.utils import timezone

from deployments.decisions.kill_offer import NO_BOOT
from deployments.decisions.stop_ladder import Record
from deployments.decisions.verify import CardSeen, Free, NotFree, Round, Unmeasured, Verdict
from deployments.lifecycle import EffectKind, GateKind, JobKind, ServiceState, StepName
from deployments.models import Deployment, Gate
from deployments.plan.collect import (
    measured_needs,
)
from deployments.plan.collect_fit import why_it_cannot_fit
from deployments.plan.sharing import Planned, in_words
from deployments.steps import signals
from deployments.steps.base import GateOpened, StepContext, StepFailed
from deployments.steps.second_look import SecondLook, second_look
from deployments.steps.signals import Order

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
    return Planned.of(ctx.job.plan, way_back=ctx.step.way_back) if accepted is None else Planned(tuple(accepted))


def ask(ctx: StepContext, verdict: Verdict, seen: Round, boot_id: str, *, record: Record | None) -> GateOpened:
    """The question, with value, limit and holders; ``raise`` it. ``boot_id``: of the host when it was measured.

    ``record``: what the stop has ended, to know it again when it has come back.
    """
    assert isinstance(verdict, NotFree | Unmeasured)
    for reason in verdict.reasons:
        ctx.say(reason)
    again = second_look(ctx, seen.holders or (), planned_of(ctx), record, boot_id)
    for reason in again.reasons:
        ctx.say(reason)
    strangers = [[holder.pid, holder.start_time] for holder in again.killable]
    left = [[each.process.pid, each.process.start_time] for each in (again.left if boot_id else ())]
    ctx.remember(
        forced=False,
        named=_named(seen, again),
        risks=_risks(seen),
        strangers=strangers,
        strangers_boot=boot_id,
        strangers_space=again.pid_namespace,
        found=again.found,
        left=left,
    )
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


def _whose_memory(seen: Round, again: SecondLook) -> list[str]:
    """Of memory that no stranger holds."""
    if not _full(seen) or seen.holders or not again.nobody_holds:
        return []
    if not again.daemons:
        return [NOBODY_HOLDS_IT]
    named = "; ".join(f"{daemon} on {', '.join(daemon.cards)}" for daemon in again.daemons)
    return [f"{ONLY_DAEMONS} {named}."]


def _title(verdict: Verdict, again: SecondLook) -> str:
    if again.spared.back:
        same = any(back.is_same for back in again.spared.back)
        return "The server has come back by itself" if same else "Another server was started meanwhile"
    if again.left:
        return "Something is left over from the old server"
    if not isinstance(verdict, NotFree):
        return "Whether the cards are free could not be measured"
    return "The cards cannot be used as they are" if verdict.unusable else "The cards are not free"


def _down_since(ctx: StepContext, seen: Round, again: SecondLook) -> datetime | None:
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


def _if_same(count: int) -> str:
    return "only if it is still the same process" if count == 1 else "each only if it is still the same process"


def _choices(ctx: StepContext, seen: Round, again: SecondLook) -> list[dict[str, Any]]:
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
        "detail": f"Ends by force (SIGKILL) exactly {numbers}, {_if_same(len(others))}. "
        f"{'Its' if len(others) == 1 else 'Their'} work is lost.",
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
        "detail": f"Ends by force (SIGKILL) exactly {_processes(each.process.pid for each in again.left)}, "
        f"{_if_same(len(again.left))}.",
    }
    if seen.holders:
        look["detail"] = (
            f"Ask whoever it belongs to first: they may end it in order. The panel tells nobody. {look['detail']}"
        )
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


def leave_if_decided(ctx: StepContext) -> None:
    """Raises StepFailed when the newest answer is to leave it stopped: a no counts however old it is, used or not."""
    told = ctx.answered(GateKind.NOT_FREE)
    if told is not None and told.answer == "leave":
        raise StepFailed(
            f"{told.answered_by_name} decided to leave {_left(ctx)} stopped.",
            hint=f"Start {_served(ctx)} when the cards are free.",
        )


def carry_out(ctx: StepContext, answer: Gate) -> None:
    """Do what a person chose."""
    if answer.answer == "accept":
        ctx.remember(co_tenants=ctx.step.data["found"] or [])
        ctx.say(f"{answer.answered_by_name} agreed to these co-tenants: {_names(ctx.step.data['co_tenants'])}.")
    if answer.answer == "kill":
        _kill(ctx, answer, ctx.step.data.get("strangers", []), EffectKind.KILL_STRANGERS)
    if answer.answer == "kill_left":
        _kill(ctx, answer, ctx.step.data.get("left", []), EffectKind.SIGNAL_KILL)


def launch_anyway(
    ctx: StepContext, answer: Gate, verdict: Verdict, seen: Round, boot_id: str, *, record: Record | None
) -> None:
    """A person takes the risk that the question has named, and no other: it may be hours old.

    ``verdict`` and ``seen``: a look of now. Raises GateOpened, asking anew, where a server is there or may be, somebody
    holds a card who was not named, or it cannot fit any more.
    """
    if not isinstance(verdict, Free):
        again = second_look(ctx, seen.holders or (), planned_of(ctx), record, boot_id)
        before = {tuple(one) for one in ctx.step.data.get("named", [])}
        alive = again.spared.back or again.left or seen.survivors != ()
        newcomers = [one for one in _named(seen, again) if tuple(one) not in before]
        worse = set(_risks(seen)) - set(ctx.step.data.get("risks", []))
        if alive or newcomers or worse or _too_full(ctx, seen):
            ctx.say(f"{answer.answered_by_name} decided to launch anyway, but it is not as it was: this is asked anew.")
            raise ask(ctx, verdict, seen, boot_id, record=record)
    ctx.remember(forced=True, boot_id=boot_id, verified_at=timezone.now().isoformat())
    ctx.finish(f"{answer.answered_by_name} decided to launch anyway: {answer.comment}")


def _named(seen: Round, again: SecondLook) -> list[list[int]]:
    """Those that the question names, by pid and start time: of either look, each in its own numbers."""
    holders = dict.fromkeys((holder.pid, holder.start_time) for holder in (*(seen.holders or ()), *again.named))
    return [list(who) for who in holders]


def _risks(seen: Round) -> list[str]:
    """What else is wrong or not known, besides who holds the cards: the same words while it is the same."""
    cards = [f"{card.uuid} {'unmeasured' if card.unmeasured else 'full'}" for card in seen.cards if not card.is_free]
    others = [*seen.unusable, *seen.missing]
    port = [] if seen.port_free else [f"port {'unknown' if seen.port_free is None else 'taken'}"]
    return [*cards, *others, *port, *(["holders unknown"] if seen.holders is None else [])]


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
    order = Order(
        kind,
        ctx.host,
        boot_id,
        "KILL",
        named,
        named,
        ctx.deployment.kill_seconds,
        pid_namespace=ctx.step.data.get("strangers_space", ""),
    )
    try:
        signals.send(ctx, order, heard=lambda _: None, may_be_denied=True)
    except signals.Rebooted:
        ctx.say("The host has booted since: those processes cannot live any more.")
