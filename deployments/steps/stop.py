"""Stop: end exactly the recorded processes of this deployment, rung by rung."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn

from django.utils import timezone

from deployments.decisions.stop_ladder import (
    AskToKill,
    CannotBeKilled,
    Gone,
    Rung,
    Signal,
    StopPolicy,
    StopSeen,
    Wait,
    decide,
)
from deployments.lifecycle import LIVE_LAUNCH, CheckStatus, EffectKind, LaunchState
from deployments.models import Launch
from deployments.plan.cards import pids_inside
from deployments.plan.collect import look_at_node
from deployments.plan.plan import Plan
from deployments.remote import run as remote
from deployments.remote.locks import lock_values, locked_by, take_cards
from deployments.remote.script import Said, Script
from deployments.steps.approval import answer_stands
from deployments.steps.base import GateOpened, StepContext, StepFailed
from deployments.steps.plan import approve_anew_if_stale, make
from hosts.models import Host
from hosts.probe.frames import Unknown
from hosts.transport.base import LinkLost


@dataclass(frozen=True)
class Record:
    """The tree that is to be ended, as it was before the first signal: (pid, start time) in the boot ``boot_id``."""

    boot_id: str
    root: tuple[int, int] | None
    processes: tuple[tuple[int, int], ...]
    manager: str = ""
    through: tuple[str, ...] = ()
    """The command by which the manager stops it, where there is one."""

    @classmethod
    def load(cls, data: dict[str, Any]) -> Record:
        """From the step's data."""
        root = data["root"]
        return cls(
            data["boot_id"],
            tuple(root) if root else None,
            tuple((p, s) for p, s in data["processes"]),
            data.get("manager", ""),
            tuple(data.get("through", ())),
        )


def stop(ctx: StepContext) -> None:
    """Record the tree, climb the ladder until nobody of it lives, and say which launch has ended."""
    if "processes" not in ctx.step.data:
        _record(ctx)
    record = Record.load(ctx.step.data)
    if not record.processes:
        _ended(ctx)
        ctx.finish("Nothing of this deployment runs.")
        return
    _climb(ctx, record)
    _ended(ctx)
    ctx.finish(f"All {len(record.processes)} processes of the server are gone.")


def _record(ctx: StepContext) -> None:
    """Before any signal: who belongs to the server, and is that still what was approved?"""
    # On the way back only what this job has launched is ours: never an engine that somebody else has started since.
    made: Plan = make(ctx, adopt=False) if ctx.step.way_back else approve_anew_if_stale(ctx)
    root = made.serving.root
    ctx.remember(
        boot_id=made.data["binding"]["boot"],
        root=[root.pid, root.start_time] if root is not None else None,
        processes=[[process.pid, process.start_time] for process in made.serving.processes],
        rung=Rung.NONE,
        manager=str(made.manager or ""),
        through=_through(ctx, made),
    )
    if made.serving.processes:
        ctx.say(
            f"Recorded {len(made.serving.processes)} processes ({made.serving.how}): "
            + ", ".join(f"{process.comm} ({process.pid})" for process in made.serving.processes)
        )


def _through(ctx: StepContext, made: Plan) -> list[str]:
    if made.manager is None:
        return []
    return made.manager.stop_argv(seconds=ctx.deployment.term_seconds, sudo=ctx.host.sudo)


def _policy(ctx: StepContext) -> StopPolicy:
    policy = ctx.deployment
    return StopPolicy(policy.term_seconds, policy.kill_seconds, policy.kill_own_by_itself)


def _climb(ctx: StepContext, record: Record) -> None:
    """Ask the ladder, do what it says, until nobody lives or a person is needed."""
    alive = [pid for pid, _ in record.processes]
    if ctx.step.data["rung"] != Rung.NONE:
        # Run again, perhaps long after the last signal: look before anybody is signalled or asked.
        alive = _signal(ctx, record, "", alive, 0)
    while True:
        rung = Rung(ctx.step.data["rung"])
        answer = ctx.answered("kill")
        confirmed = answer is not None and answer.answer == "kill" and answer_stands(ctx, answer)
        since = datetime.fromisoformat(ctx.step.data["at"]) if "at" in ctx.step.data else timezone.now()
        seen = StopSeen(
            alive=len(alive),
            rung=rung,
            elapsed=(timezone.now() - since).total_seconds(),
            kill_confirmed=confirmed,
            through_node=ctx.host.machine != ctx.host,
        )
        match decide(seen, _policy(ctx)):
            case Gone():
                return
            case Wait(seconds):
                alive = _signal(ctx, record, "", alive, seconds)
            case Signal(next_rung):
                alive = _send(ctx, record, next_rung, alive)
            case AskToKill():
                waits = ctx.answer("kill")
                if waits is None or waits.answer != "wait":
                    raise _ask_to_kill(ctx, alive)
                ctx.remember(at=timezone.now().isoformat())
            case CannotBeKilled():
                _cannot_be_killed(alive)


def _send(ctx: StepContext, record: Record, rung: Rung, alive: list[int]) -> list[int]:
    policy = _policy(ctx)
    if rung == Rung.NODE_KILL:
        return _kill_from_node(ctx, record, alive, policy.kill_seconds)
    return _signal(ctx, record, rung, alive, policy.term_seconds if rung == Rung.TERM else policy.kill_seconds)


def _signal(ctx: StepContext, record: Record, signal: str, alive: list[int], seconds: float) -> list[int]:
    """Signal on the host, identity checked there, and watch for up to ``seconds``; returns who still lives.

    SIGTERM goes to the server's own process, which ends its workers; without one, to each that is left. A manager
    is asked instead, for what it did not stop itself it starts again.
    """
    living = [(pid, start) for pid, start in record.processes if pid in alive]
    targets = [record.root] if signal == Rung.TERM and record.root in living else living
    through = record.through if signal == Rung.TERM else ()
    if through:
        ctx.say(f"Asking the {record.manager} to stop the server; waiting up to {seconds:.0f} s.")
    elif signal:
        words = " ".join(str(pid) for pid, _ in targets if pid)
        ctx.say(f"Sending SIG{signal} to {words}; waiting up to {seconds:.0f} s.")
    effect = ctx.effect(
        EffectKind.MANAGER_STOP if through else EffectKind(f"signal {signal}") if signal else EffectKind.WATCH,
        command=shlex.join(through) or (f"kill -{signal} {' '.join(str(pid) for pid, _ in targets)}" if signal else ""),
        target={"processes": [list(who) for who in (targets if signal else living)], "boot": record.boot_id},
    )
    on_node = ctx.host.machine != ctx.host
    if on_node and signal == Rung.TERM:
        _lock_on_node(ctx)
    script = remote.script_for(
        ctx.deployment,
        *([] if on_node else ["locks"]),
        "stop",
        fence=ctx.claim.fence,
        boot_id=record.boot_id,
        mode="take",
        **lock_values(ctx.job),
        signal=signal,
        targets=[f"{pid}:{start}" for pid, start in targets] if signal and not through else "",
        through=shlex.join(through),
        watched=[f"{pid}:{start}" for pid, start in record.processes],
        seconds_max=max(1, round(seconds)) if seconds else 0,
    )
    alive = _watch(ctx, script, ctx.host, len(record.processes), sent=Rung(signal) if signal else None)
    effect.done(f"{len(alive)} left" if alive else "all gone", alive=alive)
    return alive


def _lock_on_node(ctx: StepContext) -> None:
    other = take_cards(ctx.job, fence=ctx.claim.fence, links=ctx.links, tick=ctx.tick)
    if other is not None:
        raise StepFailed(f"{other} Nothing was stopped.", hint="Wait for that job, or ask that person.")


def _watch(ctx: StepContext, script: Script, host: Host, total: int, *, sent: Rung | None) -> list[int]:
    """Who still lives at the end. ``sent``: the rung that counts as climbed once the host has answered, not before."""
    alive: list[int] | None = None
    began = timezone.now()
    with ctx.links(host) as transport:
        for said in remote.follow(transport, script, tick=ctx.tick):
            match said.word:
                case "fenced":
                    raise ctx.fenced(said.rest)
                case "locked":
                    raise StepFailed(
                        f"{locked_by(said)} Nothing was stopped.", hint="Wait for that job, or ask that person."
                    )
                case "refused":
                    raise StepFailed(f"The host refused: {said.text}.", hint="Mend that on the host, then try again.")
                case "rebooted":
                    return _booted(ctx)
                case "denied":
                    raise StepFailed(
                        f"This login may not signal process {said.text}: it belongs to another user.",
                        hint="Give the login sudo rights, or log in as root or as the server's user.",
                    )
                case "manager":
                    _manager_said(said)
                case "gpu":
                    ctx.reading_said(said.rest)
                case "alive":
                    if sent is not None:
                        ctx.remember(rung=sent, at=began.isoformat())
                        sent = None
                    alive = [int(word.partition(":")[0]) for word in said.rest]
                    _show(ctx, alive, total, said.rest)
    if alive is None:
        raise LinkLost("The host did not say who still lives.")
    return alive


def _manager_said(said: Said) -> None:
    """The manager's own tool has ended: what it could not do, a signal must not do behind its back."""
    status, *words = said.rest
    if status != "0":
        raise StepFailed(
            f"The server's manager did not stop it: {' '.join(words) or f'exit status {status}'}.",
            hint="Stop it there by hand, or let the panel's login do so (sudo), then try again.",
        )


def _booted(ctx: StepContext) -> list[int]:
    """The host has booted since the plan: a person agrees before anything more is done; then the old ones are gone."""
    agreed = ctx.answered("contact")
    if agreed is None or agreed.answer != "go_on":
        raise LinkLost("The host has booted since the plan was made.")
    ctx.say("The host has booted since: the old processes cannot live any more.")
    return []


def _show(ctx: StepContext, alive: list[int], total: int, states: tuple[str, ...]) -> None:
    ctx.check(
        "processes",
        "Recorded processes alive",
        CheckStatus.NOT_OK if alive else CheckStatus.OK,
        value=f"{len(alive)} of {total}",
        limit="0",
        detail=" ".join(states),
        source="/proc",
    )


def _ask_to_kill(ctx: StepContext, alive: list[int]) -> GateOpened:
    known = {row["pid"]: row for row in (ctx.job.plan or {}).get("stops", [])}
    rows = [[pid, known.get(pid, {}).get("name", ""), known.get(pid, {}).get("command", "")] for pid in alive]
    return ctx.ask(
        "kill",
        title="The server did not end on SIGTERM. Kill it?",
        text=f"{len(alive)} recorded processes still live {ctx.deployment.term_seconds} s after SIGTERM.",
        evidence=[{"table": {"head": ["Process", "Name", "Command"], "rows": rows}}],
        choices=[
            {
                "key": "kill",
                "label": "Kill these processes",
                "action": "confirm_kill",
                "danger": True,
                "detail": "SIGKILL to exactly the processes above; running requests are lost.",
            },
            {"key": "wait", "label": f"Wait another {ctx.deployment.term_seconds} s", "action": "ask"},
        ],
    )


def _cannot_be_killed(alive: list[int]) -> NoReturn:
    raise StepFailed(
        f"Processes {', '.join(map(str, alive))} cannot be killed: the kernel does not let go of them.",
        hint="The card needs a reset or the host a reboot, by a person. Ask who looks after the host.",
    )


def _kill_from_node(ctx: StepContext, record: Record, alive: list[int], seconds: float) -> list[int]:
    """The container's own way did not help: the same processes under their pids on the node."""
    facts = look_at_node(ctx)
    if facts is None or isinstance(facts.host, Unknown):
        raise StepFailed("The node could not be looked at.", hint="Test the node on its page.")
    inside = pids_inside(facts)
    if isinstance(inside, Unknown):
        raise StepFailed(f"The node could not be looked at: {inside.reason}", hint="Test the node on its page.")
    living = [(pid, start) for pid, start in record.processes if pid in alive]
    found = [(inside[who], who[1]) for who in living if who in inside]
    if not found:
        _cannot_be_killed(alive)
    node = ctx.host.machine
    ctx.say(f"Sending SIGKILL from {node} to {' '.join(str(pid) for pid, _ in found)}.")
    effect = ctx.effect(
        EffectKind.NODE_KILL,
        command=f"kill -KILL {' '.join(str(pid) for pid, _ in found)}",
        target={"processes": [list(who) for who in found], "node": node.name},
    )
    words = [f"{pid}:{start}" for pid, start in found]
    script = remote.script_for(
        ctx.deployment,
        "stop",
        fence=ctx.claim.fence,
        boot_id=facts.host.boot_id,
        signal="KILL",
        through="",
        targets=words,
        watched=words,
        seconds_max=max(1, round(seconds)),
    )
    left = _watch(ctx, script, node, len(found), sent=Rung.NODE_KILL)
    effect.done(f"{len(left)} left" if left else "all gone", alive=left)
    unseen = [pid for pid, start in living if (pid, start) not in inside]
    return [pid for pid, start in living if inside.get((pid, start)) in left] + unseen


def _ended(ctx: StepContext) -> None:
    """The deployment's launch, if we made one, has ended."""
    with ctx.writing():
        Launch.objects.filter(deployment=ctx.deployment, state__in=LIVE_LAUNCH).update(
            state=LaunchState.ENDED, ended_at=timezone.now(), end_reason=f"stopped by job {ctx.job.pk}"
        )
