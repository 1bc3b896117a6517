"""Where somebody is told: each person's own addresses."""

from __future__ import annotations

import uuid

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.utils import timezone

from controlpanel import audit
from controlpanel.access import Action, require
from controlpanel.refusal import Refused
from controlpanel.sealing import CannotUnseal
from deployments import tasks
from deployments.models import Deployment, Notice, NoticeAddress
from deployments.notices.sending import BadAddress, service_of

MOST = 20
"""Addresses of one person."""


def add_notice_address(
    *, name: str, url: str, deployment: Deployment | None, actor: User, address: str
) -> NoticeAddress:
    """Have ``actor`` told at ``url`` from now on. Raises Refused, without the address."""
    require(actor, Action.BE_TOLD)
    if NoticeAddress.objects.filter(user=actor).count() >= MOST:
        raise Refused(f"You have {MOST} addresses already.", hint="Remove one first.")
    try:
        row = NoticeAddress(user=actor, name=name, service=service_of(url), deployment=deployment)
        row.put(url)
    except BadAddress as error:
        raise Refused(str(error)) from error
    except CannotUnseal as error:
        raise Refused(error.message, hint=error.hint) from error
    try:
        with transaction.atomic():
            row.save()
            detail = {"name": name, "service": row.service, "deployment": deployment.name if deployment else "all"}
            audit.record("add notice address", actor=actor, target=actor, detail=detail, address=address)
    except IntegrityError as error:
        raise Refused(f"You have an address called {name} already.", hint="Choose another name.") from error
    return row


def remove_notice_address(row: NoticeAddress, *, actor: User, address: str) -> None:
    """Nothing is sent there any more."""
    _require_own(row, actor)
    with transaction.atomic():
        audit.record("remove notice address", actor=actor, target=actor, detail={"name": row.name}, address=address)
        row.delete()


def send_test_notice(row: NoticeAddress, *, actor: User) -> None:
    """Send a message that says that it is a test; what came of it stands on the page."""
    _require_own(row, actor)
    title = "Relaunch: this is a test"
    text = "You will be told here when a job waits for you, when one has failed, and when a server is down."
    made = Notice.objects.create(
        address=row, key=f"test-{uuid.uuid4()}", title=title, text=text, path="/notices/", due_at=timezone.now()
    )
    transaction.on_commit(lambda: tasks.ring_notice(made.pk), robust=True)


def _require_own(row: NoticeAddress, actor: User) -> None:
    require(actor, Action.BE_TOLD)
    if row.user_id != actor.pk:
        raise Refused("That address is somebody else's.")
