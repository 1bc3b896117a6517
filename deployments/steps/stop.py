"""Stop: end exactly the recorded processes of this deployment, rung by rung."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import NoReturn

from django.utils import timezone

from deployments.decisions.stop_ladder import (
    UNINTERRUPTIBLE,
    Ask,
    CannotBeKilled,
    Gone,
    Record,
    Rung,
    Signal,
    StopPolicy,
    StopSeen,
    Wait,
    Who,
    decide,
)
from deployments.lifecycle import (
    DOWN,
    LIVE_LAUNCH,
    CheckStatus,
    EffectKind,
    GateKind,
    JobKind,
    LaunchState,
    ServiceState,
)
from deployments.models import Deployment, Launch
from deployments.plan.cards import pids_inside
from deployments.plan.collect import look_at_node
from deployments.plan.plan import Plan
from deployments.steps import confirm_managed, signals
from deployments.steps.approval import answer_stands, why_it_does_not_count
from deployments.steps.base import GateOpened, StepContext, StepFailed
from deployments.steps.node_locks import lock_on_node
from deployments.steps.plan import approve_anew_if_stale, make
from deployments.steps.quiet import quiet
from deployments.steps.signals import Living, Order
from hosts.probe.frames import Unknown
from hosts.probe.processes import HostIdentity
from hosts.transport.base import LinkLost

GATES = {Rung.KILL: GateKind.KILL, Rung.NODE_KILL: GateKind.NODE_KILL}
"""The kind of the gate before a rung that does not go by itself."""


def stop(ctx: StepContext) -> None:
    """Record the tree, climb the ladder until nobody of it lives, and say which launch has ended."""
    if "processes" not in ctx.step.data:
        if ctx.step.way_back:
            quiet(ctx)
        _record(ctx)
    record = Record.load(ctx.step.data)
    if not record.processes:
        _ended(ctx)
        ctx.finish("Nothing of this deployment runs.")
        return
    _climb(ctx, record)
    _ended(ctx)
    count = len(record.processes)
    ctx.finish(f"All {count} processes of the server are gone." if count > 1 else "The server's process is gone.")


def _record(ctx: StepContext) -> None:
    """Before any signal: who belongs to the server, and is that still what was approved?"""
    # On the way back only what this job has launched is ours: never an engine that somebody else has started since.
    made: Plan = make(ctx, adopt=False) if ctx.step.way_back else approve_anew_if_stale(ctx)
    confirm_managed.confirm(ctx, made)
    root = made.serving.root
    ctx.remember_soon(  # with the intent of the first signal
        boot_id=made.data["binding"]["boot"],
        pid_namespace=made.pid_namespace,
        root=[root.pid, root.start_time] if root is not None else None,
        processes=[[process.pid, process.start_time] for process in made.serving.processes],
        rung=Rung.NONE,
        manager=str(made.manager or ""),
        manager_identity=made.manager.identity if made.manager is not None else (),
        through=_through(ctx, made),
        command=_command(made),
        names=sorted({process.comm for process in made.serving.processes}),
        newest=made.newest,
        uid=root.uid if root is not None else None,
        may_return=made.manager is not None and not _through(ctx, made),
    )
    if made.serving.processes:
        ctx.say(
            f"Recorded {len(made.serving.processes)} processes ({made.serving.how}): "
            + ", ".join(f"{process.comm} ({process.pid})" for process in made.serving.processes)
        )


def _command(made: Plan) -> str:
    root = made.serving.root
    rows = [row for row in made.data["stops"] if root is not None and row["pid"] == root.pid]
    return str(rows[0]["command"]) if rows else ""


def _through(ctx: StepContext, made: Plan) -> list[str]:
    if made.manager is None:
        return []
    return made.manager.stop_argv(seconds=ctx.deployment.term_seconds, sudo=ctx.host.sudo)


def _policy(ctx: StepContext, record: Record) -> StopPolicy:
    """A manager gets the time for its own SIGKILL too: `docker stop -t` sends that when SIGTERM has had its time."""
    policy = ctx.deployment
    longer = policy.kill_seconds if record.through else 0
    return StopPolicy(policy.term_seconds + longer, policy.kill_seconds, policy.kill_reach)


def _climb(ctx: StepContext, record: Record) -> None:
    """Ask the ladder, do what it says, until nobody lives or a person is needed."""
    living = Living({pid: "?" for pid, _ in record.processes})
    if ctx.step.data["rung"] != Rung.NONE or ctx.step.effects.exists():
        # Run again, perhaps long after the last signal, whose answer may be lost: look before anybody is signalled,
        # or a manager asked, which would stop whatever it runs by now.
        living = _look(ctx, record, 0)
    while True:
        since = datetime.fromisoformat(ctx.step.data["at"]) if "at" in ctx.step.data else timezone.now()
        seen = StopSeen(
            alive=living.alive,
            rung=Rung(ctx.step.data["rung"]),
            elapsed=(timezone.now() - since).total_seconds(),
            confirmed=_confirmed(ctx) if living.alive else frozenset(),
            through_node=_is_container(ctx),
        )
        action = decide(record, seen, _policy(ctx, record))
        if living.manager_is_silent and isinstance(action, Signal | Ask):
            _manager_is_silent(ctx, record)
        match action:
            case Gone():
                return
            case Wait(seconds):
                living = _look(ctx, record, seconds)
            case Signal(Rung.NODE_KILL, targets):
                living = _kill_from_node(ctx, record, targets)
            case Signal(rung, targets):
                living = _signal(ctx, record, rung, targets)
            case Ask(rung):
                _ask_unless_told_to_wait(ctx, rung, living)
            case CannotBeKilled(left):
                _cannot_be_killed(ctx, left, living)


def _is_container(ctx: StepContext) -> bool:
    return ctx.host.machine != ctx.host


def _confirmed(ctx: StepContext) -> frozenset[Rung]:
    """The rungs to which a person has agreed; before the first signal nobody has been asked."""
    if ctx.step.data["rung"] == Rung.NONE:
        return frozenset()
    return frozenset(rung for rung in GATES if _is_confirmed(ctx, rung))


def _is_confirmed(ctx: StepContext, rung: Rung) -> bool:
    answer = ctx.answered(GATES[rung])
    return answer is not None and answer.answer == "kill" and not why_it_does_not_count(ctx, answer)


def _look(ctx: StepContext, record: Record, seconds: float) -> Living:
    """Who lives after up to ``seconds``."""
    asked = ctx.step.data.get("asked", "")
    order = Order(EffectKind.WATCH, ctx.host, record.boot_id, "", (), record.processes, seconds, answer=asked)
    return _send(ctx, order)


def _signal(ctx: StepContext, record: Record, rung: Rung, targets: tuple[Who, ...]) -> Living:
    """The rung's signal, sent on the host; a manager is asked instead of SIGTERM, or it would start it again."""
    policy = _policy(ctx, record)
    seconds = policy.term_seconds if rung == Rung.TERM else policy.kill_seconds
    through = record.through if rung == Rung.TERM else ()
    if through:
        ctx.say(f"Asking the {record.manager} to stop the server; waiting up to {seconds:.0f} s.")
    else:
        ctx.say(f"Sending SIG{rung} to {' '.join(str(pid) for pid, _ in targets)}; waiting up to {seconds:.0f} s.")
    kind = EffectKind.MANAGER_STOP if through else EffectKind(f"signal {rung}")
    if _is_container(ctx) and rung == Rung.TERM:
        lock_on_node(ctx, nothing_done="Nothing was stopped.")
    order = Order(
        kind,
        ctx.host,
        record.boot_id,
        rung,
        targets,
        record.processes,
        seconds,
        through,
        f"{ctx.step.pk}-{ctx.claim.fence}" if through else "",
        take_cards=not _is_container(ctx),
        pid_namespace=record.pid_namespace,
    )
    return _send(ctx, order, climbed=rung)


def _send(ctx: StepContext, order: Order, *, climbed: Rung | None = None) -> Living:
    """Send it and show who lives. ``climbed``: the rung that counts as climbed as soon as the host has answered."""
    began = timezone.now()

    def heard(alive: Mapping[int, str]) -> None:
        nonlocal climbed
        if climbed is not None:
            ctx.remember_soon(rung=climbed, at=began.isoformat(), asked=order.answer)
            climbed = None
        _show(ctx, alive, len(order.watched))

    try:
        return signals.send(ctx, order, heard=heard)
    except signals.Rebooted:
        agreed = ctx.answered(GateKind.CONTACT)
        if agreed is None or agreed.answer != "go_on" or not answer_stands(ctx, agreed):
            raise LinkLost("The host has booted since the plan was made.") from None
        ctx.say("The host has booted since: the old processes cannot live any more.")
        return Living()


def _show(ctx: StepContext, alive: Mapping[int, str], total: int) -> None:
    ctx.check(
        "processes",
        "Recorded processes alive",
        CheckStatus.NOT_OK if alive else CheckStatus.OK,
        value=f"{len(alive)} of {total}",
        limit="0",
        detail=" ".join(f"{pid}:{state}" for pid, state in alive.items()),
        source="/proc",
    )


# --- Asking


def _ask_unless_told_to_wait(ctx: StepContext, rung: Rung, living: Living) -> None:
    """Open the rung's gate; a person who said *wait* gets the rung before once more."""
    told = ctx.answer(GATES[rung])
    if told is not None and told.answer == "kill":
        ctx.say(why_it_does_not_count(ctx, told))  # or the rung would have been climbed
    if told is not None and told.answer == "leave":
        raise StepFailed(
            f"{told.answered_by_name} decided not to kill what is left of the server.",
            hint="It still runs or is ending. Look at the host, then stop it again.",
        )
    if told is None or told.answer != "wait":
        raise _ask_to_kill(ctx, rung, living)
    ctx.remember(at=timezone.now().isoformat())


def _ask_to_kill(ctx: StepContext, rung: Rung, living: Living) -> GateOpened:
    known = {row["pid"]: row for row in (ctx.job.plan or {}).get("stops", [])}
    rows = [
        [pid, known.get(pid, {}).get("name", ""), known.get(pid, {}).get("command", ""), _state(pid, living)]
        for pid in sorted(living.alive)
    ]
    policy, node = ctx.deployment, ctx.host.machine
    if rung == Rung.KILL:
        title, after = "The server did not end when told to. Kill it?", f"{policy.term_seconds} s after SIGTERM"
        detail, seconds = "SIGKILL to exactly the processes above; running requests are lost.", policy.term_seconds
        label = "Kill these processes"
    else:
        title = f"The server could not be killed inside {ctx.host}. Kill it from {node}?"
        after, seconds = f"{policy.kill_seconds} s after SIGKILL inside the container", policy.kill_seconds
        detail = f"SIGKILL from {node} to exactly the processes above, under their numbers there."
        label = f"Kill these processes from {node}"
    launched = "" if ctx.job.kind == JobKind.STOP else " and nothing is started"
    return ctx.ask(
        GATES[rung],
        title=title,
        text=f"{'1 process of it is' if len(rows) == 1 else f'{len(rows)} processes of it are'} still there {after}.",
        evidence=[{"table": {"head": ["Process", "Name", "Command", "State"], "rows": rows}}],
        choices=[
            {"key": "kill", "label": label, "action": "confirm_kill", "danger": True, "detail": detail},
            {"key": "wait", "label": f"Wait another {seconds} s", "action": "ask"},
            {
                "key": "leave",
                "label": "Leave it as it is",
                "action": "ask",
                "detail": f"The job ends; nothing more is killed{launched}. What still lives may end later.",
            },
        ],
    )


STATES = {
    "R": "runs",
    "S": "sleeps",
    UNINTERRUPTIBLE: "waits inside the kernel (D): no signal reaches it",
    "T": "is stopped",
    "t": "is stopped by a debugger",
    "Z": "has ended, but its threads run on",
}


def _state(pid: int, living: Living) -> str:
    words = STATES.get(living.alive.get(pid, ""), living.alive.get(pid, ""))
    where = living.waits.get(pid)
    return f"{words}, in {where}" if where else words


def _cannot_be_killed(ctx: StepContext, left: Sequence[Who], living: Living) -> NoReturn:
    named = ", ".join(str(pid) for pid, _ in left)
    states = "; ".join(f"{pid} {_state(pid, living)}" for pid, _ in left)
    raise StepFailed(
        f"Processes {named} cannot be killed: the kernel does not let go of them ({states}).",
        hint=f"The card needs a reset or {ctx.host.machine} a reboot, by a person. Ask who looks after it.",
    )


def _manager_is_silent(ctx: StepContext, record: Record) -> NoReturn:
    """It may yet do what it was asked to: nobody is signalled behind its back."""
    raise StepFailed(
        f"The {record.manager} has not answered in {_policy(ctx, record).term_seconds:.0f} s, and the server still "
        "lives. It got no signal.",
        hint=f"It may still be stopped there: a unit's own TimeoutStopSec may be longer. Look at the {record.manager} "
        f"on {ctx.host}, raise “For the server to end” under Edit if need be, then ask for the job again.",
    )


# --- From the node


def _kill_from_node(ctx: StepContext, record: Record, targets: tuple[Who, ...]) -> Living:
    """The container's own way did not help: the same processes under their pids on the node."""
    facts = look_at_node(ctx)
    if facts is None or isinstance(facts.host, Unknown):
        raise StepFailed("The node could not be looked at.", hint="Test the node on its page.")
    inside = pids_inside(facts)
    if isinstance(inside, Unknown):
        raise StepFailed(f"The node could not be looked at: {inside.reason}", hint="Test the node on its page.")
    found = {who: (inside[who], who[1]) for who in targets if who in inside}
    living = _kill_there(ctx, facts.host, found) if found else Living()
    return living if len(found) == len(targets) else _unless_ended(ctx, record, found)


def _kill_there(ctx: StepContext, seen: HostIdentity, found: Mapping[Who, Who]) -> Living:
    """``found``: a process as the container knows it -> as the node does."""
    node, there = ctx.host.machine, tuple(found.values())
    ctx.say(f"Sending SIGKILL from {node} to {' '.join(str(pid) for pid, _ in there)}.")
    order = Order(
        EffectKind.NODE_KILL,
        node,
        seen.boot_id,
        "KILL",
        there,
        there,
        ctx.deployment.kill_seconds,
        pid_namespace=seen.pid_namespace,
    )
    living = _send(ctx, order, climbed=Rung.NODE_KILL)
    outside = {who[0]: pid for who, (pid, _) in found.items()}
    return Living(
        {pid: living.alive[on_node] for pid, on_node in outside.items() if on_node in living.alive},
        {pid: living.waits[on_node] for pid, on_node in outside.items() if on_node in living.waits},
    )


def _unless_ended(ctx: StepContext, record: Record, found: Collection[Who]) -> Living:
    """Of those that the node did not show: most likely they have just ended. Only the container itself can tell."""
    living = _look(ctx, record, 0)
    missed = [str(pid) for pid, start in record.living(living.alive) if (pid, start) not in found]
    if missed:
        node, many = ctx.host.machine, len(missed) > 1
        raise StepFailed(
            f"Process{'es' if many else ''} {', '.join(missed)} of {ctx.host} cannot be found on {node} with "
            f"certainty, so {'they were' if many else 'it was'} not signalled there.",
            hint=f"End what is left by hand on {node}, or restart the container.",
        )
    return living


def _ended(ctx: StepContext) -> None:
    """The deployment's launch, if we made one, has ended, and nothing of it serves: both are said at once."""
    by = f"stopped by job {ctx.job.pk}"
    with ctx.writing():
        Deployment.objects.filter(pk=ctx.deployment.pk).exclude(state__in=DOWN).update(
            state=ServiceState.STOPPED, state_since=timezone.now(), state_detail=by, found={}
        )
        Launch.objects.filter(deployment=ctx.deployment, state__in=LIVE_LAUNCH).update(
            state=LaunchState.ENDED, ended_at=timezone.now(), end_reason=by
        )
