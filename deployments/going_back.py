"""After a restart that failed: start again what was serving by itself, ask whether to, or leave it.

Nobody is asked twice: who has decided at a question of the launch itself, or on the way back, is taken at their word.
"""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from deployments.joblog import JobLog
from deployments.lifecycle import GateKind, StepName, StepState
from deployments.models import Gate, Job, JobStep
from deployments.steps.approval import why_it_does_not_count
from deployments.steps.base import Afterwards, StepContext, StepFailed
from deployments.steps.recipes import STOP_AGAIN, WAY_BACK


def steps_after(job: Job, step: JobStep | None, error: StepFailed) -> tuple[str, ...]:
    """What the job still does by itself: start again what was serving, or end what a person has decided to end."""
    if step is None or error.afterwards == Afterwards.NOTHING:
        return ()
    if job.way_back and _can_go_back(job, step):
        return WAY_BACK
    return STOP_AGAIN if error.afterwards == Afterwards.STOP else ()


def asks(job: Job, step: JobStep | None, error: StepFailed) -> bool:
    """Is a person asked whether to start again what was serving?"""
    by_itself = job.way_back or error.afterwards != Afterwards.WAY_BACK
    return step is not None and not by_itself and _can_go_back(job, step)


def _can_go_back(job: Job, step: JobStep) -> bool:
    first_round = not step.way_back and step.name in (StepName.LAUNCH, StepName.CHECK)
    return first_round and job.touched and job.previous_revision_id is not None


def append(job: Job, names: tuple[str, ...]) -> None:
    """Put further steps after those that are done, and skip those that are not; in a transaction."""
    JobStep.objects.filter(job=job, state=StepState.PENDING).update(state=StepState.SKIPPED)
    position = job.steps.count()
    JobStep.objects.bulk_create(
        JobStep(job=job, position=position + number, name=name, way_back=True) for number, name in enumerate(names)
    )


def question(job: Job, step: JobStep, log: JobLog, *, message: str, left: str) -> Gate:
    """Asks whether to start again what was serving; it waits for as long as it takes. ``left``: what users find now."""
    diagnosis: dict[str, Any] = job.diagnosis or {}
    fix = diagnosis.get("fix")
    return Gate(
        job=job,
        step=step,
        kind=GateKind.WAY_BACK,
        title=f"The {'replacement' if job.replaces_id else 'restart'} failed. Start {job.previous_revision} again?",
        text=log.hide(f"{message} {left}"),
        evidence=log.hide_in([{"text": f"The usual fix: {fix}"}] if fix else []),
        choices=[
            {
                "key": "back",
                "label": f"Start {job.previous_revision} again",
                "action": "approve",
                "danger": False,
                "needs_reason": False,
                "detail": "What is left of the new start is stopped first, and the cards are verified.",
            },
            {
                "key": "as it is",
                "label": "Leave it as it is",
                "action": "ask",
                "danger": False,
                "needs_reason": False,
                "detail": f"The job ends. {left}",
            },
        ],
        opened_at=timezone.now(),
    )


def heed(ctx: StepContext) -> None:
    """Before the first step of a way back that was asked about. Raises StepFailed when it is not wanted."""
    if not ctx.step.way_back or ctx.job.way_back:
        return
    told = ctx.job.gates.filter(kind=GateKind.WAY_BACK).order_by("-id").first()
    if told is None or told.used_at is not None:
        return
    if told.answered_at is None:
        raise StepFailed("Nobody has said that it should be started again.", afterwards=Afterwards.NOTHING)
    if told.answer != "back":
        raise StepFailed(f"{told.answered_by_name} decided to leave it as it is.", afterwards=Afterwards.NOTHING)
    why_not = why_it_does_not_count(ctx, told)
    if why_not:
        raise StepFailed(why_not, hint="Ask for a start of what was serving.", afterwards=Afterwards.NOTHING)
    with ctx.writing():
        Gate.objects.filter(pk=told.pk).update(used_at=timezone.now())


def what_happened(job: Job, step: JobStep | None, message: str) -> str:
    """Why a job failed, in a sentence or two: of a way back that failed also why there was one."""
    if step is None or not step.way_back:
        return message
    first = job.steps.filter(way_back=False, state=StepState.FAILED).order_by("-position").first()
    why = sentence(first.summary) if first else "The new revision failed."
    if not job.steps.filter(way_back=True, name=StepName.LAUNCH).exists():
        return f"{why} {message}"
    asked = job.gates.filter(kind=GateKind.WAY_BACK).exclude(answer__in=("", "back")).exists()
    return f"{why} {message}" if asked else f"{why} Starting {job.previous_revision} again failed too: {message}"


def sentence(text: str) -> str:
    """With a full stop: what an engine or a host said often has none."""
    return text if not text or text[-1] in ".!?" else f"{text}."
