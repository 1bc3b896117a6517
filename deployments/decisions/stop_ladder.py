"""What to do next to end a server: drain was before; SIGTERM, SIGKILL, SIGKILL from the node, a person. PURE.

(who still lives, what was sent last and how long ago, the policy) -> the next action.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Rung(StrEnum):
    """How far the ladder has been climbed."""

    NONE = "none"
    TERM = "TERM"
    KILL = "KILL"
    NODE_KILL = "KILL from the node"


@dataclass(frozen=True)
class StopPolicy:
    """Time-outs in seconds, and whether our own recorded processes may be killed without asking."""

    term_seconds: float
    kill_seconds: float
    kill_own_by_itself: bool


@dataclass(frozen=True)
class StopSeen:
    """``alive``: how many recorded processes live. ``elapsed``: seconds since the last signal."""

    alive: int
    rung: Rung
    elapsed: float
    kill_confirmed: bool = False
    through_node: bool = False


@dataclass(frozen=True)
class Gone:
    """Nobody of the record lives."""


@dataclass(frozen=True)
class Wait:
    """Watch for up to ``seconds`` more."""

    seconds: float


@dataclass(frozen=True)
class Signal:
    """Climb to ``rung``: send its signal."""

    rung: Rung


@dataclass(frozen=True)
class AskToKill:
    """The policy wants a person before SIGKILL."""


@dataclass(frozen=True)
class CannotBeKilled:
    """SIGKILL did not help: the GPU needs a reset or the host a reboot, by a person."""


Action = Gone | Wait | Signal | AskToKill | CannotBeKilled


def decide(seen: StopSeen, policy: StopPolicy) -> Action:
    """The next action. Total: every state has one."""
    if seen.alive == 0:
        return Gone()
    if seen.rung == Rung.NONE:
        return Signal(Rung.TERM)
    limit = policy.term_seconds if seen.rung == Rung.TERM else policy.kill_seconds
    if seen.elapsed < limit:
        return Wait(limit - seen.elapsed)
    if seen.rung == Rung.TERM:
        return Signal(Rung.KILL) if policy.kill_own_by_itself or seen.kill_confirmed else AskToKill()
    if seen.rung == Rung.KILL and seen.through_node:
        return Signal(Rung.NODE_KILL)
    return CannotBeKilled()
