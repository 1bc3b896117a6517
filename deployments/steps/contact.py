"""After contact with the host was lost: may the job go on by itself, or must a person agree first?"""

from __future__ import annotations

from django.utils import timezone

from deployments.decisions.recovery import must_ask
from deployments.lifecycle import GateKind
from deployments.models import Job
from deployments.steps.approval import answer_stands
from deployments.steps.base import Afterwards, StepContext, StepFailed
from hosts.probe.frames import Unknown
from hosts.probe.probe import probe
from hosts.transport.base import LinkLost

TIMEOUT_SECONDS = 20.0


def regain(ctx: StepContext) -> None:
    """Look whether the host answers again. Raises TransportError while it does not, or opens a gate."""
    lost_at = ctx.job.contact_lost_at
    if lost_at is None:
        return
    with ctx.link() as transport:
        facts = probe(transport, sections=("host",), timeout=TIMEOUT_SECONDS, tick=ctx.tick)
    if isinstance(facts.host, Unknown):
        raise LinkLost(f"The host answers, but not as it should: {facts.host.reason}")
    boot = _boot_of(ctx)
    rebooted = boot is not None and boot != facts.host.boot_id
    lost_for = timezone.now() - lost_at
    answer = ctx.answer(GateKind.CONTACT)
    if answer is not None and not answer_stands(ctx, answer):
        answer = None
    if answer is not None and answer.answer == "end":
        _found(ctx)
        raise StepFailed(
            f"{answer.answered_by_name} decided to end the job here.",
            hint="Look at the host.",
            afterwards=Afterwards.NOTHING,
        )
    if answer is not None:
        ctx.remember(boot_agreed=facts.host.boot_id)
    if answer is None and must_ask(lost_for, boot_changed=rebooted):
        booted = " It has booted meanwhile: what ran before is gone." if rebooted else ""
        raise ctx.ask(
            GateKind.CONTACT,
            title="The host answers again. Go on?",
            text=f"Contact was lost for {lost_for.total_seconds() / 60:.0f} minutes.{booted}",
            choices=[
                {"key": "go_on", "label": "Go on", "action": "approve", "detail": "Each step looks first, then acts."},
                {"key": "end", "label": "End the job here", "action": "ask", "danger": True},
            ],
        )
    _found(ctx)
    ctx.say(f"Contact with {ctx.host} is back after {lost_for.total_seconds():.0f} s; looking before going on.")


def _found(ctx: StepContext) -> None:
    with ctx.writing():
        Job.held(ctx.claim).update(contact_lost_at=None)
    ctx.job.contact_lost_at = None


def _boot_of(ctx: StepContext) -> str | None:
    """The boot that the job goes on in: the last one that a person has agreed to, else the plan's."""
    for step in ctx.job.steps.order_by("-position"):
        if agreed := step.data.get("boot_agreed"):
            return str(agreed)
    found = (ctx.job.plan or {}).get("binding", {}).get("boot")
    return None if found is None else str(found)
