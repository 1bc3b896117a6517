"""What to do next to end a server: drain was before; SIGTERM, SIGKILL, SIGKILL from the node, a person. PURE.

(the record of who is to be ended, what was seen, the policy) -> the next action. A signal names its targets, and they
are always of the record: nobody else can be reached from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

Who = tuple[int, int]
"""A pid and its start time in clock ticks; with the record's boot, one process and no other."""
UNINTERRUPTIBLE = "D"
"""The state of a process that waits inside the kernel, from which no signal gets it out."""


class Rung(StrEnum):
    """How far the ladder has been climbed, in this order."""

    NONE = "none"
    TERM = "TERM"
    KILL = "KILL"
    NODE_KILL = "KILL from the node"

    def is_within(self, reach: Rung) -> bool:
        """Is it no higher than ``reach``?"""
        order = list(Rung)
        return order.index(self) <= order.index(reach)


@dataclass(frozen=True)
class Record:
    """The tree that is to be ended, as it was before the first signal, in the boot ``boot_id``."""

    boot_id: str
    root: Who | None
    processes: tuple[Who, ...]
    manager: str = ""
    """What looks after it, in words."""
    through: tuple[str, ...] = ()
    """The command by which the manager stops it, where there is one."""
    command: str = ""
    """Of the root, secrets hidden; with the next three it is known again should it come back by itself."""
    names: tuple[str, ...] = ()
    """Of its processes, as the kernel has them."""
    newest: int | None = None
    """The start time of the youngest process of the host when this was recorded; None: not recorded."""
    may_return: bool = False
    """Something may start it again that could not be asked not to."""
    manager_identity: tuple[str, ...] = ()
    """By which the manager is known again; empty for none."""
    uid: int | None = None
    """The user of the root; None: not recorded."""
    pid_namespace: str = ""
    """In which the numbers hold; empty: not recorded."""

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> Self:
        """From the data of the stop step."""
        root = data["root"]
        return cls(
            data["boot_id"],
            tuple(root) if root else None,
            tuple((pid, start) for pid, start in data["processes"]),
            data.get("manager", ""),
            tuple(data.get("through", ())),
            data.get("command", ""),
            tuple(data.get("names", ())),
            data.get("newest"),
            data.get("may_return", False),
            tuple(data.get("manager_identity", ())),
            data.get("uid"),
            data.get("pid_namespace", ""),
        )

    def living(self, alive: Mapping[int, str]) -> tuple[Who, ...]:
        """Those of the record that the host has seen, each checked there against its start time."""
        return tuple(who for who in self.processes if who[0] in alive)


@dataclass(frozen=True)
class StopPolicy:
    """Time-outs in seconds, and the highest rung that may be climbed without asking anybody."""

    term_seconds: float
    kill_seconds: float
    by_itself: Rung = Rung.KILL


@dataclass(frozen=True)
class StopSeen:
    """``alive``: state letter by pid, of recorded processes that live. ``elapsed``: seconds since the last signal.

    ``confirmed``: rungs to which a person has agreed. ``through_node``: the host is a container.
    """

    alive: Mapping[int, str]
    rung: Rung
    elapsed: float
    confirmed: frozenset[Rung] = frozenset()
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
    """Climb to ``rung``: send its signal to ``targets``, each of them if it is still the same process."""

    rung: Rung
    targets: tuple[Who, ...]


@dataclass(frozen=True)
class Ask:
    """The policy wants a person before ``rung``."""

    rung: Rung


@dataclass(frozen=True)
class CannotBeKilled:
    """SIGKILL did not help ``left``: the GPU needs a reset or the host a reboot, by a person."""

    left: tuple[Who, ...]


Action = Gone | Wait | Signal | Ask | CannotBeKilled


def decide(record: Record, seen: StopSeen, policy: StopPolicy) -> Action:
    """The next action. Total: every state has one."""
    living = record.living(seen.alive)
    if not living:
        return Gone()
    if seen.rung == Rung.NONE:
        # Its own process ends its workers in order; without it, each that is left.
        return Signal(Rung.TERM, (record.root,) if record.root in living else living)
    limit = policy.term_seconds if seen.rung == Rung.TERM else policy.kill_seconds
    if seen.elapsed < limit:
        return Wait(limit - seen.elapsed)
    following = _following(seen, living)
    if following is None:
        return CannotBeKilled(living)
    if following.is_within(policy.by_itself) or following in seen.confirmed:
        return Signal(following, living)
    return Ask(following)


def _following(seen: StopSeen, living: tuple[Who, ...]) -> Rung | None:
    if seen.rung == Rung.TERM:
        return Rung.KILL
    # The node's SIGKILL is the same kernel's: it does not reach who waits inside of it.
    stuck = all(seen.alive[pid] == UNINTERRUPTIBLE for pid, _ in living)
    if seen.rung == Rung.KILL and seen.through_node and not stuck:
        return Rung.NODE_KILL
    return None
