"""Ask a server how many requests it works on, and how many wait in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deployments import http, secrets
from deployments.engines.request import HttpRequest
from deployments.plan.plan import Plan
from hosts.probe.frames import Unknown
from hosts.transport.base import Transport, TransportError

if TYPE_CHECKING:
    from deployments.steps.base import StepContext

METRICS_SECONDS = 5.0


def tell_requests(ctx: StepContext, made: Plan) -> None:
    """Count the running requests for the page of a plan that stops something."""
    if not made.data["stops"]:
        return
    try:
        with ctx.link() as transport:
            running, waiting = requests_of(ctx, transport)
        made.tell_requests(running, waiting)
    except TransportError as error:
        made.tell_requests(Unknown(str(error)))


def running_requests(ctx: StepContext, transport: Transport) -> int | Unknown:
    """How many requests the server on the deployment's port says it works on. Raises TransportError."""
    return requests_of(ctx, transport)[0]


def requests_of(ctx: StepContext, transport: Transport) -> tuple[int | Unknown, int | None]:
    """The same, and how many wait in it; None where it does not say. Raises TransportError."""
    engine, page = ctx.engine, HttpRequest("GET", ctx.engine.metrics_path, timeout=METRICS_SECONDS)
    if not engine.metrics_path:
        return _untold(f"{engine.label} does not tell how many requests run.")
    try:
        key = secrets.api_key(ctx.deployment, ctx.live_launch())
        answer = http.ask(transport, ctx.deployment.port, page, tick=ctx.tick, key=key)
    except http.NoAnswer as error:
        return _untold(str(error))
    if answer.status in http.WANTS_KEY:
        return _untold(f"{page.path} answered {answer.status}: the server wants another API key than the panel has.")
    running = engine.running_requests(answer.body.decode(errors="replace")) if answer.status == 200 else None
    if running is None:
        needed = f" It tells them when it is started with {engine.metrics_flag}." if engine.metrics_flag else ""
        return _untold(f"{page.path} answered {answer.status} without the number of requests.{needed}")
    return running, engine.waiting_requests(answer.body.decode(errors="replace"))


def _untold(reason: str) -> tuple[Unknown, None]:
    return Unknown(reason), None
