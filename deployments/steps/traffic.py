"""Take a server out of its router before the drain, and put it back after the check, by the deployment's hooks.

``Deployment.out_of_router`` says since when it is out, and by which job. It is written before the router is told, so
that a job that ends in between leaves it; only a put-back that succeeded, or a person, takes it away.
"""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from controlpanel.sealing import CannotUnseal
from deployments import secrets
from deployments.lifecycle import EffectKind, GateKind
from deployments.models import Deployment
from deployments.remote import run as remote
from deployments.steps.approval import answer_stands
from deployments.steps.base import GateOpened, StepContext, StepFailed
from deployments.steps.plan import approve_anew_if_stale
from deployments.traffic.hook import SECONDS, Hook, How, Moment, hook_of
from deployments.traffic.request import HookFailed, send
from hosts.transport.base import CommandTimeout

EFFECTS = {Moment.TAKE_OUT: EffectKind.TAKE_OUT, Moment.PUT_BACK: EffectKind.PUT_BACK}
SHOWN = 1000
"""Letters of an answer."""
MORE_SECONDS = 15.0
"""For the host's answer, beyond the time that its command has."""
UNANSWERED = "Whether that was done is not known: no answer was seen."


def take_out(ctx: StepContext) -> None:
    """Before the drain. Raises GateOpened when the router could not be told: nothing has been stopped yet."""
    hook = hook_of(ctx.deployment.hooks, Moment.TAKE_OUT)
    if hook is None or ctx.step.data.get("router"):
        return
    told = ctx.answer(GateKind.ROUTER)
    if told is not None and told.answer == "without" and answer_stands(ctx, told):
        ctx.say(f"{told.answered_by_name} decided to go on without: {told.comment}")
        ctx.remember(router="not told")
        return
    before = _mark(ctx)
    if before.get("sure"):
        ctx.say("It is out of its router already.")
        ctx.remember(router="out already")
        return
    if not ctx.job.touched:
        approve_anew_if_stale(ctx)
    try:
        _run(ctx, hook, Moment.TAKE_OUT, meanwhile={**_new_mark(ctx), "why": UNANSWERED})
    except HookFailed as error:
        _write(ctx, {**_new_mark(ctx), "why": error.message} if error.reached else before)
        raise _ask(ctx, hook, error) from error
    _write(ctx, {**_new_mark(ctx), "sure": True})
    ctx.say("It is out of its router.")
    ctx.remember(router="out")


def put_back_after_check(ctx: StepContext) -> str:
    """A sentence on what came of it; empty where nothing had taken it out. A failure leaves the mark, no more."""
    if not _mark(ctx):
        return ""
    hook = hook_of(ctx.deployment.hooks, Moment.PUT_BACK)
    if hook is None:
        return "It is still out of its router: how to put it back is not set any more."
    try:
        _run(ctx, hook, Moment.PUT_BACK)
    except HookFailed as error:
        _write(ctx, {**_mark(ctx), "sure": False, "why": f"Putting it back failed. {error.message}"})
        return f"It could not be put back into its router: {error.message}"
    _write(ctx, {})
    return "It is back in its router."


def put_back(ctx: StepContext) -> None:
    """The step of a job that only puts it back."""
    if not _mark(ctx):
        ctx.finish("It is in its router: nothing has taken it out since, or somebody has said so.")
        return
    said = put_back_after_check(ctx)
    if _mark(ctx):
        raise StepFailed(said, hint="Mend that at the router, then put it back from the deployment's page.")
    ctx.finish(said)


def _mark(ctx: StepContext) -> dict[str, Any]:
    """As it is now: what a job knows of its deployment is older."""
    found: dict[str, Any] = Deployment.objects.values_list("out_of_router", flat=True).get(pk=ctx.deployment.pk)
    return found


def _new_mark(ctx: StepContext) -> dict[str, Any]:
    since = _mark(ctx).get("since") or timezone.now().isoformat(timespec="seconds")
    return {"since": since, "job": ctx.job.pk, "sure": False}


def _write(ctx: StepContext, mark: dict[str, Any]) -> None:
    with ctx.writing():
        Deployment.objects.filter(pk=ctx.deployment.pk).update(out_of_router=mark)


def _run(ctx: StepContext, hook: Hook, moment: Moment, *, meanwhile: dict[str, Any] | None = None) -> None:
    """Run it under an intent of its own, its answer in the job's log. Raises HookFailed, TransportError.

    ``meanwhile``: the mark from just before it is sent until its answer is known.
    """
    try:
        key = secrets.router_key(ctx.deployment) if hook.needs_key else ""
    except CannotUnseal as error:
        raise HookFailed(f"{error.message} {error.hint}", reached=False) from error
    effect = ctx.effect(EFFECTS[moment], command=str(hook), target={"how": hook.how})
    if meanwhile is not None:
        _write(ctx, meanwhile)
    try:
        said = _command(ctx, hook) if hook.how == How.COMMAND else _request(ctx, hook, key)
    except HookFailed as error:
        message = _shown(ctx, error.message)
        effect.done(f"failed: {message}")
        ctx.say(message)
        raise HookFailed(message, reached=error.reached) from error
    effect.done(said)


def _shown(ctx: StepContext, text: str) -> str:
    """Masked before the cut: half a secret would not be known for one."""
    text = ctx.log.hide(text)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _request(ctx: StepContext, hook: Hook, key: str) -> str:
    ctx.say(f"Asking the router: {hook}")
    answer = send(hook, key=key, seconds=SECONDS, tick=ctx.tick)
    ctx.say(f"It answered {answer.status}. {_shown(ctx, answer.text)}".strip())
    return f"answered {answer.status}"


def _command(ctx: StepContext, hook: Hook) -> str:
    ctx.say(f"Running on {ctx.host}: {hook}")
    values = {"command": hook.command, "limit": int(SECONDS)}
    script = remote.script_for(ctx.deployment, "hook", fence=ctx.claim.fence, boot_id="", **values)
    try:
        with ctx.link() as transport:
            said = remote.run(transport, script, timeout=SECONDS + MORE_SECONDS, tick=ctx.tick)
    except CommandTimeout as error:
        raise HookFailed(f"It has not ended within {SECONDS:.0f} s.", reached=True) from error
    words = {line.word: line for line in said}
    if "fenced" in words:
        raise ctx.fenced(words["fenced"].rest)
    for line in said:
        if line.word == "out":
            ctx.say(f"  {line.text}")
    if "refused" in words:
        raise HookFailed(f"{ctx.host} did not run it: {words['refused'].text}.", reached=False)
    return _ended(said[-1].text if "status" not in words else words["status"].text)


def _ended(status: str) -> str:
    if status == "0":
        return "ended well"
    if status == "124":
        raise HookFailed(f"It has not ended within {SECONDS:.0f} s, and was ended.", reached=True)
    raise HookFailed(f"It ended with exit status {status or 'unknown'}.", reached=True)


def _ask(ctx: StepContext, hook: Hook, error: HookFailed) -> GateOpened:
    may_be = " It may have been taken out all the same." if error.reached else ""
    return ctx.ask(
        GateKind.ROUTER,
        title=f"{ctx.deployment} could not be taken out of its router. Go on?",
        text=f"{error.message} Nothing has been stopped: it serves as before.{may_be}",
        evidence=[{"text": f"What was run: {hook}"}],
        choices=[
            {"key": "again", "label": "Try again", "action": "ask", "detail": "After the router has been mended."},
            {
                "key": "without",
                "label": "Go on without",
                "action": "approve",
                "danger": True,
                "needs_reason": True,
                "detail": "The router may send users to a server that is being stopped: they get errors.",
            },
            {"key": "discard", "label": "Cancel the job", "action": "ask", "detail": "Nothing is stopped."},
        ],
    )
