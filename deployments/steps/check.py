"""Check: the server lives, says ready in its own log, owns its port, and answers a real completion."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any, NoReturn

from django.utils import timezone

from deployments import http
from deployments.decisions.readiness import Listener, Readiness
from deployments.decisions.verify import CardSeen
from deployments.engines.base import is_degenerate
from deployments.engines.diagnosis import Diagnosis, diagnose
from deployments.joblog import LogReplaced, ServerLog, pieces_of
from deployments.lifecycle import CheckStatus, LaunchState, ServiceState
from deployments.models import Check, Deployment, Launch
from deployments.plan.cards import cards_seen, memory_on
from deployments.plan.collect import PROBE_SECONDS, cards_of
from deployments.remote import run as remote
from deployments.remote.script import Said
from deployments.secrets import api_key
from deployments.steps.api_key import is_locked
from deployments.steps.base import StepContext, StepFailed
from deployments.steps.effective import told_configuration
from hosts.models import Gpu
from hosts.probe.facts import HostFacts
from hosts.probe.frames import Unknown
from hosts.probe.probe import probe
from hosts.transport.base import Transport

IN_USE = ("memory", "apps", "procs")
"""What is looked at of the cards once the server answers."""


class ServerEnded(Exception):
    """The process is gone; ``code`` is its exit code, None when it was not recorded."""

    def __init__(self, code: int | None) -> None:
        super().__init__(f"exit code {code}")
        self.code = code


class NotReadyInTime(Exception):
    """The limit has passed and the server still lives."""


def check(ctx: StepContext) -> None:
    """Follow the launch until it is ready, then ask it for a real completion and for its configuration."""
    row = Launch.objects.filter(job=ctx.job).order_by("-intended_at")[0]
    log = ctx.log.server(row, step=ctx.step.name)
    readiness = Readiness(_patterns(ctx))
    for _, text in _stored(ctx, row):
        readiness.read(text)
    try:
        with ctx.link() as transport:
            _follow(ctx, row, log, readiness, transport)
            text = _complete(ctx, row, transport)
            is_locked(ctx, row, transport)
            idle, used = _cards_in_use(ctx, row, transport)
            told = told_configuration(ctx, row, transport)
    except ServerEnded as ended:
        _fail_ended(ctx, row, ended.code)
    except NotReadyInTime:
        _ask_to_wait(ctx, readiness)
    _serves(ctx, row, text, told, idle, used)


def _stored(ctx: StepContext, row: Launch) -> Iterator[tuple[int, str]]:
    """The launch's log as far as it is stored; of a large one the reading takes its time."""
    for piece in pieces_of(row):
        ctx.tick()
        yield piece


def _patterns(ctx: StepContext) -> list[re.Pattern[str]]:
    own = ctx.revision.ready_pattern
    return [re.compile(re.escape(own))] if own else list(ctx.engine.ready)


# --- Following ------------------------------------------------------------------------------------------------------


def _follow(ctx: StepContext, row: Launch, log: ServerLog, readiness: Readiness, transport: Transport) -> None:
    """Store the log and the memory curve as they come, until the server may be ready."""
    while True:
        with contextlib.suppress(LogReplaced), contextlib.closing(_script(ctx, row, log, transport)) as lines:
            for said in lines:
                _take(ctx, log, readiness, said)
                if readiness.may_be_ready:
                    _show(ctx, readiness)
                    return
            raise NotReadyInTime


def _script(ctx: StepContext, row: Launch, log: ServerLog, transport: Transport) -> Generator[Said, None, None]:
    until = _deadline(ctx)
    script = remote.script_for(
        ctx.deployment,
        "follow",
        fence=ctx.claim.fence,
        boot_id=row.boot_id,
        launch=str(row.pk),
        pid=row.pid,
        start_was=row.start_time,
        port=row.revision.port if row.revision else ctx.deployment.port,
        **log.asked,
        cards=ctx.placement.gpu_uuids,
        seconds_max=max(1, int((until - timezone.now()).total_seconds())),
    )
    return remote.follow(transport, script, tick=ctx.tick)


def _deadline(ctx: StepContext) -> datetime:
    """Kept with the step; a person who chose to wait longer moves it."""
    longer = ctx.answer("not ready")
    stored = ctx.step.data.get("until")
    if stored is not None and longer is None:
        return datetime.fromisoformat(stored)
    if longer is not None and longer.answer == "give_up":
        raise StepFailed(
            "The server was not ready in time.", hint="Read its log; stop it or restart with another revision."
        )
    until = timezone.now() + timedelta(seconds=ctx.deployment.ready_seconds)
    ctx.remember_soon(until=until.isoformat())
    return until


def _take(ctx: StepContext, log: ServerLog, readiness: Readiness, said: Said) -> None:
    readiness.read(log.take(said))
    match said.word:
        case "listen":
            before = readiness.listener
            readiness.listener = Listener(said.rest[0])
            if readiness.listener != before and not readiness.may_be_ready:
                _show(ctx, readiness)
        case "gpu":
            ctx.reading_said(said.rest)
        case "rebooted":
            raise ServerEnded(None)
        case "exited":
            readiness.read(log.flush())
            raise ServerEnded(int(said.rest[0]) if said.rest[0].lstrip("-").isdigit() else None)


def _show(ctx: StepContext, readiness: Readiness) -> None:
    said = CheckStatus.OK if readiness.said_ready else CheckStatus.NOT_OK
    line = ctx.measured(
        "ready line",
        "Says ready in its own log",
        said,
        value="yes" if readiness.said_ready else "not yet",
        source="log",
    )
    owner = {Listener.OURS: CheckStatus.OK, Listener.OTHER: CheckStatus.NOT_OK, Listener.NOBODY: CheckStatus.NOT_OK}
    words = {Listener.OURS: "this server", Listener.OTHER: "another process", Listener.NOBODY: "nobody yet"}
    listener = ctx.measured(
        "listener",
        f"Who listens on port {ctx.revision.port}",
        owner[readiness.listener],
        value=words[readiness.listener],
        limit="this server",
        source="/proc/net/tcp",
    )
    ctx.show([line, listener])


# --- Asking it ------------------------------------------------------------------------------------------------------


def _complete(ctx: StepContext, row: Launch, transport: Transport) -> str:
    """A real completion. Raises StepFailed when it does not come or is not one a person would accept."""
    request = ctx.engine.completion
    if request is None:
        return ""
    try:
        answer = http.ask(transport, ctx.revision.port, request, tick=ctx.tick, key=api_key(ctx.deployment, row))
    except http.NoAnswer as error:
        _fail_completion(ctx, str(error))
    if answer.status in http.WANTS_KEY:
        _fail_completion(ctx, f"It wants an API key (status {answer.status}). Set it on the deployment's page.")
    if answer.status != 200:
        _fail_completion(ctx, f"A completion was answered with status {answer.status}.")
    text = ctx.engine.completion_text(answer.body)
    wrong = "the answer holds no text" if text is None else is_degenerate(text)
    if text is None or wrong:
        _fail_completion(ctx, f"The completion is not usable: {wrong}.")
    answered = ctx.measured(
        "completion",
        "A real completion",
        CheckStatus.OK,
        value=f"{answer.seconds:.2f} s",
        detail=text[:500],
        source=request.path,
    )
    ctx.show_soon([answered])
    return ctx.log.hide(text)


def _fail_completion(ctx: StepContext, message: str) -> NoReturn:
    ctx.check("completion", "A real completion", CheckStatus.NOT_OK, value="none", detail=message, source="completion")
    raise StepFailed(
        f"The server runs, but it does not answer as it should. {message}",
        hint="Look at the model, its quantization and the engine's version, or go back to the proven revision.",
    )


def _stays_on_its_cards(ctx: StepContext, row: Launch, facts: HostFacts) -> None:
    """A command can choose cards by itself: on any other than the deployment's it is where nobody has measured.

    Only memory that the driver attributes to the server counts: to look at a card, an engine opens its file too.
    """
    if row.pid is None or isinstance(facts.processes, Unknown) or isinstance(facts.apps, Unknown):
        return
    ours = {process.pid for process in facts.processes.tree(row.pid)}
    strays = {app.gpu_uuid for app in facts.apps.apps if app.pid in ours} - {*ctx.placement.gpu_uuids}
    if not strays:
        return
    known = dict(Gpu.objects.filter(host=ctx.host, uuid__in=strays).values_list("uuid", "index"))
    names = ", ".join(sorted(f"GPU {known[uuid]}" if uuid in known else uuid for uuid in strays))
    ctx.check("strays", "Cards that are not this deployment's", CheckStatus.NOT_OK, value=names, limit="none")
    raise StepFailed(
        f"The server uses {names}, which {ctx.deployment} does not have.",
        hint="Take the choice of cards out of the command, or tick those cards; then stop or restart it.",
    )


def _cards_in_use(ctx: StepContext, row: Launch, transport: Transport) -> tuple[list[str], dict[str, int]]:
    """The last point of the memory curve; returns the cards on which a server that answers holds nothing, and what it
    uses by card (MiB).
    """
    cards = cards_of(ctx)
    if not cards:
        return [], {}
    facts = probe(transport, sections=IN_USE, timeout=PROBE_SECONDS, sudo=ctx.host.sudo, tick=ctx.tick)
    seen = cards_seen(facts, cards)
    _stays_on_its_cards(ctx, row, facts)
    used = _used(row, facts, seen)
    ctx.show([_card_in_use(ctx, card) for card in seen], used_mib={card.uuid: card.used_mib for card in seen})
    beside = _verified_needs(ctx)
    tolerance = ctx.deployment.tolerance_mib
    idle = [card for card in seen if (used.get(card.uuid, 0) <= tolerance if card.uuid in beside else card.is_free)]
    return [card.label for card in idle], used


def _used(row: Launch, facts: HostFacts, seen: Sequence[CardSeen]) -> dict[str, int]:
    """What the server itself uses by card: by how much its memory has grown since just before the start, or what the
    driver attributes to it, whichever is more. Left out where it was not measured.
    """
    tree = () if row.pid is None or isinstance(facts.processes, Unknown) else facts.processes.tree(row.pid)
    pids = {process.pid for process in tree}
    return {
        card.uuid: max(0, card.used_mib - row.memory_before[card.uuid], memory_on(facts, pids, card.uuid) or 0)
        for card in seen
        if card.used_mib is not None and card.uuid in row.memory_before
    }


def _verified_needs(ctx: StepContext) -> dict[str, int]:
    """The cards that verify has found shared, with what was needed there."""
    needs: dict[str, int] = ctx.verified.data.get("needs", {})
    return needs


def _card_in_use(ctx: StepContext, card: CardSeen) -> Check:
    status = CheckStatus.UNKNOWN if card.used_mib is None else CheckStatus.NOT_OK if card.is_free else CheckStatus.OK
    return ctx.measured(
        f"in use {card.uuid}",
        f"{card.label} memory in use",
        status,
        value="unknown" if card.used_mib is None else f"{card.used_mib:,} MiB",
        limit=f"more than {card.limit_mib:,} MiB",
        detail=card.reason or card.uuid,
        source="nvidia-smi",
    )


# --- Ends -----------------------------------------------------------------------------------------------------------


def _serves(
    ctx: StepContext, row: Launch, text: str, told: dict[str, Any], idle: list[str], used: dict[str, int]
) -> None:
    now = timezone.now()
    took = (now - row.started_at).total_seconds() if row.started_at else None
    with ctx.writing():
        Launch.objects.filter(pk=row.pk).update(
            state=LaunchState.SERVING,
            ready_at=now,
            completion=text,
            effective=told,
            memory_used=used,
        )
        Deployment.objects.filter(pk=ctx.deployment.pk).update(
            state=ServiceState.SERVING, state_since=now, state_detail="", **_chosen(ctx, row)
        )
    said = f"{ctx.deployment} answers with {row.revision}" + (f", {took:.1f} s after its start." if took else ".")
    ctx.finish(said + (f" It holds nothing on {', '.join(idle)}." if idle else ""))


def _chosen(ctx: StepContext, row: Launch) -> dict[str, Any]:
    """What somebody chose to launch, and what now serves, is what the next start launches too.

    *The same flags again* and the way back choose nothing: an edit that waits to be applied goes on waiting.
    """
    chosen = not ctx.step.way_back and row.revision_id != ctx.job.previous_revision_id
    if not chosen or row.revision is None or row.revision_id == ctx.deployment.revision_id:
        return {}
    ctx.say(f"From now on a start or restart of {ctx.deployment} launches {row.revision}.")
    return {"revision": row.revision, "profile": row.revision.profile}


def _fail_ended(ctx: StepContext, row: Launch, code: int | None) -> NoReturn:
    clean, shared = _were_clean(ctx, row), bool(_verified_needs(ctx))
    pieces = _stored(ctx, row)
    found = diagnose(pieces, engine=ctx.engine, cards_were_clean=clean, shared=shared, exit_code=code)
    with ctx.writing():
        Launch.objects.filter(pk=row.pk).update(
            state=LaunchState.FAILED, ended_at=timezone.now(), exit_code=code, end_reason=found.cause
        )
        Deployment.objects.filter(pk=ctx.deployment.pk).update(
            state=ServiceState.STOPPED, state_since=timezone.now(), state_detail=found.cause
        )
    ctx.check(
        "alive", "Server process", CheckStatus.NOT_OK, value=f"ended with exit code {code}", source="launch record"
    )
    raise StepFailed(
        f"The server ended before it was ready (exit code {'unknown' if code is None else code}). {found.cause}",
        hint=found.fix,
        diagnosis=_as_data(found),
    )


def _were_clean(ctx: StepContext, row: Launch) -> bool | None:
    """Was every card at its baseline just before this start? Measured by the launch script itself.

    On a shared card it has found as much memory free as was needed.
    """
    cards = cards_of(ctx)
    if not cards or any(card.uuid not in row.memory_before for card in cards):
        return None
    shared = _verified_needs(ctx)
    return all(row.memory_before[card.uuid] <= card.limit_mib for card in cards if card.uuid not in shared)


def _as_data(found: Diagnosis) -> dict[str, Any]:
    """As it is kept with the job: where its line stands by chunk of the job's log and line in it."""
    data = asdict(found)
    place = data.pop("place") or {"seq": None, "line": None}
    return {**data, "log_seq": place["seq"], "log_line": place["line"]}


def _ask_to_wait(ctx: StepContext, readiness: Readiness) -> NoReturn:
    _show(ctx, readiness)
    raise ctx.ask(
        "not ready",
        title="The server is not ready yet. Wait longer?",
        text=f"It runs for longer than the limit of {ctx.deployment.ready_seconds} s: {readiness.missing}.",
        choices=[
            {"key": "longer", "label": "Wait as long again", "action": "ask"},
            {
                "key": "give_up",
                "label": "Give up",
                "action": "ask",
                "danger": True,
                "detail": "The job fails; what the plan says about the way back is done.",
            },
        ],
    )
