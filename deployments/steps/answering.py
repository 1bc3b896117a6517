"""The first real question to a server that says it is ready: a completion, a chat, or a vector."""

from __future__ import annotations

import time
from typing import NoReturn

from deployments import http
from deployments.engines.answers import EMBEDDING, Judged, Verdict, judge, questions, said_so_far
from deployments.engines.request import HttpRequest
from deployments.lifecycle import CheckStatus
from deployments.models import Launch
from deployments.secrets import api_key
from deployments.steps.base import StepContext, StepFailed
from hosts.transport.base import Transport

SHOWN = 500
"""Characters of the answer on the page."""
SHOW_EVERY = 0.5
"""Seconds between two looks at an answer that comes."""
HINT = "Look at the model, its quantization and the engine's version, or go back to the proven revision."


def answer_of(ctx: StepContext, row: Launch, transport: Transport) -> str:
    """What it answered; empty when it wants a key that is not known, which is shown as not measured.

    Raises StepFailed when no answer comes, or none that a person would accept.
    """
    key = api_key(ctx.deployment, row)
    refused: list[str] = []
    for request in questions(ctx.engine, ctx.revision.argv):
        judged, seconds = _ask(ctx, transport, request, key)
        if judged.verdict is Verdict.NOT_SERVED:
            refused.append(f"{request.path}: {judged.why}{f' ({judged.text})' if judged.text else ''}")
            continue
        if judged.verdict is Verdict.BAD:
            _fail(ctx, request, f"The answer is not usable: {judged.why}.", judged.text)
        if judged.verdict is Verdict.NEEDS_A_KEY and key:
            _fail(ctx, request, f"It does not take the API key that it was given: {judged.why}.", judged.text)
        _show(ctx, request, judged, seconds)
        return ctx.log.hide(judged.text)
    _fail(ctx, request, f"It knows no way in which it can be asked. {'; '.join(refused)}.", "")


def _ask(ctx: StepContext, transport: Transport, request: HttpRequest, key: str) -> tuple[Judged, float]:
    coming = _Coming(ctx)
    try:
        answer = http.ask(transport, ctx.revision.port, request, tick=ctx.tick, key=key, heard=coming.heard)
    except http.NoAnswer as error:
        _fail(ctx, request, str(error), coming.text)
    return judge(request, answer.status, answer.body), answer.seconds


class _Coming:
    """Shows an answer on the job's page while it comes, if it takes long enough for somebody to read."""

    def __init__(self, ctx: StepContext) -> None:
        self._ctx = ctx
        self._shown = time.monotonic()
        self.text = ""

    def heard(self, body: bytes) -> None:
        """``body``: all of it so far."""
        self.text = said_so_far(body)
        if self.text and time.monotonic() - self._shown >= SHOW_EVERY:
            self._shown = time.monotonic()
            self._ctx.remember(answering=self.text[:SHOWN])


def _show(ctx: StepContext, request: HttpRequest, judged: Judged, seconds: float) -> None:
    if judged.verdict is Verdict.NEEDS_A_KEY:
        ctx.check(
            "completion",
            _label(request),
            CheckStatus.UNKNOWN,
            value="it wants a key",
            detail=f"Whether it answers is not known: {judged.why}. Set its API key on the deployment's page, then "
            "restart it, or ask it yourself.",
            source=request.path,
        )
        return
    check = ctx.measured(
        "completion",
        _label(request),
        CheckStatus.OK,
        value=f"{seconds:.2f} s",
        detail=judged.text[:SHOWN],
        source=request.path,
    )
    ctx.show_soon([check])  # what comes next takes no time
    ctx.say(f"Asked by {request.path}, it answered: {' '.join(judged.text.split())}")


def _label(request: HttpRequest) -> str:
    return "A real vector" if request is EMBEDDING else "A real answer"


def _fail(ctx: StepContext, request: HttpRequest, message: str, text: str) -> NoReturn:
    said = f"{message} It said: {text[:SHOWN]}" if text.strip() else message
    ctx.check("completion", _label(request), CheckStatus.NOT_OK, value="not usable", detail=said, source=request.path)
    raise StepFailed(f"The server runs, but it does not answer as it should. {message}", hint=HINT)
