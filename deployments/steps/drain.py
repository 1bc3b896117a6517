"""Drain: take it out of its router, then wait until no request runs, to a deadline; the number is seen going down."""

from __future__ import annotations

import time
from datetime import datetime, timedelta

from django.utils import timezone

from deployments.lifecycle import CheckStatus
from deployments.plan.collect_requests import running_requests
from deployments.steps.base import StepContext
from deployments.steps.traffic import take_out
from hosts.probe.frames import Unknown

LOOK_EVERY_SECONDS = 0.5
TITLE = "Requests running"


def drain(ctx: StepContext) -> None:
    """Look how many requests run; wait for none. A drain that runs out of time is shown and goes on to the stop."""
    if not (ctx.job.plan or {}).get("stops"):
        ctx.finish("Nothing serves, so there is nothing to drain.")
        return
    take_out(ctx)
    if not ctx.engine.metrics_path:
        ctx.finish(f"{ctx.engine.label} does not tell how many requests run; not waited.")
        return
    until = _deadline(ctx)
    with ctx.link() as transport:
        while True:
            running = running_requests(ctx, transport)
            if isinstance(running, Unknown):
                ctx.check("requests", TITLE, CheckStatus.UNKNOWN, limit="0", detail=running.reason, source="metrics")
                ctx.finish("How many requests run could not be measured; not waited.")
                return
            _show(ctx, running)
            if running == 0:
                ctx.finish("No request runs.")
                return
            if timezone.now() >= until:
                ctx.finish(f"{running} requests still run after {ctx.deployment.drain_seconds} s; the stop ends them.")
                return
            _pause(ctx)


def _deadline(ctx: StepContext) -> datetime:
    """Kept with the step, so that a drain that is taken over does not start its time anew."""
    stored = ctx.step.data.get("until")
    if stored is not None:
        return datetime.fromisoformat(stored)
    until = timezone.now() + timedelta(seconds=ctx.deployment.drain_seconds)
    ctx.remember(until=until.isoformat())
    return until


def _show(ctx: StepContext, running: int) -> None:
    status = CheckStatus.OK if running == 0 else CheckStatus.NOT_OK
    ctx.check("requests", TITLE, status, value=str(running), limit="0", source="metrics")


def _pause(ctx: StepContext) -> None:
    end = time.monotonic() + LOOK_EVERY_SECONDS
    while time.monotonic() < end:
        ctx.tick()
        time.sleep(0.1)
