"""Are the cards free? Free, not free, or could not measure; never a guess. PURE.

A round is one look at everything. The verdict is *free* only after three good rounds in a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

CLEAN_ROUNDS = 3
HEADLESS_CEILING_MIB = 64
TOLERANCE_MIB = 64
STRANGER_SECONDS = 5.0
"""How long somebody else's process may hold a card before a person is asked: it may just be ending."""


@dataclass(frozen=True)
class CardSeen:
    """One card in one round. ``used_mib`` None: not measured, and ``reason`` says why."""

    uuid: str
    label: str
    used_mib: int | None
    limit_mib: int
    reason: str = ""

    @property
    def is_free(self) -> bool:
        """At its baseline plus tolerance. What was not measured is not free."""
        return self.used_mib is not None and self.used_mib <= self.limit_mib


@dataclass(frozen=True)
class HolderSeen:
    """A process that holds one of the cards and is no allowed co-tenant."""

    pid: int
    start_time: int
    name: str
    user: str
    cards: tuple[str, ...]
    deployment: str = ""
    """Whose server it is, when it is one that this panel has launched for another deployment."""

    def __str__(self) -> str:
        facts = [f"pid {self.pid}", self.user, f"of deployment {self.deployment}" if self.deployment else ""]
        return f"{self.name} ({', '.join(filter(None, facts))})"


@dataclass(frozen=True)
class Round:
    """One look. ``None`` means: could not be measured."""

    cards: tuple[CardSeen, ...]
    survivors: tuple[int, ...] | None
    holders: tuple[HolderSeen, ...] | None
    port_free: bool | None
    holders_note: str = ""
    port_note: str = ""
    """Who has the port, why it could not be measured, or what to know of a free one: a sentence."""

    @property
    def is_clean(self) -> bool:
        """Everything measured and good. Holders that we may not look for do not count against free memory."""
        return (
            all(card.is_free for card in self.cards)
            and self.survivors == ()
            and not self.holders
            and self.port_free is True
        )


@dataclass(frozen=True)
class VerifyPolicy:
    """Limits in seconds: when to say that memory is slow, when to call it stuck, how long a port may linger."""

    memory_seconds: float
    stuck_seconds: float
    port_seconds: float


@dataclass(frozen=True)
class Free:
    """Three clean rounds in a row."""


@dataclass(frozen=True)
class KeepLooking:
    """Not yet; ``late`` when the usual time has passed."""

    late: bool


@dataclass(frozen=True)
class NotFree:
    """The limit has passed and something was measured that is in the way."""

    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Unmeasured:
    """The limit has passed and something could not be measured."""

    reasons: tuple[str, ...]


Verdict = Free | KeepLooking | NotFree | Unmeasured


def decide(rounds: Sequence[Round], policy: VerifyPolicy, *, elapsed: float) -> Verdict:
    """The verdict on the rounds so far, ``elapsed`` seconds after the first.

    A stranger on the cards does not go away by waiting: it is reported after a few seconds. Memory without an owner
    is given longer, since drivers release late.
    """
    if len(rounds) >= CLEAN_ROUNDS and all(round_.is_clean for round_ in rounds[-CLEAN_ROUNDS:]):
        return Free()
    last = rounds[-1] if rounds else None
    if last is None:
        return KeepLooking(False) if elapsed < policy.memory_seconds else Unmeasured(("No reading has come back.",))
    if elapsed < _limit(last, policy):
        return KeepLooking(elapsed >= policy.memory_seconds)
    unmeasured = _unmeasured(last)
    in_the_way = _in_the_way(last)
    if in_the_way:
        return NotFree((*in_the_way, *unmeasured))
    return Unmeasured(unmeasured) if unmeasured else KeepLooking(False)


def _limit(last: Round, policy: VerifyPolicy) -> float:
    if last.holders:
        return min(policy.memory_seconds, STRANGER_SECONDS)
    if last.survivors:
        return policy.memory_seconds
    if any(card.used_mib is not None and not card.is_free for card in last.cards):
        return policy.stuck_seconds
    if _unmeasured(last):
        return policy.memory_seconds
    return policy.port_seconds


def _in_the_way(last: Round) -> tuple[str, ...]:
    reasons = [
        f"{card.label} still holds {card.used_mib:,} MiB (limit {card.limit_mib:,} MiB)."
        for card in last.cards
        if card.used_mib is not None and not card.is_free
    ]
    reasons += [f"{holder} holds {', '.join(holder.cards)}." for holder in last.holders or ()]
    if last.survivors:
        reasons.append(f"Processes of the old server still live: {', '.join(map(str, last.survivors))}.")
    if last.port_free is False:
        reasons.append(last.port_note or "The port is still taken.")
    return tuple(reasons)


def _unmeasured(last: Round) -> tuple[str, ...]:
    reasons = [f"{card.label}: {card.reason or 'not measured'}" for card in last.cards if card.used_mib is None]
    if last.survivors is None:
        reasons.append("Whether the old server's processes live could not be measured.")
    if last.port_free is None:
        reasons.append(last.port_note or "Whether the port is free could not be measured.")
    return tuple(reasons)


def limit_for(baseline_mib: int | None) -> int:
    """The limit of a card in MiB: baseline plus tolerance; without a baseline, what an idle headless card may use."""
    return HEADLESS_CEILING_MIB if baseline_mib is None else baseline_mib + TOLERANCE_MIB
