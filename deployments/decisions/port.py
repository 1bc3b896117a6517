"""Is the port free? Free, not free, or could not measure, in words. PURE.

The port counts as a whole, whatever address the server will listen on: who asks for it on another address, or over the
other family, would reach somebody else's server, and a claim on a port covers all of them too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from hosts.probe.frames import Unknown
from hosts.probe.port import BOUND, DENIED, LEFT, LISTENS, TAKEN, UNTOLD, PortTrial

EVERY = {"0.0.0.0": "every IPv4 address", "::": "every IPv6 address"}


class Having(IntEnum):
    """How a process has a port."""

    LISTENS = LISTENS
    BOUND = BOUND
    CONNECTION = 0


@dataclass(frozen=True)
class PortHolder:
    """One socket on the port and a process that has it open; ``pid`` None: this login may not see which."""

    having: Having
    address: str
    pid: int | None
    name: str
    user: str
    deployment: str = ""

    @property
    def who(self) -> str:
        """The process in words."""
        if self.pid is None:
            return f"A process of {self.user}, which this login may not see,"
        facts = [f"pid {self.pid}", self.user, f"of deployment {self.deployment}" if self.deployment else ""]
        return f"{self.name} ({', '.join(filter(None, facts))})"

    @property
    def how(self) -> str:
        """What it does with the port."""
        where = EVERY.get(self.address, self.address)
        if self.having == Having.LISTENS:
            return f"listens on {where}"
        if self.having == Having.BOUND:
            return f"has bound {where} and does not listen: perhaps a server that still loads"
        return f"uses it as its own end of a connection, from {where}"


@dataclass(frozen=True)
class PortVerdict:
    """``free`` None: could not be measured. ``text`` says why it is not free or not known, or what to know besides."""

    free: bool | None
    text: str = ""
    holders: tuple[PortHolder, ...] = ()


def judge(
    port: int, listeners: Sequence[PortHolder] | Unknown, trial: PortTrial | Unknown, others: Sequence[PortHolder] = ()
) -> PortVerdict:
    """The verdict by both ways of asking. ``others``: those that the trial has found and the list has not.

    A listener is enough for *not free*; for *free* both have to say so, or the list where trying is impossible.
    """
    if not isinstance(listeners, Unknown) and listeners:
        return _taken(port, listeners)
    if isinstance(trial, Unknown):
        reason = listeners.reason if isinstance(listeners, Unknown) else trial.reason
        return PortVerdict(None, f"Whether port {port} is free could not be measured: {reason}")
    if trial.word == TAKEN:
        return _taken(port, others) if others else PortVerdict(False, _by_nobody(port, trial))
    if isinstance(listeners, Unknown):
        return PortVerdict(None, f"Whether port {port} is free could not be measured: {listeners.reason}")
    return PortVerdict(True, _note(trial))


def _taken(port: int, holders: Sequence[PortHolder]) -> PortVerdict:
    told = [f"{holder.who} {holder.how}" for holder in holders]
    return PortVerdict(False, f"Port {port} is taken: {'; '.join(dict.fromkeys(told))}.", tuple(holders))


def _by_nobody(port: int, trial: PortTrial) -> str:
    """Taken, and no process has it open as far as is known."""
    if trial.waiting and not trial.sockets:
        return (
            f"Port {port} is still kept by {_closed(trial.waiting)}, whose server did not let its address be reused. "
            "It comes free by itself within a minute."
        )
    if trial.sockets:
        return f"Port {port} is taken by a connection that no process has open any more. It comes free by itself."
    return (
        f"Port {port} is taken: somebody has bound it and does not listen, perhaps a server that still loads. "
        "The host does not say who."
    )


def _closed(count: int) -> str:
    return "what is left of one closed connection" if count == 1 else f"what is left of {count} closed connections"


def _note(trial: PortTrial) -> str:
    """What a free port has to be told with."""
    if trial.word == LEFT:
        seen = (
            "Closed connections are not quite gone; a server that reuses its address, as engines do, can start at once."
        )
        blind = " An old kernel (before Linux 6.8) does not say whether somebody has bound the same address besides."
        return seen + (blind if trial.unlisted else "")
    if trial.word == DENIED:
        return (
            "Nobody listens. This login may not use ports below 1024, so the server needs a right of its own to start."
        )
    if trial.word == UNTOLD:
        why = "the host has neither perl nor python3" if trial.no_tool else "the host does not let it be tried"
        return f"Nobody listens. Whether somebody has bound it without listening is not known: {why}."
    return ""
