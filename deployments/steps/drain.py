"""Drain: wait until no request runs, up to a deadline, and show the number going down."""

from __future__ import annotations

import time
from datetime import datetime, timedelta

from django.utils import timezone

from deployments import http
from deployments.engines.base import HttpRequest
from deployments.lifecycle import CheckStatus
from deployments.steps.base import StepContext
from hosts.transport.base import Transport

LOOK_EVERY_SECONDS = 0.5


def drain(ctx: StepContext) -> None:
    """Look how many requests run; wait for none. A drain that runs out of time is shown and goes on to the stop."""
    if not (ctx.job.plan or {}).get("stops"):
        ctx.finish("Nothing serves, so there is nothing to drain.")
        return
    if not ctx.engine.metrics_path:
        ctx.finish(f"{ctx.engine.label} does not tell how many requests run; not waited.")
        return
    until = _deadline(ctx)
    with ctx.link() as transport:
        while True:
            running = _running(ctx, transport)
            if running is None:
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


def _running(ctx: StepContext, transport: Transport) -> int | None:
    request = HttpRequest("GET", ctx.engine.metrics_path, timeout=5.0)
    try:
        answer = http.ask(transport, ctx.deployment.port, request, tick=ctx.tick)
    except http.NoAnswer as error:
        ctx.check("requests", "Requests running", CheckStatus.UNKNOWN, limit="0", detail=str(error), source="metrics")
        return None
    running = ctx.engine.running_requests(answer.body.decode(errors="replace")) if answer.status == 200 else None
    if running is None:
        detail = f"{ctx.engine.metrics_path} answered {answer.status} without the number of requests."
        ctx.check("requests", "Requests running", CheckStatus.UNKNOWN, limit="0", detail=detail, source="metrics")
    return running


def _show(ctx: StepContext, running: int) -> None:
    status = CheckStatus.OK if running == 0 else CheckStatus.NOT_OK
    ctx.check("requests", "Requests running", status, value=str(running), limit="0", source="metrics")


def _pause(ctx: StepContext) -> None:
    end = time.monotonic() + LOOK_EVERY_SECONDS
    while time.monotonic() < end:
        ctx.tick()
        time.sleep(0.1)
