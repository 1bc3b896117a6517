"""Benchmark: ask the server that serves, so many requests at once, and keep how fast it answers.

Nothing on the host is changed. The requests go through the transport's own tunnel; no cache is flushed; and beside
requests of users it is done only after somebody has agreed to that.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from datetime import timedelta

from django.utils import timezone

from deployments import http
from deployments.benchmark.compared import per_second
from deployments.benchmark.figures import Level, level, level_from, others
from deployments.benchmark.load import Load, Server
from deployments.benchmark.wanted import Wanted, prompt, requests_at
from deployments.engines.bench import counter
from deployments.engines.request import HttpRequest
from deployments.lifecycle import CheckStatus, GateKind, LaunchState
from deployments.models import Benchmark, Launch
from deployments.plan.collect_requests import METRICS_SECONDS, running_requests
from deployments.secrets import api_key
from deployments.steps.approval import answer_stands
from deployments.steps.base import Afterwards, GateOpened, StepContext, StepFailed
from hosts.models import Host
from hosts.probe.frames import Unknown
from hosts.transport.base import ConnectRefused, LinkLost, Transport
from hosts.transport.factory import open_transport
from hosts.tunnels import Tunnels

LINK_SECONDS = 8.0
SHOW_SECONDS = 1.0
READY_HINT = "Look whether the server still runs and answers; its page and its log say more."


def benchmark(ctx: StepContext) -> None:
    """Measure every level that is not measured yet; keep the figures with the launch."""
    row = _serving(ctx)
    wanted = Wanted(tuple(ctx.step.data["at_once"]), ctx.step.data["tokens"])
    with ctx.link() as transport:
        _look_for_users(ctx, transport)
        with Tunnels(transport, open_link=_link_to(ctx.host)) as tunnels:
            server = Server(tunnels, ctx.revision.port, ctx.engine.bench, api_key(ctx.deployment, row))
            found = _levels(ctx, transport, server, wanted)
    _keep(ctx, row, wanted, found)
    answered, failed = sum(one.answered for one in found), sum(one.failed for one in found)
    ctx.finish(f"{answered} requests were answered, {failed or 'none'} failed.")


def _serving(ctx: StepContext) -> Launch:
    """The launch to measure. Raises StepFailed when it does not serve any more."""
    row = ctx.live_launch()
    if row is None or row.state != LaunchState.SERVING or row.revision_id != ctx.revision.pk:
        raise StepFailed(f"{ctx.deployment} does not serve with {ctx.revision} any more.", hint=READY_HINT)
    return row


def _link_to(host: Host) -> Callable[[], Transport]:
    return lambda: open_transport(host, timeout=LINK_SECONDS)


# --- Users


def _look_for_users(ctx: StepContext, transport: Transport) -> None:
    """Before the first request. Raises GateOpened while users are served and nobody has agreed to disturb them."""
    if ctx.step.data.get("agreed"):
        return
    told = ctx.answer(GateKind.TRAFFIC)
    if told is not None and told.answer == "leave":
        raise StepFailed(
            f"{told.answered_by_name} decided not to measure now.",
            hint="Measure when fewer requests run.",
            afterwards=Afterwards.NOTHING,
        )
    running = running_requests(ctx, transport)
    _show_users(ctx, running)
    if running != 0 and not (told is not None and told.answer == "anyway" and answer_stands(ctx, told)):
        raise _ask(ctx, running)
    ctx.remember(agreed=True)


def _show_users(ctx: StepContext, running: int | Unknown) -> None:
    label = "Requests of users that run"
    if isinstance(running, Unknown):
        ctx.check("traffic", label, CheckStatus.UNKNOWN, limit="0", detail=running.reason, source="metrics")
    else:
        status = CheckStatus.OK if running == 0 else CheckStatus.NOT_OK
        ctx.check("traffic", label, status, value=str(running), limit="0", source="metrics")


def _ask(ctx: StepContext, running: int | Unknown) -> GateOpened:
    if isinstance(running, Unknown):
        title = "Whether users are served now is not known. Measure all the same?"
        text = f"How many requests run could not be measured. {running.reason}"
    else:
        title = (
            "1 request of users runs now. Measure beside it?"
            if running == 1
            else f"{running} requests of users run now. Measure beside them?"
        )
        text = "What users get becomes slower meanwhile, and the figures become lower than they could be."
    return ctx.ask(
        GateKind.TRAFFIC,
        title=title,
        text=text,
        choices=[
            {"key": "again", "label": "Look again", "action": "ask", "detail": "Asks anew while requests run."},
            {"key": "anyway", "label": "Measure all the same", "action": "ask"},
            {"key": "leave", "label": "Do not measure now", "action": "ask", "detail": "The job ends."},
        ],
        expires_in=timedelta(minutes=ctx.deployment.approval_minutes),
    )


# --- Measuring


def _levels(ctx: StepContext, transport: Transport, server: Server, wanted: Wanted) -> list[Level]:
    """Every level, those that an earlier worker has measured as they were stored."""
    found = [level_from(data) for data in ctx.step.data.get("levels", [])]
    run = secrets.token_hex(4)
    if len(found) < len(wanted.at_once):
        _warm_up(ctx, transport, server, wanted, run)
    for at_once in wanted.at_once[len(found) :]:
        measured = _measure(ctx, transport, server, at_once=at_once, tokens=wanted.tokens, run=run)
        found.append(measured)
        ctx.remember(levels=[one.as_data() for one in found])
        _show(ctx, measured)
        if not measured.answered:
            break
    return found


def _warm_up(ctx: StepContext, transport: Transport, server: Server, wanted: Wanted, run: str) -> None:
    """One request that does not count: the first one after a pause is slower. Raises StepFailed when it fails."""
    try:
        server.tunnels.prepare(server.port, 1, timeout=http.CONNECT_SECONDS, tick=ctx.tick)
    except ConnectRefused as error:
        raise StepFailed(f"Nothing accepts connections on port {server.port}.", hint=READY_HINT) from error
    (sample,) = Load(server, [server.bench.request(prompt(run, 0), wanted.tokens)], 1).run(ctx.tick)
    if sample.error:
        _is_reachable(transport)
        raise StepFailed(f"The server did not answer the first request: {sample.error}.", hint=READY_HINT)


def _measure(ctx: StepContext, transport: Transport, server: Server, *, at_once: int, tokens: int, run: str) -> Level:
    """One level of concurrency."""
    ctx.say(f"{at_once} at once: {requests_at(at_once)} requests of {tokens} tokens.")
    server.tunnels.prepare(server.port, at_once, timeout=http.CONNECT_SECONDS, tick=ctx.tick)
    asked = [server.bench.request(prompt(f"{run}-{at_once}", number), tokens) for number in range(requests_at(at_once))]
    load = Load(server, asked, at_once)
    before = _metrics(ctx, transport)
    samples = load.run(_ticking(ctx, load))
    if all(sample.error for sample in samples):
        _is_reachable(transport)
    after = _metrics(ctx, transport)
    accepted = server.bench.accepted(before, after) if server.bench.accepted else None
    figures = level(samples, at_once=at_once, beside=None, accepted=accepted)
    counted = ctx.engine.generated_metric
    beside = others(counter(before, counted), counter(after, counted), own=figures.tokens) if counted else None
    return level(samples, at_once=at_once, beside=beside, accepted=accepted)


def _is_reachable(transport: Transport) -> None:
    """Raises LinkLost when it is the link that is gone, which says nothing about the server."""
    if not transport.is_alive(timeout=http.PROBE_SECONDS):
        raise LinkLost("The connection to the host broke while the server was measured.")


def _metrics(ctx: StepContext, transport: Transport) -> str:
    """The engine's metrics page; empty where it has none, or does not show it."""
    if not ctx.engine.metrics_path:
        return ""
    page = HttpRequest("GET", ctx.engine.metrics_path, timeout=METRICS_SECONDS)
    try:
        key = api_key(ctx.deployment, ctx.live_launch())
        answer = http.ask(transport, ctx.revision.port, page, tick=ctx.tick, key=key)
    except http.NoAnswer:
        return ""
    return answer.body.decode(errors="replace") if answer.status == 200 else ""


def _ticking(ctx: StepContext, load: Load) -> Callable[[], None]:
    """Renews the lease, heeds a cancel, and shows once a second how far it is."""
    shown_at, shown = time.monotonic(), -1

    def tick() -> None:
        nonlocal shown_at, shown
        ctx.tick()
        if time.monotonic() - shown_at >= SHOW_SECONDS and load.answered != shown:
            shown_at, shown = time.monotonic(), load.answered
            ctx.check(
                _key(load.at_once),
                _label(load.at_once),
                CheckStatus.UNKNOWN,
                value=f"{shown} of {len(load.requests)} answered",
                source="the server's answers",
            )

    return tick


def _key(at_once: int) -> str:
    return f"level-{at_once}"


def _label(at_once: int) -> str:
    return "One request at a time" if at_once == 1 else f"{at_once} requests at once"


def _show(ctx: StepContext, figures: Level) -> None:
    told = [
        f"first token after {figures.first.middle * 1000:,.0f} ms" if figures.first else "",
        f"{figures.between.middle * 1000:,.1f} ms between tokens" if figures.between else "",
        f"acceptance length {figures.acceptance.middle:.2f}" if figures.acceptance else "",
        f"{figures.failed} of {figures.failed + figures.answered} failed: {figures.error}" if figures.failed else "",
        f"{figures.beside:,} tokens were made for others meanwhile" if figures.disturbed else "",
    ]
    ctx.check(
        _key(figures.at_once),
        _label(figures.at_once),
        CheckStatus.NOT_OK if figures.failed else CheckStatus.OK,
        value=per_second(figures.tokens_per_second),
        limit="no failed request",
        detail="; ".join(filter(None, told)),
        source="the server's answers",
    )


# --- Keeping


def _keep(ctx: StepContext, row: Launch, wanted: Wanted, found: list[Level]) -> None:
    """The figures with their launch. Raises StepFailed when the last level had no answer at all."""
    with ctx.writing():
        Benchmark.objects.get_or_create(
            job=ctx.job,
            defaults={
                "launch": row,
                "revision": ctx.revision,
                "engine_version": str(row.effective.get("version", ""))[:100],
                "cards": ctx.placement.cards,
                "tokens": wanted.tokens,
                "levels": ctx.log.hide_in([one.as_data() for one in found]),
                "measured_at": timezone.now(),
            },
        )
    last = found[-1]
    if not last.answered:
        raise StepFailed(
            f"With {last.at_once} at once none of {last.failed} requests was answered: {last.error}.", hint=READY_HINT
        )
