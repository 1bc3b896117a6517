"""Give, ask for and revoke standing approvals: each for little, for a time, and with its audit entry."""

from __future__ import annotations

from datetime import timedelta

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from controlpanel import audit
from controlpanel.access import Action, may, require
from controlpanel.live import hints
from controlpanel.refusal import Refused
from deployments.lifecycle import StandingKind
from deployments.models import Deployment, StandingApproval
from deployments.services.jobs import LONGEST_COMMENT, refuse_released

LONGEST_DAYS = 90


def allow_after_crash(deployment: Deployment, *, days: int, reason: str, actor: User, address: str) -> StandingApproval:
    """Let a deployment be started again after a crash or a boot, as often as its policy says, for ``days``.

    One that stands already is replaced. Raises Refused where the policy is to leave it down.
    """
    require(actor, Action.APPROVE)
    if not 1 <= days <= LONGEST_DAYS:
        raise Refused(f"{days} days cannot be.", hint=f"Write a number from 1 to {LONGEST_DAYS}.")
    check_reason(reason)
    now = timezone.now()
    with transaction.atomic():
        found = Deployment.locked(deployment.pk)
        refuse_released(found)
        if not found.crash_starts_per_hour:
            raise Refused(
                f"The policy of {found} is to leave it down after a crash.",
                hint="An administrator changes that under Edit: started again at most so many times an hour.",
            )
        before = found.standing.filter(kind=StandingKind.AFTER_CRASH, ended_at=None)
        before.update(ended_at=now, ended_by_name=actor.get_username())
        made = StandingApproval.objects.create(
            kind=StandingKind.AFTER_CRASH,
            deployment=found,
            per_hour=found.crash_starts_per_hour,
            reason=reason,
            given_by=actor,
            given_by_name=actor.get_username(),
            given_at=now,
            expires_at=now + timedelta(days=days),
        )
        detail = {"standing approval": made.pk, "at most an hour": made.per_hour, "days": days, "reason": reason}
        audit.record("allow starts after a crash", actor=actor, target=found, detail=detail, address=address)
    hints.hint("overview")
    return made


def check_reason(reason: str) -> None:
    """Raises Refused for one that is too long to be read."""
    if len(reason) > LONGEST_COMMENT:
        raise Refused(f"The reason is longer than {LONGEST_COMMENT:,} characters.", hint="Shorten it.")


def revoke(standing: StandingApproval, *, actor: User, address: str) -> None:
    """End one, whoever has given it: an approver may, and whose it is. What it has approved and began goes on."""
    if not may(actor, Action.APPROVE) and standing.holder_id != actor.pk:
        require(actor, Action.APPROVE)
    name = actor.get_username()
    with transaction.atomic():
        open_ones = StandingApproval.objects.filter(pk=standing.pk, ended_at=None)
        if not open_ones.update(ended_at=timezone.now(), ended_by_name=name):
            raise Refused("It has been ended already.", hint="Look at the page again: it is not listed there any more.")
        detail = {"standing approval": standing.pk, "kind": standing.kind, "given by": standing.given_by_name}
        deed = "revoke standing approval" if standing.given_at else "decline standing approval"
        target = standing.deployment or standing.job or standing.host
        audit.record(deed, actor=actor, target=target, detail=detail, address=address)
    hints.hint("overview")
