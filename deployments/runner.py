"""Claim a job, walk its recipe, end in exactly one place.

A message only rings; the claim decides. Whatever a step raises ends in ``_settle``, which alone moves the job to
another state. A database that fails is not an end: nothing is written, the lease lapses, another worker goes on.
"""

from __future__ import annotations

import logging
import os
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import InterfaceError, OperationalError, close_old_connections, transaction
from django.db.models import F
from django.utils import timezone

from controlpanel import audit
from controlpanel.identity import process_name
from controlpanel.live import hints
from deployments import going_back, tasks
from deployments.benchmark.compared import in_words
from deployments.decisions.recovery import retry_in
from deployments.joblog import JobLog, LeaseLost
from deployments.lifecycle import (
    ASK_AGAIN,
    ENDED,
    ENDS_SERVER,
    LEAVE_THE_SERVER,
    LIVE_LAUNCH,
    JobKind,
    JobState,
    LaunchState,
    ServiceState,
    StepName,
    StepState,
)
from deployments.models import Benchmark, Deployment, Gate, Job, JobStep, Launch
from deployments.models.job import Claim
from deployments.remote.locks import release_cards
from deployments.steps.base import (
    RENEW_SECONDS,
    GateOpened,
    HandBack,
    JobCancelled,
    StepContext,
    StepFailed,
)
from deployments.steps.contact import regain
from deployments.steps.launch import resolve
from deployments.steps.recipes import WAY_BACK
from deployments.steps.registry import STEPS
from hosts import links
from hosts.transport.base import CommandTimeout, LinkLost, TransportError

logger = logging.getLogger(__name__)

DATABASE_FAILS = (OperationalError, InterfaceError)
"""Not DataError or IntegrityError: those are faults of ours, and would come again for ever."""

OWNER = process_name()


def never() -> bool:
    """The answer of a worker that nobody told to stop."""
    return False


def run(job_id: int, *, told_to_stop: Callable[[], bool] | None = None) -> None:
    """Work on a job until it ends, waits for a person, or is handed on. Returns at once when it is not ours."""
    from controlpanel.celery import stopping

    close_old_connections()
    claim = Job.claim(job_id, owner=f"{OWNER}:{os.urandom(3).hex()}")
    if claim is None:
        return
    _tell(job_id)
    try:
        _walk(claim, told_to_stop or stopping.is_set)
    except LeaseLost:
        logger.warning("job %s: the lease is lost; another worker goes on", job_id)
    except DATABASE_FAILS:
        logger.exception("job %s: the database fails; the lease will lapse and another worker goes on", job_id)
    finally:
        _tell(job_id)


def _walk(claim: Claim, told_to_stop: Callable[[], bool]) -> None:
    """Do the steps that are not done, in order, until one of them does not end well."""
    log = JobLog(claim)
    step: JobStep | None = None
    context: StepContext | None = None
    try:
        while (step := _enter_next(claim, log, after=context)) is not None:
            context = StepContext(
                claim=claim,
                step=step,
                log=log,
                links=links.borrow,
                told_to_stop=told_to_stop,
                before=context,
            )
            context.heed()
            regain(context)
            going_back.heed(context)
            STEPS[step.name](context)
    except (LeaseLost, *DATABASE_FAILS):
        raise
    except Exception as error:
        try:
            if not isinstance(error, GateOpened | HandBack | TransportError):
                _resolve_launches(claim, log)
        except (LeaseLost, *DATABASE_FAILS):
            raise
        except Exception as further:  # what stands in the way of an end decides how the job goes on
            error = further
        _settle(claim, step, log, error)
    else:
        _settle(claim, None, log, None)


def _resolve_launches(claim: Claim, log: JobLog) -> None:
    """Before a job ends: a launch that may or may not have been sent is adopted, or forbidden for ever."""
    for row in Launch.objects.filter(job_id=claim.job_id, state=LaunchState.INTENDED):
        step = JobStep.objects.filter(job_id=claim.job_id, name=StepName.LAUNCH, data__launch=str(row.pk)).get()
        context = StepContext(claim=claim, step=step, log=log, links=links.borrow, told_to_stop=never, closing=True)
        try:
            resolve(context, row)
        except (LeaseLost, StepFailed) as error:
            # The host is ahead of the database. Its fence was learnt from the first refusal, so that a second one looks
            # as if another worker had the job; nobody has.
            if not Job.held(claim).exists():
                raise
            Launch.objects.filter(pk=row.pk).update(state=LaunchState.UNKNOWN)
            if isinstance(error, StepFailed):
                raise
            continue
        Job.held(claim).update(contact_lost_at=None)  # the host has answered


def _enter_next(claim: Claim, log: JobLog, *, after: StepContext | None) -> JobStep | None:
    """Store the end of the step before and begin the next one; None when there is none left."""
    with log.transaction(version=F("version") + 1, summary="", hint="", lease_until=Job.lease_from_now()):
        if after is not None:
            after.store_end()
        open_steps = JobStep.objects.filter(job_id=claim.job_id, state__in=(StepState.PENDING, StepState.RUNNING))
        step = open_steps.order_by("position").first()
        if step is not None and step.state == StepState.PENDING:
            step.state, step.started_at = StepState.RUNNING, timezone.now()
            step.save(update_fields=["state", "started_at"])
    _tell(claim.job_id)
    return step


def _settle(claim: Claim, step: JobStep | None, log: JobLog, error: Exception | None) -> None:
    """The one place where a job changes its state after work on it."""
    try:
        log.flush()
    except (LeaseLost, *DATABASE_FAILS):
        raise
    except Exception as fault:
        log.forget()  # what cannot be stored would stop the job's end too, again and again
        error = fault
    job = Job.objects.select_related("deployment", "replaces", "previous_revision__profile").get(pk=claim.job_id)
    match error:
        case None:
            _end(claim, job, log, JobState.SUCCEEDED, summary=_how_it_went(job))
        case GateOpened():
            _wait(claim, error)
        case HandBack():
            log.say("This worker was told to stop; another goes on.", step=step.name if step else "")
            Job.leave(claim, state=JobState.QUEUED, ring_at=timezone.now())
            tasks.ring(job.pk)
        case JobCancelled():
            _forget_what_was_known(job, log)
            if job.gates.filter(answer="expired").exists():
                summary = f"Nobody approved in time. {_left_behind(job)}"
                _end(claim, job, log, JobState.EXPIRED, summary=summary, hint=ASK_AGAIN)
            else:
                summary = f"Cancelled by {job.cancel_requested_by}. {_left_behind(job)}"
                _end(claim, job, log, JobState.CANCELLED, summary=summary)
        case StepFailed():
            _fail(claim, step, log, error)
        case TransportError() if not job.touched:
            _fail(claim, step, log, StepFailed(str(error), hint=_hint_of_a_look(job, error)))
        case TransportError():
            _lose_contact(claim, job, log, step, error)
        case _:
            trace = log.hide("".join(traceback.format_exception(error)))
            logger.error("job %s: our own fault\n%s", claim.job_id, trace)
            _end(
                claim,
                job,
                log,
                JobState.ERRORED,
                failed=Failed(step, str(error)),
                summary=f"A fault of the panel itself: {type(error).__name__}: {error}. {_left_behind(job)}",
                traceback=trace,
            )


def _wait(claim: Claim, opened: GateOpened) -> None:
    """Begin to wait for a person: the question, what it is about, and the job's state, all in one transaction.

    Nobody is asked about a job that somebody cancelled as the question came up: it is handed on to be ended.
    """
    fields = {"summary": str(opened), "hint": "", **opened.job_fields}
    with transaction.atomic():
        if not Job.leave(claim, state=JobState.WAITING, **fields):
            raise LeaseLost
        # Only now: a cancel that comes later waits for this row, and then finds that the job waits.
        cancelled = Job.objects.filter(pk=claim.job_id).exclude(cancel_requested_by="")
        if cancelled.update(state=JobState.QUEUED, ring_at=timezone.now()):
            transaction.on_commit(lambda: tasks.ring(claim.job_id))
            return
        opened.gate.save()


def _fail(claim: Claim, step: JobStep | None, log: JobLog, error: StepFailed) -> None:
    """A step failed: start what was serving again if the plan said so, else end."""
    log.say(error.message, step=step.name if step else "")
    if error.diagnosis is not None:
        Job.held(claim).update(diagnosis=log.hide_in(error.diagnosis))
    job = Job.objects.select_related("deployment", "replaces").get(pk=claim.job_id)
    further = going_back.steps_after(job, step, error)
    if step is not None and further:
        _go_on(claim, job, step, log, error, further)
        return
    if step is not None and going_back.asks(job, step, error):
        _ask_whether_to_go_back(claim, job, step, log, error)
        return
    why = going_back.what_happened(job, step, going_back.sentence(error.message))
    summary = f"{why} {_left_behind(job)}".strip()
    _end(claim, job, log, JobState.FAILED, failed=Failed(step, error.message), summary=summary, hint=error.hint)


def _go_on(claim: Claim, job: Job, step: JobStep, log: JobLog, error: StepFailed, further: tuple[str, ...]) -> None:
    """Append ``further`` steps, and hand the job on."""
    if further == WAY_BACK:
        log.say(f"The plan says: start again what was serving ({job.previous_revision}).", step=StepName.LAUNCH)
    with transaction.atomic():
        if not Job.leave(claim, state=JobState.QUEUED, summary=log.hide(error.message), ring_at=timezone.now()):
            raise LeaseLost
        Failed(step, error.message).store(log)
        going_back.append(job, further)
    tasks.ring(job.pk)


def _ask_whether_to_go_back(claim: Claim, job: Job, step: JobStep, log: JobLog, error: StepFailed) -> None:
    """Nobody has said yet what is to be done after a failure: the steps of the way back wait for a person."""
    message = going_back.sentence(error.message)
    gate = going_back.question(job, step, log, message=message, left=_left_behind(job))
    with transaction.atomic():
        _wait(claim, GateOpened(gate, summary=log.hide(message), hint=error.hint))
        Failed(step, error.message).store(log)
        going_back.append(job, WAY_BACK)


@dataclass(frozen=True)
class Failed:
    """The step at which a job ends, and why."""

    step: JobStep | None
    message: str

    def store(self, log: JobLog) -> None:
        """Mark the step; belongs into the transaction in which the job is left."""
        if self.step is not None:
            JobStep.objects.filter(pk=self.step.pk).update(
                state=StepState.FAILED, summary=log.hide(self.message), ended_at=timezone.now()
            )


def _hint_of_a_look(job: Job, error: TransportError) -> str:
    """What to do after a look that failed. What broke in its middle may still run there, but changes nothing."""
    if isinstance(error, LinkLost | CommandTimeout):
        return f"Only a look at {job.host_name} was running, which changes nothing. Plan the {job.kind} again."
    return error.hint


def _lose_contact(claim: Claim, job: Job, log: JobLog, step: JobStep | None, error: TransportError) -> None:
    """Unknown: keep the claims, start nothing, say since when, look again later."""
    now = timezone.now()
    since = job.contact_lost_at or now
    if job.contact_lost_at is None:
        log.say(f"Contact lost: {error} Users may still be served.", step=step.name if step else "")
    Job.leave(
        claim,
        state=JobState.UNKNOWN,
        summary=log.hide(f"{error} What was last known: {_last_known(job)}. Users may still be served."),
        hint=log.hide(error.hint),
        contact_lost_at=since,
        ring_at=now + retry_in(now - since),
    )


def _last_known(job: Job) -> str:
    effect = job.effects.order_by("-id").first()
    return f"{effect.kind}: {effect.outcome or 'sent, result not known'}" if effect else "nothing was done"


def _end(
    claim: Claim,
    job: Job,
    log: JobLog,
    state: JobState,
    *,
    summary: str,
    hint: str = "",
    traceback: str = "",
    failed: Failed | None = None,
) -> None:
    """Give the card locks back, then end the job, its steps and its claims in one transaction."""
    assert state in ENDED
    if job.touched and job.kind not in LEAVE_THE_SERVER:
        _release_cards(claim, job, log)
    # A round that started the old server again does not make the job a success.
    if state == JobState.SUCCEEDED and job.steps.filter(way_back=True).exists():
        state = JobState.FAILED
    outside, marks = _out_of_router(job, state) if job.touched else ("", {})
    summary = log.hide(f"{summary}{outside}")
    log.say_soon(summary, step="")
    with log.transaction():
        left = Job.leave(
            claim, state=state, summary=summary, hint=log.hide(hint), traceback=traceback, contact_lost_at=None
        )
        if not left:
            raise LeaseLost
        if failed is not None:
            failed.store(log)
        Gate.close_all(job.pk)
        for key, mark in marks.items():
            Deployment.objects.filter(pk=key).update(out_of_router=mark)
        Job.let_go(job.pk)
        audit.record(f"job {state}", actor=None, target=job, detail={"summary": summary})


def _out_of_router(job: Job, state: JobState) -> tuple[str, dict[int, dict[str, Any]]]:
    """That users do not reach a deployment through its router, in a sentence, and how that is kept from now on."""
    said, marks = "", {}
    for row in Deployment.objects.filter(pk__in=[one.pk for one in job.subjects]).order_by("pk"):  # as they are now
        mark = row.out_of_router
        if not mark or job.kind == JobKind.BENCHMARK:
            continue
        meant = state == JobState.SUCCEEDED and (job.kind == JobKind.STOP or row == job.replaces)
        word = "stays" if meant else "is still" if mark["sure"] else "may still be"
        said += f" {row} {word} out of its router{' until its next start' if meant else ''}."
        marks[row.pk] = {**mark, "meant": meant}
    return said, marks


def _release_cards(claim: Claim, job: Job, log: JobLog) -> None:
    """Best effort: a lock that stays names a job that has ended, and our next job on these cards takes it over."""
    renewed = time.monotonic()  # by the step that ended, or as the next one was looked for

    def tick() -> None:
        nonlocal renewed
        if time.monotonic() - renewed < RENEW_SECONDS:
            return
        if not Job.renew(claim):
            raise LeaseLost
        renewed = time.monotonic()

    try:
        release_cards(job, fence=claim.fence, links=links.borrow, tick=tick)
    except TransportError as error:
        log.say(f"The card locks could not be given back: {error}", step="")


def _how_it_went(job: Job) -> str:
    if job.kind == JobKind.BENCHMARK:
        return f"{in_words(Benchmark.objects.get(job=job).figures)}."
    if job.kind == JobKind.PUT_BACK:
        return f"{job.deployment_name} is in its router."
    launch = Launch.objects.filter(job=job).order_by("-intended_at").first()
    if job.steps.filter(way_back=True, name=StepName.LAUNCH).exists():
        if job.replaces:
            return f"{job.deployment_name} failed; {job.replaces} serves again with {job.previous_revision}."
        return f"The new revision failed; {job.previous_revision} serves again."
    if job.steps.filter(way_back=True).exists():
        return f"{job.deployment_name} was not ready in time and was stopped; it is down."
    if launch is None:
        return f"{job.deployment_name} is stopped and its cards are free."
    instead = f" instead of {job.replaces}" if job.replaces else ""
    return f"{job.deployment_name} serves with {launch.revision}{instead}."


def _forget_what_was_known(job: Job, log: JobLog) -> None:
    """A job that is cancelled while its host is out of reach leaves a server of which nothing is known."""
    if job.contact_lost_at is None:
        return
    with log.transaction():
        for one in Deployment.locked_together(one.pk for one in job.subjects):
            one.launches.filter(state__in=LIVE_LAUNCH).update(state=LaunchState.UNKNOWN)
            Deployment.objects.filter(pk=one.pk).update(
                state=ServiceState.UNKNOWN,
                state_since=timezone.now(),
                state_detail="Its job was cancelled out of contact.",
            )


def _left_behind(job: Job) -> str:
    """What users find now, in a sentence for each deployment."""
    if not job.touched:
        return "Nothing was touched."
    if job.contact_lost_at is not None:
        names = " and ".join(one.name for one in job.subjects) or job.deployment_name
        return f"The host could not be reached: what runs of {names} is not known."
    return " ".join(_found_of(job, one) for one in job.subjects)


def _found_of(job: Job, deployment: Deployment) -> str:
    launch = deployment.live_launch
    if launch is None:
        return f"{deployment} is down."
    if launch.job_id != job.pk and job.effects.filter(kind__in=ENDS_SERVER).exists():
        return f"{deployment} was told to end and may be down."
    what = f" with {launch.revision}" if launch.revision else ""
    if launch.state == LaunchState.SERVING:
        return f"{deployment} was serving{what} when last looked at."
    if launch.state == LaunchState.STARTING:
        return f"{deployment} was starting{what} and may still come up."
    return f"Whether {deployment} runs{what} is not known."


def _tell(job_id: int) -> None:
    hints.hint(f"job:{job_id}")
    hints.hint("overview")
