"""Check: the server lives, says ready in its own log, owns its port, and answers a real question."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from deployments.lifecycle import LaunchState, ServiceState
from deployments.models import Deployment, Launch
from deployments.steps.answering import answer_of
from deployments.steps.api_key import is_locked
from deployments.steps.base import StepContext, StepFailed
from deployments.steps.cards_in_use import cards_in_use
from deployments.steps.effective import told_configuration
from deployments.steps.following import NotReadyInTime, ServerEnded, Start
from deployments.steps.model_files import model_of
from deployments.steps.not_ready import ask_to_wait, wait_until
from deployments.steps.start_failed import fail_ended
from deployments.steps.traffic import put_back_after_check
from hosts.transport.base import Transport


def check(ctx: StepContext) -> None:
    """Follow the launch until it is ready, then ask it a real question and for its configuration."""
    row = Launch.objects.filter(job=ctx.job).order_by("-intended_at")[0]
    start = Start.of(ctx, row)
    until = wait_until(start)
    try:
        with ctx.link() as transport:
            start.follow(transport, until=until)
            timings = start.timings()
            text = _answer(start, transport)
            is_locked(ctx, row, transport)
            idle, used = cards_in_use(ctx, row, transport)
            found = {
                "timings": timings,
                "memory_used": used,
                "effective": told_configuration(ctx, row, transport),
                "model": model_of(ctx, transport),
            }
    except ServerEnded as ended:
        fail_ended(start, ended.code)
    except NotReadyInTime:
        raise ask_to_wait(start) from None
    _serves(ctx, row, text, idle, found)


def _answer(start: Start, transport: Transport) -> str:
    """Its first real answer. One that has ended since is not said to answer badly."""
    try:
        return answer_of(start.ctx, start.row, transport)
    except StepFailed:
        start.look_once_more(transport)
        raise


def _serves(ctx: StepContext, row: Launch, text: str, idle: list[str], found: dict[str, Any]) -> None:
    """``found``: what else is kept with the launch."""
    now = timezone.now()
    took = (now - row.started_at).total_seconds() if row.started_at else None
    with ctx.writing():
        Launch.objects.filter(pk=row.pk).update(
            state=LaunchState.SERVING,
            ready_at=now,
            completion=text,
            **found,
        )
        Deployment.objects.filter(pk=ctx.deployment.pk).update(
            state=ServiceState.SERVING, state_since=now, state_detail="", **_chosen(ctx, row)
        )
    answers = "answers" if text else "says that it is ready"
    said = f"{ctx.deployment} {answers} with {row.revision}" + (f", {took:.1f} s after its start." if took else ".")
    said += "" if text else " Whether it answers is not known: it wants a key."
    said += f" It holds nothing on {', '.join(idle)}." if idle else ""
    ctx.finish(" ".join(filter(None, (said, put_back_after_check(ctx)))))


def _chosen(ctx: StepContext, row: Launch) -> dict[str, Any]:
    """What somebody chose to launch, and what now serves, is what the next start launches too.

    *The same flags again* and the way back choose nothing: an edit that waits to be applied goes on waiting.
    """
    chosen = not ctx.step.way_back and row.revision_id != ctx.job.previous_revision_id
    if not chosen or row.revision is None or row.revision_id == ctx.deployment.revision_id:
        return {}
    ctx.say(f"From now on a start or restart of {ctx.deployment} launches {row.revision}.")
    return {"revision": row.revision, "profile": row.revision.profile}
