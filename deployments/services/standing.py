"""Give, ask for and revoke standing approvals: each for little, for a time, and with its audit entry."""

from __future__ import annotations

from datetime import timedelta

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.utils import timezone

from controlpanel import audit
from controlpanel.access import Action, may, require
from controlpanel.live import hints
from controlpanel.refusal import Refused
from deployments import tasks
from deployments.lifecycle import GateKind, JobState, StandingKind, StepName
from deployments.models import Deployment, Gate, Job, StandingApproval
from deployments.services.deployments import check_cards
from deployments.services.jobs import LONGEST_COMMENT, move, why_not_answer
from deployments.services.targets import refuse_released
from hosts.models import Host

LONGEST_DAYS = 90
LONGEST_WAIT = 24
"""Hours for which a plan may wait until no request runs: the job holds its cards for as long."""
LONGEST_LEASE = 12
"""Hours: an afternoon of tuning, and no habit."""


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


def ask_for_lease(
    host: Host, *, gpu_uuids: list[str], hours: int, reason: str, actor: User, address: str
) -> StandingApproval:
    """Ask for a tuning lease of these cards; an approver gives it, and only then the hours begin.

    Raises Refused for cards on which it would be about nothing.
    """
    require(actor, Action.ASK)
    check_cards(host, gpu_uuids)
    check_reason(reason)
    if not 1 <= hours <= LONGEST_LEASE:
        raise Refused(f"{hours} hours cannot be.", hint=f"Write a number from 1 to {LONGEST_LEASE}.")
    name = actor.get_username()
    lease = StandingApproval(kind=StandingKind.TUNING, host=host, gpu_uuids=gpu_uuids, hours=hours, reason=reason)
    lease.holder, lease.holder_name = actor, name
    if not lease.covered:
        raise Refused(
            "No deployment has all of its cards among these.",
            hint="Tick all cards of the deployments that you tune. One in production is asked for every time.",
        )
    with transaction.atomic():
        lease.save(force_insert=True)
        detail = {"standing approval": lease.pk, "cards": gpu_uuids, "hours": hours, "reason": reason}
        audit.record("ask for a tuning lease", actor=actor, target=host, detail=detail, address=address)
    hints.hint("overview")
    return lease


def give_lease(lease: StandingApproval, *, actor: User, address: str) -> None:
    """Give what was asked for, from now on. Raises Refused for one's own where a policy wants somebody else."""
    require(actor, Action.APPROVE)
    strict = [each.name for each in lease.covered if not each.requester_may_approve]
    if lease.holder_id == actor.pk and strict:
        raise Refused(
            f"Somebody else must give it: the policy of {', '.join(strict)} lets nobody approve what they asked for.",
            hint="Ask another approver.",
        )
    now = timezone.now()
    with transaction.atomic():
        given = (
            StandingApproval.asked_for()
            .filter(pk=lease.pk, kind=StandingKind.TUNING)
            .update(
                given_by=actor,
                given_by_name=actor.get_username(),
                given_at=now,
                expires_at=now + timedelta(hours=lease.hours),
            )
        )
        if not given:
            raise Refused("It does not wait for an approver any more.", hint="Look at the overview again.")
        detail = {"standing approval": lease.pk, "holder": lease.holder_name, "cards": lease.gpu_uuids}
        detail["hours"] = lease.hours
        audit.record("give a tuning lease", actor=actor, target=lease.host, detail=detail, address=address)
    hints.hint("overview")


def approve_when_idle(gate: Gate, *, begins: int, ends: int, plan_hash: str, actor: User, address: str) -> None:
    """Approve a plan for a moment without requests, from ``begins`` to ``ends`` hours from now.

    Only that plan: it is looked at anew then. Raises Refused when the question is not open, or is another by now.
    """
    job = gate.job
    if why := why_not_answer(job, Action.APPROVE, actor):
        raise PermissionDenied(why)
    _check_later(gate, begins=begins, ends=ends, plan_hash=plan_hash)
    now, name = timezone.now(), actor.get_username()
    with transaction.atomic():
        # The job's row first, then the gate's, as with every answer.
        if not move(job, "approve", by=name) or not gate.close(answer="when idle", by=actor):
            raise Refused("This question is not open any more.", hint="Look at the job: somebody may have answered.")
        made = StandingApproval.objects.create(
            kind=StandingKind.WHEN_IDLE,
            job=job,
            plan_hash=gate.plan_hash,
            given_by=actor,
            given_by_name=name,
            given_at=now,
            begins_at=now + timedelta(hours=begins),
            expires_at=now + timedelta(hours=ends),
        )
        detail = {"standing approval": made.pk, "gate": gate.pk, "plan": gate.plan_hash}
        detail |= {"from": made.begins_at, "until": made.expires_at}
        audit.record("approve when idle", actor=actor, target=job, detail=detail, address=address)
        transaction.on_commit(lambda: tasks.ring(job.pk), robust=True)
    _tell(job)


def _check_later(gate: Gate, *, begins: int, ends: int, plan_hash: str) -> None:
    """Raises Refused for another plan than the one that is shown, and for a time that is none."""
    if gate.kind != GateKind.PLAN or not (gate.job.plan or {}).get("stops"):
        raise Refused("Only a plan that stops a server can wait until no request runs.", hint="Approve it, or not.")
    if any(choice["key"] == "approve" and choice.get("needs_reason") for choice in gate.choices):
        raise Refused(
            "This plan is known to fail, so it is not approved for later.",
            hint="Discard it. To have it all the same, approve it now, with a reason.",
        )
    if gate.step.name != StepName.PLAN:
        raise Refused("The job has begun: it cannot wait until no request runs.", hint="Approve it, or not.")
    if gate.plan_hash != plan_hash:
        raise Refused("The plan has changed since this page was loaded.", hint="Read the new plan, then decide.")
    if not 0 <= begins < ends <= LONGEST_WAIT:
        raise Refused(
            f"From {begins} h to {ends} h from now is no time.",
            hint=f"Write hours from now, the first less than the second, which is {LONGEST_WAIT} at most.",
        )


def _tell(job: Job) -> None:
    hints.hint(f"job:{job.pk}")
    hints.hint("overview")


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
        if standing.job is not None:  # which then asks anew
            waiting = Job.objects.filter(
                pk=standing.job.pk,
                state=JobState.WAITING,
                # Whatever else it waits for is asked still.
                gates__in=Gate.objects.filter(kind=GateKind.WHEN_IDLE, answered_at=None),
            )
            waiting.update(state=JobState.QUEUED, ring_at=timezone.now())
    hints.hint("overview")
