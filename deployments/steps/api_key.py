"""Does a server that was given a key for its API refuse whoever comes without it?"""

from __future__ import annotations

from deployments import http
from deployments.engines.answers import questions
from deployments.lifecycle import CheckStatus
from deployments.models import Launch
from deployments.plan.passing import API_KEY
from deployments.steps.base import StepContext, StepFailed
from hosts.transport.base import Transport

LABEL = "Refuses requests without its API key"


def is_locked(ctx: StepContext, row: Launch, transport: Transport) -> None:
    """Ask without the key. Raises StepFailed when the server answers all the same: then it has not taken the key."""
    if API_KEY not in row.requested.get("secrets", {}):
        return
    request = questions(ctx.engine, ctx.revision.argv)[0]
    try:
        status = http.ask(transport, ctx.revision.port, request, tick=ctx.tick).status
    except http.NoAnswer as error:
        ctx.check("api key", LABEL, CheckStatus.UNKNOWN, value="no answer", detail=str(error), source=request.path)
        return
    refused = status in http.WANTS_KEY
    ctx.check(
        "api key",
        LABEL,
        CheckStatus.OK if refused else CheckStatus.NOT_OK,
        value=f"status {status}",
        limit="status 401 or 403",
        source=request.path,
    )
    if not refused:
        raise StepFailed(
            "The server runs, but it answers without its API key too: it has not taken the key.",
            hint="Look whether the command starts the engine itself, and whether this version of it reads a key.",
        )
