"""Approving a plan without asking: where somebody has allowed it beforehand, and the plan is clean.

Allowed is a start on clean cards (the deployment's policy), and what a standing approval covers. The approval is
written as a gate that is answered already, bound to the plan's hash like a person's, and looked at again where that is.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.contrib.auth.models import User
from django.utils import timezone

from controlpanel import audit
from controlpanel.access import Action, may
from deployments.lifecycle import EffectKind, GateKind, JobKind
from deployments.models import Gate, StandingApproval
from deployments.plan.clean import why_not_clean
from deployments.plan.collect_requests import tell_requests
from deployments.plan.plan import Plan
from deployments.steps import when_idle
from deployments.steps.base import StepContext, StepFailed

BY_POLICY = "policy (clean cards)"
NOTHING_STARTED = ("notfree", "locked", "rebooted", "refused")
"""How the outcome of a launch begins that has started nothing (steps/launch.py)."""
LATER = "Plan a start when that is mended."


@dataclass(frozen=True)
class Right:
    """By what a plan may be approved now: on whose word, in words, and what that person must still be allowed to."""

    person: User
    name: str
    words: str
    action: Action = Action.APPROVE
    standing: StandingApproval | None = None


def right_to(ctx: StepContext, made: Plan) -> Right | None:
    """None when a person is to be asked. Raises StepFailed for a job that never asks, and may not go on."""
    if (right := _when_idle(ctx, made)) is not None:
        return right  # a person has seen this very plan
    right = _after_crash(ctx) or _clean_start(ctx) or _tuning(ctx)
    reasons = why_not_clean(made) if right is not None else []
    if not reasons:
        return right
    if ctx.job.standing is not None:
        raise StepFailed(f"Not started again. {' '.join(reasons)}", hint=LATER)
    ctx.say(f"An approver decides, for the plan is not clean: {' '.join(reasons)}")
    return None


def _when_idle(ctx: StepContext, made: Plan) -> Right | None:
    """Its time has come, by the plan step; that the plan is the approved one is looked at here too."""
    later = when_idle.of_job(ctx)
    if later is None:
        return None
    when_idle.refuse_if_changed(ctx, later, made)
    return _by(later)


def _after_crash(ctx: StepContext) -> Right | None:
    """What the panel itself has asked for rests on the standing approval that it was asked under, and on no other."""
    if ctx.job.standing is None:
        return None
    standing = StandingApproval.objects.get(pk=ctx.job.standing.pk)
    if why := standing.why_not():
        raise StepFailed(f"Not started again: {why}.", hint="Plan a start, or give the approval anew.")
    return _by(standing)


def _clean_start(ctx: StepContext) -> Right | None:
    """Nothing is stopped, and nobody is on the cards: the deployment's policy may trust who asks."""
    person = ctx.job.requested_by
    if ctx.job.kind != JobKind.START or person is None or not may(person, Action.START):
        return None
    if not ctx.deployment.clean_start_by_itself:
        return None
    words = f"By the policy of {ctx.deployment} a start on clean cards needs no approver"
    return Right(person, BY_POLICY, words, Action.START)


def _tuning(ctx: StepContext) -> Right | None:
    """A lease of all its cards that the requester holds."""
    if ctx.job.kind not in (JobKind.RESTART, JobKind.START):
        return None
    lease = StandingApproval.lease_for(ctx.job.requested_by, ctx.deployment)
    return _by(lease) if lease is not None else None


def _by(standing: StandingApproval) -> Right | None:
    if standing.given_by is None:
        return None
    words = f"By the standing approval {standing.pk} that {standing.given_by_name} has given"
    return Right(standing.given_by, standing.given_by_name, words, standing=standing)


def approve(ctx: StepContext, made: Plan, right: Right, *, title: str) -> None:
    """Store the plan with its approval: a gate that is answered already, and its audit entry."""
    tell_requests(ctx.stopped, made)
    launch = ctx.stopped.live_launch()
    plan, previous = ctx.log.hide_in(made.data), launch.revision if launch is not None else None
    now = timezone.now()
    choice = {"key": "approve", "label": "Approved without asking", "action": right.action, "danger": False}
    with ctx.writing(plan=plan, previous_revision=previous, approved_by_name=right.name):
        gate = Gate.objects.create(
            job=ctx.job,
            step=ctx.step,
            kind=GateKind.PLAN,
            title=title[:200],
            choices=[choice],
            plan_hash=made.hash,
            expires_at=now + timedelta(minutes=ctx.deployment.approval_minutes),
            answered_at=now,
            answered_by=right.person,
            answered_by_name=right.name,
            answer="approve",
            comment=f"{right.words}.",
            used_at=now,
            standing=right.standing,
        )
        detail = {"gate": gate.pk, "plan": made.hash, "by": right.words}
        audit.record("approve without asking", actor=None, target=ctx.job, detail=detail)
    ctx.job.plan, ctx.job.previous_revision, ctx.job.approved_by_name = plan, previous, right.name
    ctx.say(f"{right.words}.")


def was_by_itself(ctx: StepContext) -> bool:
    """Nobody was asked for the approval that this job has: then nobody need be, as long as the plan is clean."""
    gate = _approval(ctx)
    if gate is None or ctx.job.touched:
        return False
    return gate.standing is not None or gate.choices[0]["action"] == Action.START


def _approval(ctx: StepContext) -> Gate | None:
    return ctx.job.gates.filter(kind=GateKind.PLAN, answer="approve").order_by("-id").first()


def refuse_if_revoked(ctx: StepContext) -> None:
    """At the launch: a start whose standing approval has ended since is not made. Raises StepFailed.

    A restart that has stopped the server is carried to its end: to break off there would leave the service down.
    """
    gate = _approval(ctx)
    if ctx.job.kind != JobKind.START or gate is None or gate.standing is None:
        return
    sent = ctx.step.effects.filter(kind=EffectKind.LAUNCH).order_by("-id").first()
    if sent is not None and not (sent.finished_at and sent.outcome.startswith(NOTHING_STARTED)):
        return  # it may be there already
    if why := gate.standing.why_not():
        raise StepFailed(f"Not started: the standing approval does not count any more, {why}.", hint=LATER)
