"""Put a deployment back into its router by a job, or say that it is there."""

from __future__ import annotations

from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction

from controlpanel import audit
from controlpanel.access import Action, require
from controlpanel.live import hints
from controlpanel.refusal import Refused
from deployments.lifecycle import DOWN, JobKind
from deployments.models import Deployment, Job
from deployments.services.jobs import insert_job, wait_for
from deployments.traffic.hook import Moment, hook_of


def request_put_back(deployment: Deployment, *, request_key: UUID, actor: User, address: str) -> Job:
    """Make a job that runs the put-back. It stops and starts nothing, so nobody approves it.

    Raises Refused where users would be sent to nobody, or it is not out of its router.
    """
    if not deployment.out_of_router:
        raise Refused(f"{deployment} is not out of its router.", hint="Look at its page again.")
    if hook_of(deployment.hooks, Moment.PUT_BACK) is None:
        raise Refused(f"How {deployment} is put back is not set.", hint="Set it under Edit, or say that it is back.")
    if deployment.state in DOWN:
        raise Refused(
            f"{deployment} is {deployment.state}: its router would send users to nobody.",
            hint="Start it: it is put back when its check has passed.",
        )
    revision = deployment.live_launch.revision if deployment.live_launch else deployment.revision
    job = Job(kind=JobKind.PUT_BACK, request_key=request_key, revision=revision, way_back=False)
    return insert_job(job, deployment, actor=actor, address=address)


def say_it_is_back(deployment: Deployment, *, actor: User, address: str) -> None:
    """A person has seen to it that it is in its router again. Raises Refused while a job of it goes on."""
    require(actor, Action.ASK)
    with transaction.atomic():
        now = Deployment.locked(deployment.pk)
        if (job := now.active_job) is not None:
            raise wait_for(job, f"Whether {now} is in its router is not changed while a job of it goes on.")
        if not now.out_of_router:
            raise Refused(f"{now} is not out of its router.", hint="Look at its page again.")
        Deployment.objects.filter(pk=now.pk).update(out_of_router={})
        detail = {"out since": now.out_of_router["since"], "by job": now.out_of_router["job"]}
        audit.record("say it is back in its router", actor=actor, target=now, detail=detail, address=address)
    hints.hint("overview")
