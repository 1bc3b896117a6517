"""Let go of a deployment: what runs, runs on, and the panel looks no more."""

from __future__ import annotations

from datetime import timedelta

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from controlpanel import audit
from controlpanel.access import Action, require
from controlpanel.live import hints
from controlpanel.refusal import Refused
from deployments import tasks
from deployments.lifecycle import LIVE_LAUNCH, NEVER_LATE, EffectKind, LaunchState, ServiceState
from deployments.models import Deployment, Effect, Launch
from deployments.services.jobs import wait_for

LATEST_ARRIVAL = timedelta(minutes=15)
"""What was sent over a link that broke does not arrive after this. Until then the host must keep its fence.

A worker that was frozen for longer, just as it sent a launch, finds no fence. Its launch still finds who has the port
and the cards, and the locks of whoever is about to use them: it reads all three anew, and starts nothing beside them.
"""


def release(deployment: Deployment, *, typed_name: str = "", actor: User, address: str) -> None:
    """Let go at once; a worker then takes away what the panel has left on the host.

    ``typed_name``: on production, the deployment's name. Raises Refused.
    """
    require(actor, Action.EDIT_DEPLOYMENT)
    if deployment.production and typed_name.strip() != deployment.name:
        raise Refused(f"{deployment} is a production deployment.", hint=f"Type its name, {deployment}, to confirm.")
    who, now = actor.get_username(), timezone.now()
    with transaction.atomic():
        before = Deployment.locked(deployment.pk)
        if before.state == ServiceState.RELEASED:
            raise Refused(f"{deployment} is released already.")
        if (job := before.active_job) is not None:
            raise wait_for(job, f"{deployment} is not released while a job of it goes on.")
        _refuse_while_on_its_way(before)
        Launch.objects.filter(deployment=before, state__in=LIVE_LAUNCH).update(
            state=LaunchState.ENDED, ended_at=now, end_reason=f"released by {who}: it runs on without the panel"
        )
        Deployment.objects.filter(pk=before.pk).update(
            state=ServiceState.RELEASED,
            state_since=now,
            state_detail=f"Released by {who}. What runs, runs on; the panel looks no more.",
            found={},
            released={"at": now.isoformat(), "by": who},
        )
        audit.record("release", actor=actor, target=deployment, detail={"state": before.state}, address=address)
        transaction.on_commit(lambda: tasks.ring_release(deployment.pk), robust=True)
    hints.hint("overview")


def _refuse_while_on_its_way(deployment: Deployment) -> None:
    """Raises Refused where a start may still arrive, or a stop, which would end what is to run on."""
    about = Q(job__deployment=deployment) | Q(job__replaces=deployment)
    sent = Effect.objects.filter(about, kind__in=NEVER_LATE, finished_at=None)
    late = sent.filter(intended_at__gt=timezone.now() - LATEST_ARRIVAL).first()
    if late is not None:
        what = "launch" if late.kind == EffectKind.LAUNCH else "stop"
        raise Refused(
            f"A {what} of {deployment} was sent minutes ago, and its answer was lost: it may still arrive.",
            hint="Wait some minutes, then release it.",
        )


def tidy_up_again(deployment: Deployment, *, actor: User, address: str) -> None:
    """Ask a worker once more to take away what was left on the host of a released deployment."""
    require(actor, Action.EDIT_DEPLOYMENT)
    with transaction.atomic():
        now = Deployment.locked(deployment.pk)
        if now.state != ServiceState.RELEASED or now.released.get("done_at") or now.place is None:
            raise Refused("There is nothing left to take away.", hint="Look at its page again.")
        audit.record("ask to tidy up", actor=actor, target=deployment, detail={}, address=address)
        transaction.on_commit(lambda: tasks.ring_release(deployment.pk), robust=True)
