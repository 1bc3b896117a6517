"""Ask for a job, answer its questions, cancel it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from controlpanel import audit
from controlpanel.access import Action, may, require
from controlpanel.live import hints
from controlpanel.refusal import Refused
from controlpanel.templatetags.words import duration
from deployments import tasks
from deployments.lifecycle import GO_BACK, GateKind, JobKind, JobState
from deployments.models import CardClaim, Deployment, Gate, Job, JobStep, Placement, PortClaim, Revision
from deployments.policy import why_not_answer
from deployments.services.targets import check_replacement, check_target, refuse_released
from deployments.steps.recipes import RECIPES

LONGEST_COMMENT = 2000
LONGEST_DEED = 64  # what an audit entry holds
RING_AGAIN = timedelta(seconds=5)
"""If the doorbell is lost, the sweeper rings after this."""


def request_job(
    deployment: Deployment,
    *,
    kind: JobKind,
    revision: Revision | None,
    reason: str,
    way_back: bool,
    request_key: UUID,
    actor: User,
    address: str,
    replaces: Deployment | None = None,
) -> Job:
    """Make a job; its first step is the plan, and nothing is touched before an approval.

    ``replaces``: of a replacement, whose server goes; ``request_replacement`` has looked at both.

    The same ``request_key`` gives the same job. Raises Refused when the deployment, one of its cards or its port
    is in the hands of another job.
    """
    require(actor, Action.ASK)
    target = None if kind == JobKind.STOP else (revision or deployment.revision)
    job = Job(kind=kind, reason=reason, request_key=request_key, revision=target, replaces=replaces)
    job.way_back = way_back and kind in GO_BACK
    return insert_job(job, deployment, actor=actor, address=address)


def insert_job(
    job: Job, deployment: Deployment, *, actor: User, address: str, given: dict[str, Any] | None = None
) -> Job:
    """Insert a job of which kind, revision, reason and key are set. ``given``: what its first step is to know.

    The same key gives the same job. Raises Refused as ``request_job``.
    """
    require(actor, Action.ASK)
    same_click = Job.objects.filter(requested_by=actor, request_key=job.request_key)
    if (other := same_click.first()) is not None:
        return _same(other, kind=JobKind(job.kind), deployment=deployment)
    job.requested_by, job.requested_by_name = actor, actor.get_username()
    try:
        store_job(job, deployment, given=given or {}, actor=actor, address=address)
    except IntegrityError as error:
        if (other := same_click.first()) is not None:
            return _same(other, kind=JobKind(job.kind), deployment=deployment)
        raise _busy(deployment, job.replaces) from error
    return job


def store_job(job: Job, deployment: Deployment, *, given: dict[str, Any], actor: User | None, address: str) -> None:
    """The job with its claims, steps and audit entry; a worker is rung for it. ``actor`` None: the panel itself.

    Raises IntegrityError when another job is in the way; Refused when one of the server that it replaces is, and where
    no such job can run.
    """
    job.deployment, job.deployment_name = deployment, deployment.name
    job.ring_at = timezone.now() + RING_AGAIN
    with transaction.atomic():
        rows = {row.pk: row for row in Deployment.locked_together(one.pk for one in job.subjects)}
        # From here on as they are now: what the person saw may have changed as the click came in.
        job.deployment = rows[deployment.pk]
        refuse_released(job.deployment)
        job.deployment.placement.host = job.deployment.placement.host.held_for_a_job()
        check_target(job.deployment, job.revision)
        if job.replaces is not None:
            job.replaces = rows[job.replaces.pk]
            check_replacement(job.replaces, job.deployment)
            if job.replaces.active_job is not None:
                raise _busy(job.replaces)
        _insert(job, placement=job.deployment.placement, given=given)
        detail = {"job": job.pk, "revision": str(job.revision), "reason": job.reason, **given}
        detail |= {"replaces": job.replaces.name} if job.replaces is not None else {}
        audit.record(f"ask for {job.kind}", actor=actor, target=deployment, detail=detail, address=address)
        transaction.on_commit(lambda: tasks.ring(job.pk), robust=True)
    _tell(job)


def _same(job: Job, *, kind: JobKind, deployment: Deployment) -> Job:
    """The job that this very click has made before. Raises Refused when its key was used for something else."""
    if job.kind != kind or job.deployment_id != deployment.pk:
        raise Refused(f"This page has already asked for job {job.pk}.", hint="Load the page again, then ask.")
    return job


def _insert(job: Job, *, placement: Placement, given: dict[str, Any]) -> None:
    """The job with its steps, holding its cards and its port. Raises IntegrityError when another job holds one."""
    assert job.deployment is not None
    job.host_name = placement.host.name
    job.save(force_insert=True)
    machine = placement.host.machine
    places = [one.placement for one in job.subjects]
    uuids = {uuid for place in places for uuid in place.gpu_uuids}
    CardClaim.objects.bulk_create(CardClaim(job=job, machine=machine, gpu_uuid=uuid) for uuid in sorted(uuids))
    ports = {one.port for one in job.subjects}
    PortClaim.objects.bulk_create(PortClaim(job=job, host=placement.host, port=port) for port in sorted(ports))
    JobStep.objects.bulk_create(
        JobStep(job=job, position=position, name=name, data={} if position else given)
        for position, name in enumerate(RECIPES[JobKind(job.kind)])
    )


def _busy(*deployments: Deployment | None) -> Refused:
    """Say which job is in the way of one of them: one of its own first."""
    wanted = [one for one in deployments if one is not None]
    for deployment in wanted:
        if (own := deployment.active_job) is not None:
            return wait_for(own, f"{own.requested_by_name} has already asked for a {own.kind} of {deployment}.")
    for deployment in wanted:
        placement = deployment.placement
        card = CardClaim.objects.filter(machine=placement.host.machine, gpu_uuid__in=placement.gpu_uuids).first()
        claim = card or PortClaim.objects.filter(host=placement.host, port=deployment.port).first()
        if claim is not None:
            what = f"a card of {deployment}" if card is not None else f"port {deployment.port}"
            return wait_for(claim.job, f"A {claim.job.kind} of {claim.job.deployment_name} holds {what}.")
    return Refused("Another job has just ended here.", hint="Try again.")


def wait_for(job: Job, why: str) -> Refused:
    """A refusal because ``job`` is not over: what it does or for whom it waits, since when, and its page."""
    hint = "Wait for its end, or cancel it."
    match job.state:
        case JobState.WAITING:
            gate = job.open_gate
            approval = gate is None or gate.kind == GateKind.PLAN
            if gate is not None and gate.kind == GateKind.WHEN_IDLE:
                link = (job.get_absolute_url(), f"Open job {job.pk}")
                return Refused(f"{why} Job {job.pk} waits until no request runs.", hint="Or cancel it.", link=link)
            doing = (
                f"has waited for {'an approval' if approval else 'an answer'}{_for(gate.opened_at if gate else None)}"
            )
            hint = f"{'Approve or discard its plan' if approval else 'Answer its question'} first, or cancel it."
        case JobState.UNKNOWN:
            doing = f"has been without contact to its host{_for(job.contact_lost_at)}"
        case JobState.QUEUED:
            doing = "waits for a worker"
        case _:
            doing = "is at work"
    return Refused(f"{why} Job {job.pk} {doing}.", hint=hint, link=(job.get_absolute_url(), f"Open job {job.pk}"))


def _for(since: datetime | None) -> str:
    """How long ago that was, where it is known."""
    return f" for {duration((timezone.now() - since).total_seconds(), parts=1)}" if since else ""


# --- Answers --------------------------------------------------------------------------------------------------------


def answer_gate(gate: Gate, *, choice: str, comment: str, plan_hash: str, actor: User, address: str) -> None:
    """Give a waiting job its answer. Raises Refused when it came too late or for another plan."""
    job = gate.job
    option = next((known for known in gate.choices if known["key"] == choice), None)
    if option is None:
        raise Refused(f"{choice!r} is not one of the choices.")
    reason = why_not_answer(job, Action(option["action"]), actor)
    if reason:
        raise PermissionDenied(reason)
    if gate.plan_hash and gate.plan_hash != plan_hash:
        raise Refused("The plan has changed since this page was loaded.", hint="Read the new plan, then decide.")
    if option.get("needs_reason") and not comment.strip():
        raise Refused(f"“{option['label']}” needs a reason.", hint="Write down why, in a sentence.")
    if len(comment) > LONGEST_COMMENT:
        raise Refused(f"The comment is longer than {LONGEST_COMMENT:,} characters.", hint="Shorten it.")
    name = actor.get_username()
    with transaction.atomic():
        # The job's row first, then the gate's: everywhere in this order, or two answers wait for each other.
        if not move(job, choice, by=name):
            raise Refused("This question is not open any more.", hint="Look at the job: it does not wait now.")
        if not gate.close(answer=choice, by=actor, comment=comment):
            raise Refused("This question is not open any more.", hint="Look at the job: somebody may have answered.")
        detail = {"question": gate.title, "gate": gate.pk, "plan": gate.plan_hash, "comment": comment}
        deed = f"answer: {option['label']}"[:LONGEST_DEED]
        audit.record(deed, actor=actor, target=job, detail=detail, address=address)
        transaction.on_commit(lambda: tasks.ring(job.pk), robust=True)
    _tell(job)


def move(job: Job, choice: str, *, by: str) -> bool:
    """Send a waiting job on its way. A discarded plan ends a job that has touched nothing; else a worker ends it."""
    if choice == "discard":
        ended = Job.end_untouched(
            job.pk,
            state=JobState.REJECTED,
            summary=f"{by} discarded the plan. Nothing was touched.",
            among=(JobState.WAITING,),
        )
        return ended or Job.ask_to_end(job.pk, by=by)
    approved = {"approved_by_name": by} if choice == "approve" else {}
    return bool(
        Job.objects.filter(pk=job.pk, state=JobState.WAITING).update(
            state=JobState.QUEUED,
            summary="",
            ring_at=timezone.now() + RING_AGAIN,
            version=F("version") + 1,
            **approved,
        )
    )


def cancel_job(job: Job, *, actor: User, address: str) -> None:
    """Cancel: at once when nothing was touched and nobody works on it, else by the worker at its next breath."""
    if not may(actor, Action.APPROVE):
        require(actor, Action.ASK)
    name = actor.get_username()
    with transaction.atomic():
        ended = Job.end_untouched(
            job.pk,
            state=JobState.CANCELLED,
            summary=f"Cancelled by {name} before anything was touched.",
            cancelled_by=name,
        )
        if not ended and not Job.ask_to_end(job.pk, by=name):
            raise Refused("The job has already ended.")
        for gate in job.gates.filter(answered_at=None):
            gate.close(answer="cancelled", by=actor)
        if ended:
            Gate.close_all(job.pk)  # one that has expired is nobody's answer
        audit.record("cancel", actor=actor, target=job, detail={"at_once": ended}, address=address)
        transaction.on_commit(lambda: tasks.ring(job.pk), robust=True)
    _tell(job)


def _tell(job: Job) -> None:
    hints.hint(f"job:{job.pk}")
    hints.hint("overview")
