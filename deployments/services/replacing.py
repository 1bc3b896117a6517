"""Replace one deployment by another on the same cards: one job, one approval, with the way back in it."""

from __future__ import annotations

from uuid import UUID

from django.contrib.auth.models import User

from deployments.lifecycle import JobKind, ServiceState
from deployments.models import Deployment, Job
from deployments.services.jobs import request_job
from deployments.services.targets import check_replacement, why_not_by


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
    check_replacement(old, by)
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


def weighed(old: Deployment) -> list[tuple[Deployment, str]]:
    """The other deployments of its host, each with why it cannot take the place of ``old``; empty where it can."""
    there = Deployment.objects.filter(placements__host=old.placement.host).exclude(pk=old.pk)
    there = there.exclude(state=ServiceState.RELEASED).select_related("revision__profile")
    return [(one, why_not_by(old, one)) for one in there.order_by("name").distinct()]
