"""Does an answer still count when it is used? Between the two a worker may have been away for days."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from controlpanel.access import Action, may
from deployments.models import Gate
from deployments.policy import why_not_answer
from deployments.steps.base import StepContext


def answer_stands(ctx: StepContext, gate: Gate) -> bool:
    """Is it in time, and may the person who gave it still give it? When not, the job's log says why."""
    why_not = why_it_does_not_count(ctx, gate)
    if why_not:
        ctx.say(why_not)
    return not why_not


def why_it_does_not_count(ctx: StepContext, gate: Gate) -> str:
    """A sentence; empty when the answer stands.

    Somebody who was switched off meanwhile, or has lost the role, approves nothing that is yet to begin.
    """
    if gate.standing is not None and (why := gate.standing.why_not()):
        return f"The standing approval of {gate.standing.given_by_name} does not count: {why}."
    limit = gate.expires_at or (gate.answered_at or gate.opened_at) + timedelta(minutes=ctx.deployment.approval_minutes)
    if timezone.now() >= limit:
        return f"The answer of {gate.answered_by_name} is too old to be used: it does not count."
    action = next((choice["action"] for choice in gate.choices if choice["key"] == gate.answer), Action.APPROVE)
    person = gate.answered_by
    if person is None:
        stands = False
    elif gate.standing is not None:  # a right of its own: that of the requester is not asked
        stands = may(person, Action(action))
    else:
        stands = not why_not_answer(ctx.job, Action(action), person)
    if stands:
        return ""
    return f"{gate.answered_by_name} may not decide this any more: the answer does not count."
