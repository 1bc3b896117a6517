"""Before the way back: what this job had a unit or container start may be started by that again and again."""

from __future__ import annotations

import shlex

from deployments.lifecycle import EffectKind
from deployments.models import Launch
from deployments.plan.ways import NAMED, Way
from deployments.remote import run as remote
from deployments.steps.base import StepContext, StepFailed
from deployments.steps.starting import stop_argv

SPARE_SECONDS = 15


def quiet(ctx: StepContext) -> None:
    """Ask the manager to stop it, where the launch that has failed went through one. Done twice, it does no harm.

    Raises StepFailed when the manager says no: nothing may be started beside what it starts.
    """
    row = Launch.objects.filter(job=ctx.job).order_by("-intended_at").first()
    if row is None or (way := Way.of(row.started_by)).by not in NAMED:
        return
    seconds = ctx.deployment.term_seconds + ctx.deployment.kill_seconds
    through = stop_argv(ctx, way, seconds=ctx.deployment.term_seconds)
    ctx.say(f"Having {way.name} stopped, which may start the server again by itself.")
    effect = ctx.effect(
        EffectKind.MANAGER_STOP, command=shlex.join(through), target={"processes": [], "host": ctx.host.name}
    )
    script = remote.script_for(
        ctx.deployment,
        "quiet",
        fence=ctx.claim.fence,
        boot_id="",
        launch=row.pk,
        through=shlex.join(through),
        seconds_max=seconds,
    )
    with ctx.link() as transport:
        said = remote.run(transport, script, timeout=seconds + SPARE_SECONDS, tick=ctx.tick)
    for line in said:
        if line.word == "fenced":
            raise ctx.fenced(line.rest)
    answer = next((line for line in said if line.word == "quiet"), None)
    status = answer.rest[0] if answer is not None else "no answer"
    effect.done(f"exit status {status}")
    if status != "0":
        words = " ".join(answer.rest[1:]) if answer is not None else ""
        raise StepFailed(
            f"{way.name} was not stopped: {words or f'exit status {status}'}.",
            hint=f"Stop it on {ctx.host}, then ask for a start.",
        )
