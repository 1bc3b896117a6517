"""A plan that was approved for an hour when no request runs: it waits for that, and is then looked at anew.

Only that very plan is carried out: when a fact that it rests on is another by then, the job ends and says which.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.utils import timezone

from deployments.lifecycle import GateKind
from deployments.models import StandingApproval
from deployments.plan.binding import what_changed
from deployments.plan.collect_requests import running_requests
from deployments.plan.plan import Plan
from deployments.steps.base import GateOpened, StepContext, StepFailed
from hosts.probe.frames import Unknown
from hosts.transport.base import TransportError

LOOK_EVERY = timedelta(seconds=30)
QUIET_LOOKS = 2
"""So often in a row no request must run: one look may fall between two requests of a chat."""


def of_job(ctx: StepContext) -> StandingApproval | None:
    """The approval for later that this job has, until it is revoked; what waited for it is closed then."""
    row = ctx.job.later.order_by("-pk").first()
    told = ctx.answer(GateKind.WHEN_IDLE)
    if told is not None and told.answer == "ask" and row is not None:
        with ctx.writing():
            ctx.job.later.filter(ended_at=None).update(ended_at=timezone.now(), ended_by_name=told.answered_by_name)
        row.refresh_from_db()
    if row is None or row.ended_at is None:
        return row
    close(ctx, answer="revoked")
    return None


def close(ctx: StepContext, *, answer: str) -> None:
    """Nobody is to decide any more whether to wait."""
    open_gate = ctx.step.gates.filter(kind=GateKind.WHEN_IDLE, answered_at=None).first()
    if open_gate is not None:
        with ctx.writing():
            open_gate.close(answer=answer)


def heed_window(ctx: StepContext, later: StandingApproval) -> None:
    """Before the look: raises StepFailed after its time, GateOpened before it."""
    if timezone.now() >= _end(later):
        last = ctx.step.data.get("last_look", "Nobody has looked in that time: was no worker running?")
        raise StepFailed(f"Not done: there was no moment without requests in its time. {last}", hint="Plan it again.")
    if not later.has_begun:
        raise _wait(ctx, later, until=later.begins_at or timezone.now())


def _end(later: StandingApproval) -> datetime:
    return later.expires_at or timezone.now()


def refuse_if_changed(ctx: StepContext, later: StandingApproval, made: Plan) -> None:
    """Raises StepFailed where the plan is not the approved one, or nobody stands for it any more."""
    if why := later.why_not():
        raise StepFailed(f"Not done: the approval does not count, {why}.", hint="Plan it again.")
    if made.hash == later.plan_hash:
        return
    changed = what_changed(ctx.job.plan or {}, ctx.log.hide_in(made.data))
    facts = "; ".join(changed) or "a fact that is hidden"
    raise StepFailed(
        f"Not done: what {later.given_by_name} has approved is out of date: {facts}.",
        hint="Plan it again, and look at the new plan.",
    )


def heed_requests(ctx: StepContext, later: StandingApproval) -> None:
    """Raises GateOpened until no request has run for long enough. What cannot be counted is not nothing."""
    running = _running(ctx)
    quiet = ctx.step.data.get("quiet_looks", 0) + 1 if running == 0 else 0
    if isinstance(running, Unknown):
        said = f"How many requests run could not be seen: {running.reason}"
    else:
        said = f"{running} request{'' if running == 1 else 's'} ran at the last look."
    if quiet < QUIET_LOOKS:
        raise _look_later(ctx, later, quiet=quiet, said=said)
    ctx.remember(quiet_looks=quiet, last_look=said)
    close(ctx, answer="idle")


def _running(ctx: StepContext) -> int | Unknown:
    """Of the server that would be stopped: in a replacement the one that goes."""
    ending = ctx.stopped
    try:
        with ending.link() as transport:
            return running_requests(ending, transport)
    except TransportError as error:
        return Unknown(str(error))


def not_seen(ctx: StepContext, later: StandingApproval, reason: str) -> GateOpened:
    """The host could not be looked at: that is no change. The job waits on, to its deadline; ``raise`` it."""
    return _look_later(ctx, later, quiet=0, said=f"{ctx.host} could not be looked at: {reason}")


def _look_later(ctx: StepContext, later: StandingApproval, *, quiet: int, said: str) -> GateOpened:
    ctx.remember(quiet_looks=quiet, last_look=said)
    return _wait(ctx, later, until=min(timezone.now() + LOOK_EVERY, _end(later)), said=ctx.log.hide(said))


def _wait(ctx: StepContext, later: StandingApproval, *, until: datetime, said: str = "") -> GateOpened:
    """The job waits, and is rung again at that moment; a person may end the waiting."""
    title = f"Waits until no request runs, then the {ctx.job.kind} of {ctx.deployment} begins"
    text = (
        f"{later.given_by_name} has approved this plan for a moment without requests. It is looked at anew then, and "
        "nothing is done if a fact that it rests on has changed."
    )
    choices = [
        {"key": "ask", "label": "Ask anew now", "action": "approve", "detail": "The plan is made and asked anew."},
        {"key": "discard", "label": "Do not do it", "action": "ask", "detail": "The job ends; nothing was touched."},
    ]
    opened = ctx.ask(GateKind.WHEN_IDLE, title=title, text=text, choices=choices, ring_at=until, summary=said)
    known = ctx.step.gates.filter(kind=GateKind.WHEN_IDLE, answered_at=None).first()
    if known is not None:
        opened.gate = known
    return opened
