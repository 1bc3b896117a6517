"""Replace one deployment by another on the same cards: one job, one approval, with the way back in it."""

from __future__ import annotations

from uuid import UUID

from django.contrib.auth.models import User

from controlpanel.refusal import Refused
from deployments.lifecycle import DOWN, JobKind, ServiceState
from deployments.models import Deployment, Job
from deployments.services.jobs import refuse_released, request_job


def request_replacement(
    old: Deployment,
    *,
    by: Deployment,
    reason: str,
    way_back: bool,
    request_key: UUID,
    actor: User,
    address: str,
) -> Job:
    """Make a job that stops ``old`` and then starts ``by`` on cards that it frees.

    Raises Refused when that cannot be, or one of them, a card or a port is in the hands of another job.
    """
    refuse_released(old)
    if reason_not := why_not_by(old, by):
        raise Refused(f"{old} cannot be replaced by {by}: {reason_not}", hint="Choose another deployment.")
    return request_job(
        by,
        kind=JobKind.REPLACE,
        revision=None,
        reason=reason,
        way_back=way_back,
        request_key=request_key,
        actor=actor,
        address=address,
        replaces=old,
    )


def why_not_by(old: Deployment, new: Deployment) -> str:
    """Why ``new`` cannot take the place of ``old``, in a sentence; empty when it can."""
    mine, theirs = new.placement, old.placement
    if new == old:
        return "it is the same deployment."
    if mine.host_id != theirs.host_id:
        return f"it runs on {mine.host}."
    if more := set(mine.gpu_uuids) - set(theirs.gpu_uuids):
        return f"it needs {len(more)} card{'s' if len(more) > 1 else ''} that {old} does not free."
    if not mine.gpu_uuids:
        return "it has no card."
    if new.is_unseen:
        return "whether a server of it runs has not been seen yet. Try again when its host has been read."
    if new.state not in DOWN or new.live_launch is not None:
        return f"it is not stopped ({new.get_state_display().lower()}). Stop it first."
    return ""


def weighed(old: Deployment) -> list[tuple[Deployment, str]]:
    """The other deployments of its host, each with why it cannot take the place of ``old``; empty where it can."""
    there = Deployment.objects.filter(placements__host=old.placement.host).exclude(pk=old.pk)
    there = there.exclude(state=ServiceState.RELEASED).select_related("revision__profile")
    return [(one, why_not_by(old, one)) for one in there.order_by("name").distinct()]
