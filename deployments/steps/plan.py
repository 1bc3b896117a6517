"""Plan: look, say what would be done and what stands in the way, and wait for an approval of exactly that.

By itself it is approved only when it is clean, and only where somebody has allowed that beforehand (by_itself.py)."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

from django.utils import timezone

from deployments.lifecycle import BESIDE_THE_SERVER, GateKind, JobKind
from deployments.models import Gate, StandingApproval
from deployments.plan.binding import differences, what_changed, who_left
from deployments.plan.collect import plan_for
from deployments.plan.collect_requests import tell_requests
from deployments.plan.coming import Part, Tell, so_far, tell_nobody
from deployments.plan.inputs import PlanInput
from deployments.plan.plan import CannotPlan, Plan
from deployments.steps import by_itself, when_idle
from deployments.steps.approval import answer_stands
from deployments.steps.base import GateOpened, StepContext, StepFailed
from hosts.transport.base import TransportError

TITLES = {
    JobKind.RESTART: "Approve and restart",
    JobKind.START: "Approve and start",
    JobKind.STOP: "Approve and stop",
    JobKind.REPLACE: "Approve and replace",
}


def plan(ctx: StepContext) -> None:
    """Make the plan and ask; once approved, go on."""
    approval = ctx.answer(GateKind.PLAN)
    if approval is not None and approval.answer == "approve" and answer_stands(ctx, approval):
        ctx.finish(f"Approved by {approval.answered_by_name}.")
        return
    later = when_idle.of_job(ctx)
    if later is not None:
        when_idle.heed_window(ctx, later)
    else:
        ctx.say(f"Looking at {ctx.host} to make the plan.")
    made = make(ctx, tell=partial(_show_so_far, ctx)) if later is None else _look_for_later(ctx, later)
    _refuse_if_blocked(ctx, made)
    title = f"{TITLES[JobKind(ctx.job.kind)]} {_what(ctx)}?"
    if (right := by_itself.right_to(ctx, made)) is not None:
        by_itself.approve(ctx, made, right, title=title)
        ctx.finish(f"{right.words}.")
        return
    raise ask_for_approval(ctx, made, title=title)


def _look_for_later(ctx: StepContext, later: StandingApproval) -> Plan:
    """The plan of now, which is the approved one, while no request runs. Raises GateOpened until that is seen."""
    try:
        made = make(ctx)
    except (TransportError, StepFailed) as error:  # what could not be seen has not changed
        raise when_idle.not_seen(ctx, later, str(error)) from error
    when_idle.refuse_if_changed(ctx, later, made)
    when_idle.heed_requests(ctx, later)
    return made


def _what(ctx: StepContext) -> str:
    return f"{ctx.job.replaces} by {ctx.job.deployment}" if ctx.job.replaces else str(ctx.deployment)


def _refuse_if_blocked(ctx: StepContext, made: Plan) -> None:
    """Raises StepFailed with what stands in the way of the plan; where that is mended is kept for the job's page."""
    reasons = [warning for warning in made.data["warnings"] if warning["blocks"]]
    if reasons:
        ctx.remember(cure=reasons[0]["cure"], of=reasons[0].get("of", ""))
        todos = dict.fromkeys(warning["todo"] for warning in reasons if warning["todo"])
        raise StepFailed(" ".join(warning["text"] for warning in reasons), hint=" ".join(todos))


def _show_so_far(ctx: StepContext, asked: PlanInput, *missing: Part) -> None:
    """On the job's page, while somebody waits there for the rest."""
    ctx.remember(coming=so_far(asked, *missing))


def make(ctx: StepContext, *, adopt: bool = True, tell: Tell = tell_nobody) -> Plan:
    """Make the plan from the facts as they are now. Raises StepFailed when something needed cannot be seen.

    ``adopt``: may an engine that listens on the port count as this deployment's, though we did not launch it?
    ``tell``: is shown what is known while the rest is asked.
    """
    try:
        made = plan_for(ctx, adopt=adopt, tell=tell)
    except CannotPlan as error:
        raise StepFailed(str(error), hint="Mend that on the host, then plan again.") from error
    if ctx.step.data.get("coming"):
        ctx.remember_soon(coming=None)
    ctx.readings({card.uuid: card.used_mib for card in made.cards})
    return made


def ask_for_approval(ctx: StepContext, made: Plan, *, title: str, anew: bool = False) -> GateOpened:
    """Keep the plan with the job and open its gate. ``anew``: the reader has seen another plan of the job before."""
    ending = ctx.stopped
    tell_requests(ending, made)
    launch = ending.live_launch()
    plan = ctx.log.hide_in(made.data)
    old = ctx.job.plan if anew else None
    return ctx.ask(
        GateKind.PLAN,
        title=title,
        text="Nothing has been touched so far." if not ctx.job.touched else "",
        evidence=_difference(old, plan) if old else [],
        choices=[
            _approve(ctx, made.data, cost=_cost(ending, made.data)),
            {
                "key": "discard",
                "label": "Discard this plan",
                "action": "ask",
                "detail": "The job ends; nothing is stopped or started.",
            },
        ],
        plan_hash=made.hash,
        expires_in=timedelta(minutes=min(one.approval_minutes for one in ctx.job.subjects)),
        plan={**plan, "warnings": _marked_new(old, plan["warnings"])} if old else plan,
        previous_revision=launch.revision if launch is not None else None,
    )


def _difference(old: dict[str, Any], new: dict[str, Any]) -> list[dict[str, Any]]:
    """What a reader of the old plan has not seen yet, for the question: the whole plan stands folded below it."""
    rows = differences(old, new)
    return [{"table": {"head": ["What differs", "In the plan before", "Now"], "rows": rows}}] if rows else []


def _marked_new(old: dict[str, Any], warnings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    known = {warning["text"] for warning in old.get("warnings", ())}
    return [{**warning, "is_new": warning["text"] not in known} for warning in warnings]


def _approve(ctx: StepContext, data: dict[str, Any], *, cost: str) -> dict[str, Any]:
    """The choice that lets it happen: a dangerous one, with a reason, where the plan says that it is for nothing."""
    despite = next((warning["despite"] for warning in data["warnings"] if warning.get("despite")), "")
    return {
        "key": "approve",
        "label": f"{TITLES[JobKind(ctx.job.kind)]} {despite}".rstrip(),
        "action": "approve",
        "danger": bool(data["stops"] or despite),
        "needs_reason": bool(despite),
        "detail": cost,
    }


def _cost(ctx: StepContext, data: dict[str, Any]) -> str:
    """What approving costs, in a sentence."""
    if not data["stops"]:
        return "Nothing is stopped."
    count = len(data["stops"])
    return f"Stops {count} process{'' if count == 1 else 'es'} of {ctx.deployment}{_requests(data)}."


def _requests(data: dict[str, Any]) -> str:
    if data["requests_unknown"]:
        return "; how many requests that cuts off is not known"
    running = data["requests"]
    return f", {running} running request{'' if running == 1 else 's'} with it" if running else ""


def _take_approval(ctx: StepContext, made: Plan) -> bool:
    """Use up the newest answer if it approves this plan: until the first effect, in time and by an approver.

    That somebody else's process has left the cards since takes nothing from what was approved.
    """
    newest = ctx.job.gates.filter(kind=GateKind.PLAN).exclude(answered_at=None).order_by("-id").first()
    if newest is None or newest.answer != "approve":
        return False
    left = who_left(newest.plan_hash, ctx.job.plan or {}, made.data)
    if left is None and newest.plan_hash != made.hash:
        return False
    for row in left or ():
        ctx.say(f"{row['name']} (pid {row['pid']}) no longer holds {', '.join(row['gpus'])}.")
    if newest.used_at is not None and _has_acted(ctx):
        return True
    if not answer_stands(ctx, newest):
        return False
    use = Gate.objects.filter(pk=newest.pk, used_at=None)
    ctx.log.write_soon(partial(use.update, used_at=timezone.now()))  # with the intent of the first effect
    return True


def _has_acted(ctx: StepContext) -> bool:
    """Something was done to the server itself: the job is then carried to its end. To tell a router is not that."""
    return ctx.job.touched and ctx.job.effects.exclude(kind__in=BESIDE_THE_SERVER).exists()


def approve_anew_if_stale(ctx: StepContext) -> Plan:
    """At the start of a step that acts: are the facts still those of the approval? Raises GateOpened when not."""
    made = make(ctx)
    if _take_approval(ctx, made):
        return made
    _refuse_if_blocked(ctx, made)
    changed = what_changed(ctx.job.plan or {}, ctx.log.hide_in(made.data))
    ctx.say(f"The plan is out of date: {'; '.join(changed) or 'its approval does not count any more'}.")
    title = "The plan is out of date. Approve the new one?"
    if by_itself.was_by_itself(ctx) and (right := by_itself.right_to(ctx, made)) is not None:
        by_itself.approve(ctx, made, right, title=title)
        return made
    raise ask_for_approval(ctx, made, title=title, anew=True)
