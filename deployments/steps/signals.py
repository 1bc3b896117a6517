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

    ``through``: a manager's command instead of the signal. ``take_cards``: lock the deployment's cards with it.
    ``seconds``: how long to watch; 0 looks once.
    """

    kind: EffectKind
    host: Host
    boot_id: str
    signal: str
    targets: tuple[Who, ...]
    watched: tuple[Who, ...]
    seconds: float
    through: tuple[str, ...] = ()
    take_cards: bool = False

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
    """Processes that this login may not signal, where that does not end the step."""


def send(ctx: StepContext, order: Order, *, heard: Heard, may_be_denied: bool = False) -> Living:
    """Store the intent, signal, watch, store who is left. ``heard`` is told who lives whenever that changes.

    Raises StepFailed when the host refuses, a manager could not, or a signal is not allowed (``may_be_denied``: that
    is returned instead), LinkLost when it is not known who lives, and Rebooted.
    """
    who = order.targets if order.signal else order.watched
    effect = ctx.effect(
        order.kind,
        command=order.command,
        target={"processes": [list(one) for one in who], "boot": order.boot_id, "host": order.host.name},
    )
    living = _watch(ctx, order, heard, may_be_denied)
    left = sorted(living.alive)
    effect.done(f"{len(left)} left" if left else "all gone", alive=left, denied=living.denied)
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
        **lock_values(ctx.job),
        signal=order.signal,
        targets=[] if order.through else _words(order.targets if order.signal else ()),
        through=shlex.join(order.through),
        watched=_words(order.watched),
        seconds_max=max(1, round(order.seconds)) if order.seconds else 0,
    )


def _words(whos: Sequence[Who]) -> list[str]:
    return [f"{pid}:{start}" for pid, start in whos]


def _watch(ctx: StepContext, order: Order, heard: Heard, may_be_denied: bool) -> Living:
    living = Living()
    said_who_lives = False
    unwilling: StepFailed | None = None
    with ctx.links(order.host) as transport:
        for said in remote.follow(transport, _script(ctx, order), tick=ctx.tick):
            match said.word:
                case "alive":
                    living.alive = {int(pid): state for pid, _, state in (word.partition(":") for word in said.rest)}
                    said_who_lives = True
                    heard(living.alive)
                    if living.alive and unwilling is not None:
                        raise unwilling
                case "waits":
                    living.waits[int(said.rest[0])] = " ".join(said.rest[1:])
                case "gpu":
                    ctx.reading_said(said.rest)
                case "denied" | "nosudo" if may_be_denied:
                    living.denied.append(int(said.rest[0]))
                    ctx.say(_not_allowed(said).message)
                case "manager":
                    unwilling = _manager_said(ctx, said)
                case _:
                    _trouble(ctx, said)
    if living.alive and unwilling is not None:
        raise unwilling
    if not said_who_lives:
        raise LinkLost("The host did not say who still lives.")
    return living


def _trouble(ctx: StepContext, said: Said) -> None:
    match said.word:
        case "fenced":
            raise ctx.fenced(said.rest)
        case "rebooted":
            raise Rebooted
        case "locked":
            raise StepFailed(f"{locked_by(said)} Nothing was stopped.", hint="Wait for that job, or ask that person.")
        case "refused":
            raise StepFailed(f"The host refused: {said.text}.", hint="Mend that on the host, then try again.")
        case "denied" | "nosudo":
            raise _not_allowed(said)


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
