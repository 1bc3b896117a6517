"""Signal recorded processes on a host, each if it is still the same there, and watch until they are gone.

The one caller of the script that signals: the stop's rungs, the node's, and a confirmed kill of others.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from deployments.decisions.stop_ladder import Who
from deployments.lifecycle import EffectKind
from deployments.remote import run as remote
from deployments.remote.locks import lock_values, locked_by
from deployments.remote.script import Said, Script
from deployments.steps.base import StepContext, StepFailed
from hosts.models import Host
from hosts.sudo import refusal
from hosts.transport.base import LinkLost, SudoRefused

Heard = Callable[[Mapping[int, str]], None]


class Rebooted(Exception):
    """The host has booted since its processes were recorded: none of them can live."""


@dataclass(frozen=True)
class Order:
    """What is sent to ``host``, whose boot is ``boot_id``. ``signal``: TERM, KILL, or empty to watch only.

    ``boot_id`` may be empty where nobody is signalled. ``through``: a manager's command instead of the signal.
    ``answer``: the name of what that command says, also for a later order that only watches. ``take_cards``: lock the
    deployment's cards with it.
    ``seconds``: how long to watch; 0 looks once. ``pid_namespace``: in which the numbers hold, as far as recorded; in
    another one (a container that was started again) nobody is signalled.
    """

    kind: EffectKind
    host: Host
    boot_id: str
    signal: str
    targets: tuple[Who, ...]
    watched: tuple[Who, ...]
    seconds: float
    through: tuple[str, ...] = ()
    answer: str = ""
    take_cards: bool = False
    pid_namespace: str = ""

    @property
    def about(self) -> tuple[Who, ...]:
        """Those who are to end, or to be watched; a manager ends the whole server."""
        return self.targets if self.signal and not self.through else self.watched

    @property
    def command(self) -> str:
        """As the history shows it."""
        if self.through:
            return shlex.join(self.through)
        return f"kill -{self.signal} {' '.join(str(pid) for pid, _ in self.targets)}" if self.signal else ""


@dataclass
class Living:
    """Who lives at the end: state letter by pid; ``waits``: where in the kernel, as far as it tells."""

    alive: dict[int, str] = field(default_factory=dict)
    waits: dict[int, str] = field(default_factory=dict)
    denied: list[int] = field(default_factory=list)
    """Processes that this login may not signal."""
    sent: list[int] = field(default_factory=list)
    """Those to which the signal was sent; the others were ``gone`` before."""
    gone: list[int] = field(default_factory=list)
    by_pidfd: list[int] = field(default_factory=list)
    """Those of ``sent`` whose pid could not have become another process's between the comparison and the signal."""
    is_known: bool = False
    """The host has said who lives."""
    manager_is_silent: bool = False
    """A manager was asked to stop the server, and its tool has not come back so far."""

    @property
    def outcome(self) -> str:
        """For the history."""
        return f"{len(self.alive)} left" if self.alive else "all gone"


def send(ctx: StepContext, order: Order, *, heard: Heard, may_be_denied: bool = False) -> Living:
    """Store the intent, signal, watch, store who is left. ``heard`` is told who lives whenever that changes.

    Raises StepFailed when the host refuses, a manager could not, or a signal is not allowed (``may_be_denied``: that
    is returned instead), LinkLost when it is not known who lives, and Rebooted.
    """
    if order.signal and not order.boot_id:
        raise StepFailed(
            f"It is not known since which boot of {order.host} these processes run, so nothing was signalled.",
            hint="A number may be another process's after a boot. Ask for the job again.",
        )
    effect = ctx.effect(
        order.kind,
        command=order.command,
        target={"processes": [list(one) for one in order.about], "boot": order.boot_id, "host": order.host.name},
        on=order.host,
    )
    living, outcome = Living(), "result not known"
    try:
        _watch(ctx, order, heard, living, may_be_denied=may_be_denied)
        outcome = living.outcome
    except (StepFailed, Rebooted) as error:
        outcome = str(error)
        raise
    finally:
        left = sorted(living.alive) if living.is_known else None
        told = {"sent": living.sent, "by_pidfd": living.by_pidfd, "gone": living.gone, "denied": living.denied}
        effect.done(outcome, alive=left, **told)
    return living


def _script(ctx: StepContext, order: Order) -> Script:
    return remote.script_for(
        ctx.deployment,
        *(["locks"] if order.take_cards else []),
        "signal",
        "stop",
        sudo="1" if order.host.sudo else "",
        fence=ctx.claim.fence,
        boot_id=order.boot_id,
        mode="take",
        **lock_values(ctx.job, ctx.placement),
        signal=order.signal,
        space=order.pid_namespace,
        targets=[] if order.through else _words(order.targets if order.signal else ()),
        through=shlex.join(order.through),
        answer=order.answer,
        watched=_words(order.watched),
        seconds_max=max(1, round(order.seconds)) if order.seconds else 0,
    )


def _words(whos: Sequence[Who]) -> list[str]:
    return [f"{pid}:{start}" for pid, start in whos]


def _watch(ctx: StepContext, order: Order, heard: Heard, living: Living, *, may_be_denied: bool) -> None:
    """Fill ``living`` as the host speaks. It first says of each target what came of it, then again and again who lives.

    What a signal was not allowed to do is raised after that, or others that were signalled would not be known.
    """
    denied: StepFailed | None = None
    unwilling: StepFailed | None = None
    living.manager_is_silent = bool(order.answer)
    with ctx.links(order.host) as transport:
        for said in remote.follow(transport, _script(ctx, order), tick=ctx.tick):
            match said.word:
                case "alive":
                    living.alive = {int(pid): state for pid, _, state in (word.partition(":") for word in said.rest)}
                    living.is_known = True
                    if living.alive and denied is not None:
                        raise denied
                    heard(living.alive)
                    if living.alive and unwilling is not None:
                        raise unwilling
                case "waits":
                    living.waits[int(said.rest[0])] = " ".join(said.rest[1:])
                case "gpu":
                    ctx.reading_said(said.rest)
                case "sent":
                    living.sent.append(int(said.rest[1]))
                    living.by_pidfd += living.sent[-1:] if said.rest[2:] == ("pidfd",) else []
                case "gone":
                    living.gone.append(int(said.rest[0]))
                case "denied" | "nosudo":
                    living.denied.append(int(said.rest[0]))
                    if may_be_denied:
                        ctx.say(_not_allowed(said).message)
                    else:
                        denied = denied or _not_allowed(said)
                case "manager":
                    unwilling = _manager_said(ctx, said)
                    living.manager_is_silent = False
                case _:
                    _trouble(ctx, said)
    if living.alive and unwilling is not None:
        raise unwilling
    if not living.is_known:
        raise denied or LinkLost("The host did not say who still lives.")


def _trouble(ctx: StepContext, said: Said) -> None:
    match said.word:
        case "hidden":
            raise _cannot_be_seen(ctx, said)
        case "fenced":
            raise ctx.fenced(said.rest)
        case "rebooted":
            raise Rebooted("the host has booted since")
        case "locked":
            raise StepFailed(f"{locked_by(said)} Nothing was stopped.", hint="Wait for that job, or ask that person.")
        case "refused":
            raise StepFailed(f"The host refused: {said.text}.", hint="Mend that on the host, then try again.")


def _cannot_be_seen(ctx: StepContext, said: Said) -> StepFailed:
    """What is hidden from this login has not ended for that."""
    pid, *words = said.rest
    why = f" {refusal(' '.join(words).encode()) or 'sudo failed on this host.'}" if words else ""
    return StepFailed(
        f"Whether process {pid} lives cannot be seen: this machine hides other users' processes from the panel's login "
        f"(/proc is mounted with hidepid).{why}",
        hint=f"Log in as root or as the server's user. Or: {SudoRefused.hint}",
    )


def _not_allowed(said: Said) -> StepFailed:
    """Only root may signal that process; ``nosudo``: and sudo does not let the login be root."""
    pid, *words = said.rest
    if said.word == "denied":
        message = f"This login may not signal process {pid}: it belongs to another user."
        return StepFailed(message, hint=f"Log in as root or as the server's user. Or: {SudoRefused.hint}")
    why = refusal(" ".join(words).encode()) or "sudo failed on this host."
    return StepFailed(f"Process {pid} belongs to another user. {why} It was not signalled.", hint=SudoRefused.hint)


def _manager_said(ctx: StepContext, said: Said) -> StepFailed | None:
    """The manager's own tool has ended: what it could not do, a signal must not do behind its back.

    But a server that is gone is gone, whatever the tool says.
    """
    status, *words = said.rest
    if words:
        ctx.say(f"The manager's tool said: {' '.join(words)}")
    if status == "0":
        return None
    return StepFailed(
        f"The server's manager did not stop it: {' '.join(words) or f'exit status {status}'}.",
        hint="Stop it there by hand, or let the panel's login do so (sudo), then try again.",
    )
