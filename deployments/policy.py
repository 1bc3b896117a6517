"""Who may answer a job's question: the roles, and the policy of its deployments."""

from __future__ import annotations

from django.contrib.auth.models import User

from controlpanel.access import Action, may
from deployments.models import Job


def why_not_answer(job: Job, action: Action, actor: User) -> str:
    """Why this person may not give an answer that needs ``action``; empty when they may.

    Who may approve may also say no. The deployment's policy decides whether the requester may approve or confirm;
    no policy means no.
    """
    if not may(actor, action) and not (action == Action.ASK and may(actor, Action.APPROVE)):
        return f"This needs a role that may {action.replace('_', ' ')}."
    own = job.requested_by_id == actor.pk and action in (Action.APPROVE, Action.CONFIRM_KILL)
    if own and (job.deployment is None or not all(one.requester_may_approve for one in job.subjects)):
        return "Somebody else must decide: this deployment's policy does not let the requester do it."
    return ""
