"""After a crash or a boot: gathers what the decision is made of, and asks for the start; the monitor calls it.

What is asked for is an ordinary start job: it plans, verifies, launches and checks, and looks at its approval again.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from controlpanel import audit
from controlpanel.live import hints
from controlpanel.refusal import Refused
from deployments.decisions.after_crash import Crash, LeaveDown, Start, decide
from deployments.lifecycle import ENDED, LEAVE_THE_SERVER, JobKind, JobState, ServiceState, StandingKind
from deployments.models import Deployment, Job, Launch, StandingApproval
from deployments.services.jobs import store_job
from hosts.models import Host

logger = logging.getLogger(__name__)
HOUR = timedelta(hours=1)
NOBODY = "its policy would, but no approver has allowed it"
TOO_LATE = "the approval was given after it had ended"


def ended_by_itself(launch: Launch) -> str:
    """What a page says of a launch that was found ended."""
    return f"It ended outside a job: {launch.end_reason.removeprefix('found ended: ')}."


def was_at_work_since(deployment: Deployment, launch: Launch) -> bool:
    """Whether a job has had to do with the deployment since its launch was found ended.

    One that waited at its plan then counts when it went on: a stop that was approved after the crash is a stop.
    """
    about = Job.objects.filter(Q(deployment=deployment) | Q(replaces=deployment))
    return about.filter(_asked_for_or_carried_out_since(launch.ended_at)).exists()


def _asked_for_or_carried_out_since(moment: datetime | None) -> Q:
    went_on = Q(touched=True) | Q(state=JobState.SUCCEEDED)
    return Q(created_at__gte=moment) | (Q(ended_at__gte=moment) & went_on)


def consider(deployment: Deployment, host: Host) -> None:
    """A deployment that was found crashed, and that no job is at work on, is started again where that is allowed.

    Asked for anew each second: whatever dies in between is made up for. ``host``: as this monitor holds it.
    """
    if not deployment.crash_starts_per_hour or deployment.state != ServiceState.CRASHED:
        return
    launch = deployment.newest_launch
    if launch is None or not launch.crashed or launch.ended_at is None:
        return
    standing = _standing(deployment)
    decision = decide(_crash(deployment, launch, standing))
    if isinstance(decision, LeaveDown):
        _say(deployment, host, launch, decision.why)
    elif isinstance(decision, Start) and standing is not None:
        try:
            _start(deployment, host, launch, standing)
        except Refused as refused:
            _say(deployment, host, launch, f"Not started again: {refused.message}")
        except IntegrityError:
            logger.info("%s is not started again yet: another job holds its cards or its port", deployment)


def _standing(deployment: Deployment) -> StandingApproval | None:
    """The approval that was given last, in force or not."""
    return deployment.standing.filter(kind=StandingKind.AFTER_CRASH).exclude(given_at=None).first()


def _crash(deployment: Deployment, launch: Launch, standing: StandingApproval | None) -> Crash:
    assert launch.ended_at is not None
    now = timezone.now()
    of_ours = deployment.jobs.filter(standing__kind=StandingKind.AFTER_CRASH)
    since = of_ours.filter(created_at__gte=launch.ended_at)
    last = since.filter(state__in=ENDED).order_by("-pk").first()
    policy = deployment.crash_starts_per_hour
    return Crash(
        since=(now - launch.ended_at).total_seconds(),
        was_ready=launch.ready_at is not None,
        allowed=policy if standing is None or standing.per_hour is None else min(policy, standing.per_hour),
        why_not_approved=_why_not_approved(standing, launch.ended_at),
        within_hour=of_ours.filter(created_at__gt=now - HOUR).count(),
        tries=since.count(),
        last_try=_age(last.ended_at if last else None, now),
        last_acted=last is not None and last.touched,
        taken_over=_taken_over(deployment, launch.ended_at),
    )


def _why_not_approved(standing: StandingApproval | None, ended_at: datetime) -> str:
    """Who gives an approval means what comes, not what is down already: that is a button beside it."""
    if standing is None or standing.given_at is None:
        return NOBODY
    return standing.why_not() or (TOO_LATE if standing.given_at > ended_at else "")


def _age(moment: datetime | None, now: datetime) -> float:
    return (now - moment).total_seconds() if moment is not None else 0.0


def _taken_over(deployment: Deployment, ended_at: datetime) -> str:
    """A person has had a hand in it since."""
    about = Q(deployment=deployment) | Q(replaces=deployment)
    since = Job.objects.filter(about, _asked_for_or_carried_out_since(ended_at)).exclude(kind__in=LEAVE_THE_SERVER)
    theirs = since.filter(standing=None).order_by("-pk").first()
    if theirs is not None:
        return f"Not started again: {theirs.requested_by_name} has asked for a {theirs.kind} since (job {theirs.pk})."
    cancelled = since.filter(state=JobState.CANCELLED).order_by("-pk").first()
    if cancelled is not None:
        return f"Not started again: {cancelled.cancel_requested_by} has cancelled job {cancelled.pk}."
    return ""


def _start(deployment: Deployment, host: Host, launch: Launch, standing: StandingApproval) -> None:
    """Ask for it, as long as all is as it was looked at. Raises Refused, or IntegrityError when a job is in the way."""
    why = ended_by_itself(launch)
    job = Job(kind=JobKind.START, revision=launch.revision, standing=standing, way_back=False)
    job.reason = f"{why} Its policy starts it again, by the approval of {standing.given_by_name}."
    job.requested_by_name = audit.PANEL
    with transaction.atomic():
        now = Deployment.locked(deployment.pk)
        newest = now.newest_launch
        is_same = now.state == ServiceState.CRASHED and newest is not None and newest.pk == launch.pk
        held = Host.held(host.pk, host.monitor_owner).exists()
        if not is_same or not held or launch.revision is None:
            return
        store_job(job, now, given={"standing approval": standing.pk}, actor=None, address="")


def _say(deployment: Deployment, host: Host, launch: Launch, why: str) -> None:
    """Beside the state, for as long as the deployment is down."""
    detail = f"{ended_by_itself(launch)} {why}"
    if deployment.state_detail == detail or not Host.held(host.pk, host.monitor_owner).exists():
        return
    told = Deployment.objects.filter(pk=deployment.pk, state=ServiceState.CRASHED).exclude(state_detail=detail)
    if told.update(state_detail=detail):
        hints.hint("overview")
