"""Launch: start one server, once, whatever dies or is sent twice."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NoReturn

from django.utils import timezone

from controlpanel.sealing import CannotUnseal
from deployments import secrets
from deployments.engines.base import Engine
from deployments.lifecycle import LIVE_LAUNCH, CheckStatus, EffectKind, LaunchState, StepState
from deployments.models import JobStep, Launch
from deployments.plan.collect import cards_of, measured_needs
from deployments.plan.passing import in_compose_file, in_env_file, in_environment, in_settings, in_unit_file
from deployments.plan.ways import By, Way
from deployments.remote import run as remote
from deployments.remote.locks import lock_values, locked_by
from deployments.remote.script import Said, Script
from deployments.steps import by_itself
from deployments.steps.base import StepContext, StepFailed
from deployments.steps.node_locks import lock_on_node
from deployments.steps.starting import limit_not_kept, secrets_file, start_values, way_of, written_first
from hosts.transport.base import TransportError

TIMEOUT_SECONDS = 45.0
FRESH = timedelta(seconds=10)
MOST_REFUSALS = 3


def launch(ctx: StepContext) -> None:
    """Look whether this launch already exists on the host, else start it; record who it is."""
    if _is_old(ctx.verified.data) and not _is_there(ctx):
        _back_to_verify(ctx, "What verify has seen is older than 10 s.")
        return
    by_itself.refuse_if_revoked(ctx)
    row = _intend(ctx)
    said = _send(ctx, row, mode="start")
    _settle(ctx, row, said)


def _is_there(ctx: StepContext) -> bool:
    """Has the host a launch of this step already? An earlier copy of its script cannot come any more: our look
    raises the fence.
    """
    if not ctx.step.effects.filter(kind=EffectKind.LAUNCH).exists():
        return False
    words = {line.word for line in _send(ctx, Launch.objects.get(pk=ctx.step.data["launch"]), mode="look")}
    return "absent" not in words


def _is_old(verified: dict[str, Any]) -> bool:
    """Nothing is launched onto cards that were not looked at, holders included, within the last 10 s.

    A moment that is yet to come says that the clock was set back: then nobody knows how long ago it was.
    """
    at = verified.get("verified_at")
    return at is None or abs(timezone.now() - datetime.fromisoformat(at)) > FRESH


def resolve(ctx: StepContext, row: Launch) -> None:
    """Settle a launch whose sending may or may not have reached the host: adopt it, or forbid it for ever.

    Raises TransportError when the host cannot be asked or does not know; the job must then stay unknown.
    """
    said = _send(ctx, row, mode="abandon")
    words = {line.word for line in said}
    if words & {"abandoned", "rebooted"}:
        _change(ctx, row, state=LaunchState.ABANDONED, ended_at=timezone.now(), end_reason="given up before it began")
    elif "record" in words:
        _adopt(ctx, row, said)
    elif "exit" in words:
        _change(ctx, row, state=LaunchState.FAILED, ended_at=timezone.now(), end_reason=_why_nobody(ctx, said))
    else:
        raise TransportError(f"The host does not say what became of launch {str(row.pk)[:8]}: {_outcome(said)}.")


def _intend(ctx: StepContext) -> Launch:
    """The row of this round's launch; its id is fixed before anything is sent."""
    known = ctx.step.data.get("launch")
    if known is not None:
        return Launch.objects.get(pk=known)
    row = Launch(
        id=uuid.uuid4(),
        deployment=ctx.deployment,
        revision=ctx.revision,
        job=ctx.job,
        host=ctx.host,
        requested={
            "argv": ctx.revision.argv,
            "env": ctx.revision.env,
            "workdir": ctx.revision.workdir,
            "container": ctx.revision.container,
            "port": ctx.revision.port,
            "secrets": secrets.versions(ctx.deployment),
        },
        memory_before=ctx.verified.data.get("memory", {}),
        started_by=way_of(ctx),
    )
    with ctx.writing():
        # Verify has seen that nothing of an earlier launch lives.
        Launch.objects.filter(deployment=ctx.deployment, state__in=LIVE_LAUNCH).update(
            state=LaunchState.ENDED, ended_at=timezone.now(), end_reason="no process of it was left"
        )
        row.save(force_insert=True)
        ctx.keep(launch=str(row.pk))
    return row


def _send(ctx: StepContext, row: Launch, *, mode: str) -> list[Said]:
    if row.revision is None:
        raise StepFailed("The revision of this launch is gone.")
    given = _given(row) if mode == "start" else []
    on_node = ctx.host.machine != ctx.host
    if mode == "start" and on_node:
        lock_on_node(ctx)
    script = _script(ctx, row, mode=mode, lock=not on_node, given=given)
    effect = ctx.effect(
        {"start": EffectKind.LAUNCH, "look": EffectKind.LOOK_FOR_LAUNCH}.get(mode, EffectKind.GIVE_UP_LAUNCH),
        command=row.revision.command_line,
        target={
            "launch": str(row.pk),
            "revision": str(row.revision),
            "host": ctx.host.name,
            "way": row.started_by,
            "writes": written_first(ctx) if mode == "start" else "",
            "gives": secrets_file(ctx, row) if given else "",
        },
    )
    with ctx.link() as transport:
        said = remote.run(transport, script, timeout=TIMEOUT_SECONDS, tick=ctx.tick)
    effect.done(_outcome(said), said=[ctx.log.hide(f"{line.word} {line.text}")[:300] for line in said[:40]])
    for line in said:
        if line.word == "fenced":
            raise ctx.fenced(line.rest)
    return said


def _given(row: Launch) -> list[tuple[str, str]]:
    """The secrets that it is started with, by name. Raises StepFailed when they cannot be opened."""
    try:
        return [(secret.name, secret.value) for secret in secrets.passed_to(row)]
    except CannotUnseal as error:
        raise StepFailed(error.message, hint=error.hint) from error


def _script(ctx: StepContext, row: Launch, *, mode: str, lock: bool, given: Sequence[tuple[str, str]] = ()) -> Script:
    assert row.revision is not None
    own, settings = _as_passed(ctx.engine, Way.of(row.started_by or By.WRAPPER).by, given)
    locks = lock_values(ctx.job, ctx.placement)
    needs: dict[str, int] = ctx.verified.data.get("needs", {})
    return remote.script_for(
        ctx.deployment,
        *(["locks"] if lock and mode == "start" else []),
        *(["port"] if mode == "start" else []),
        "start",
        "launch",
        fence=ctx.claim.fence,
        boot_id=ctx.verified.data.get("boot_id", ""),
        mode="take",
        **locks,
        mode_launch=mode,
        launch=str(row.pk),
        port=row.revision.port,
        limits=[f"{card.uuid}={card.limit_mib}" for card in cards_of(ctx) if card.uuid not in needs],
        needs=[f"{uuid}={mib}" for uuid, mib in needs.items()],
        musts=[f"{uuid}={mib}" for uuid, mib in measured_needs(ctx).items()] if ctx.verified.data.get("forced") else [],
        force=1 if ctx.verified.data.get("forced") else 0,
        secrets=own,
        settings=settings,
        **start_values(ctx, row, starts=mode == "start", secrets=bool(own), settings=bool(settings)),
    )


def _as_passed(engine: Engine, by: By, given: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """The text of the launch's file of secrets, and of the engine's own; what is there already gets none."""
    if by == By.CONTAINER:
        return "", ""
    written = {By.RUN: in_env_file, By.UNIT: in_unit_file, By.COMPOSE: in_compose_file}.get(by, in_environment)
    try:
        return written(engine, given), in_settings(engine, given)
    except ValueError as problem:
        raise StepFailed(str(problem), hint="Replace it on the deployment's page.") from problem


def _why_nobody(ctx: StepContext, said: list[Said]) -> str:
    """Why a launch has ended that never said which process it is: what stands in its log."""
    why = next((line.text for line in said if line.word == "why" and line.text), "")
    return ctx.log.hide(why)[:500] or "it ended before it could say which process it is"


def _outcome(said: list[Said]) -> str:
    telling = [line for line in said if line.word not in ("memory", "record", "end", "take", "limit")]
    return f"{telling[-1].word} {telling[-1].text}".strip() if telling else "no answer"


def _settle(ctx: StepContext, row: Launch, said: list[Said]) -> None:
    """Read what became of it."""
    for line in said:
        match line.word:
            case "locked":
                _give_up(ctx, row, str(locked_by(line)), hint="Wait for that job, or ask that person.")
            case "rebooted":
                _give_up(ctx, row, "The host has booted since the cards were measured.", hint="Start again.")
            case "live":
                _yield_to(ctx, row, line)
            case "refused":
                _give_up(ctx, row, f"The host refused the launch: {line.text}.", hint="Correct that, then start again.")
            case "portbusy":
                _give_up(
                    ctx,
                    row,
                    f"Port {line.text} was taken in the meantime by {_port_owners(said)}.",
                    hint="Stop that process, or give the deployment another port.",
                )
            case "abandoned":
                _give_up(ctx, row, "This launch was given up by another worker.", hint="Start again.")
            case "notfree" | "notenough" | "unmeasured":
                _back_to_verify(ctx, _not_free(line), refused=True)
                return
    words = {line.word for line in said}
    if "exit" in words and "record" not in words:
        _give_up(ctx, row, f"It was not started: {_why_nobody(ctx, said)}", hint="Mend that, then start again.")
    _adopt(ctx, row, said)
    for line in said:
        if line.word == "limit":
            ctx.say(limit_not_kept(line))
    ctx.say(f"Its log on {ctx.host} is {row.log_path}.")
    ctx.finish(f"Started with {row.revision} as pid {row.pid}.")


def _port_owners(said: list[Said]) -> str:
    """Who has the port, as far as the host's login may see."""
    names = [f"{' '.join(line.rest[1:])} (pid {line.rest[0]})" for line in said if line.word == "portowner"]
    return ", ".join(dict.fromkeys(names)) or "what this login may not see"


def _give_up(ctx: StepContext, row: Launch, message: str, *, hint: str) -> None:
    """The host said no. An earlier copy of the script whose answer was lost may still come: then it is not settled."""
    ctx.log.flush()
    if not ctx.step.effects.filter(kind=EffectKind.LAUNCH, finished_at=None).exists():
        _change(ctx, row, state=LaunchState.FAILED, ended_at=timezone.now(), end_reason=ctx.log.hide(message))
    raise StepFailed(message, hint=hint)


def _yield_to(ctx: StepContext, row: Launch, line: Said) -> NoReturn:
    """Another launch of this deployment lives after all: that one is the live one."""
    other, pid = line.rest[:2]
    message = f"Another launch of this deployment lives (pid {pid})."
    with ctx.writing():
        Launch.objects.filter(pk=row.pk).update(state=LaunchState.FAILED, ended_at=timezone.now(), end_reason=message)
        known = Launch.objects.filter(pk=other, deployment=ctx.deployment).exclude(state__in=LIVE_LAUNCH)
        known.update(state=LaunchState.STARTING, ended_at=None, end_reason="")
    raise StepFailed(message, hint="Restart instead.")


def _not_free(line: Said) -> str:
    if line.word == "notfree":
        uuid, used, limit = line.rest[:3]
        return f"Card {uuid} holds {used} MiB, limit {limit} MiB."
    if line.word == "notenough":
        uuid, free, need = line.rest[:3]
        return f"Card {uuid} has {free} MiB free beside its co-tenants, {need} MiB are needed."
    return f"The cards could not be measured just before the launch ({line.text})."


def _back_to_verify(ctx: StepContext, why: str, *, refused: bool = False) -> None:
    """The verdict does not hold any more: nothing was started, look again.

    ``refused``: the host has said so at the launch itself. Where it says so again and again though every look finds the
    cards free, looking goes round without end: a person is asked.
    """
    ctx.say(f"Not started. {why} Looking again.")
    with ctx.writing():
        again = {"state": StepState.PENDING, "ended_at": None}
        verified = ctx.verified
        kept = {"co_tenants": verified.data["co_tenants"]} if "co_tenants" in verified.data else {}
        refusals = ctx.step.data.get("refusals", 0) + (1 if refused else 0)
        if refused and refusals >= MOST_REFUSALS:
            kept["doubt"] = f"The launch was refused on the host {refusals} times. {why}"
        JobStep.objects.filter(pk=verified.pk).update(data=kept, **again)
        JobStep.objects.filter(pk=ctx.step.pk).update(data={**ctx.step.data, "refusals": refusals}, **again)


def _adopt(ctx: StepContext, row: Launch, said: list[Said]) -> None:
    """Store the identity that the wrapper has recorded on the host."""
    record = {line.rest[0]: line.rest[1] for line in said if line.word == "record" and len(line.rest) == 2}
    directory = next((line.text for line in said if line.word in ("started", "exists")), "")
    if "pid" not in record:
        raise StepFailed(
            "The launch was sent, but no process recorded itself in time.",
            hint="Look at the host: its disk may be full, or the login may not start programs.",
        )
    before = {line.rest[0]: int(line.rest[1]) for line in said if line.word == "memory"}
    _change(
        ctx,
        row,
        state=LaunchState.STARTING,
        directory=directory,
        pid=int(record["pid"]),
        start_time=int(record["start"]),
        boot_id=record["boot"],
        pid_namespace=record.get("pidns", ""),
        started_at=timezone.now(),
        memory_before=before or row.memory_before,
    )
    identity = ctx.measured(
        "identity",
        "Server process",
        CheckStatus.OK,
        value=f"pid {record['pid']}, start time {record['start']}",
        detail=f"boot {record['boot']}",
        source="launch record",
    )
    ctx.show_soon([identity])


def _change(ctx: StepContext, row: Launch, **fields: Any) -> None:
    with ctx.writing():
        Launch.objects.filter(pk=row.pk).update(**fields)
    row.refresh_from_db()
