"""Are the cards free? Free, not free, or could not measure; never a guess. PURE.

A round is one reading of the memory with what the look around it has found of holders and port; a look reads the memory
up to three times. The verdict is *free* only after three good rounds in a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hosts.baseline import HEADLESS_CEILING_MIB

CLEAN_ROUNDS = 3
TOLERANCE_MIB = 64
"""MiB above its baseline with which a card counts as free, where its deployment does not say otherwise."""
STRANGER_SECONDS = 5.0
"""How long somebody else's process may hold a card before a person is asked: it may just be ending."""


@dataclass(frozen=True)
class CardSeen:
    """One card in one round. ``used_mib`` None: not measured, and ``reason`` says why.

    A ``shared`` card has co-tenants by the plan, so its memory in use says nothing: ``free_mib`` must be enough for
    what is launched, ``need_mib``, which is not asked of other cards. Either is None where it is not known.
    """

    uuid: str
    label: str
    used_mib: int | None
    limit_mib: int
    reason: str = ""
    shared: bool = False
    free_mib: int | None = None
    need_mib: int | None = None

    @property
    def is_free(self) -> bool:
        """At its baseline plus tolerance; beside co-tenants: room for what is launched. Unmeasured is not free."""
        if self.unmeasured:
            return False
        if self.shared:
            return self.free_mib is not None and self.need_mib is not None and self.free_mib >= self.need_mib
        return self.used_mib is not None and self.used_mib <= self.limit_mib

    @property
    def unmeasured(self) -> str:
        """Why nobody can say whether it is free; empty when that can be said."""
        if self.used_mib is None or (self.shared and self.free_mib is None):
            return self.reason or "not measured"
        if self.lacks_need:
            return "how much memory this revision needs there, beside the co-tenants, is not known"
        return ""

    @property
    def lacks_need(self) -> bool:
        """All of it was measured, but what is to be launched has no known need: waiting does not help."""
        measured = self.used_mib is not None and self.free_mib is not None
        return self.shared and measured and self.need_mib is None

    def has_no_room_for(self, need_mib: int | None) -> bool:
        """Is less free than that, both being known?"""
        return need_mib is not None and self.free_mib is not None and self.free_mib < need_mib

    @property
    def too_full(self) -> str:
        """What was measured that is in the way, as a sentence; empty when nothing is."""
        if self.unmeasured or self.is_free:
            return ""
        if self.shared:
            return (
                f"{self.label} has {self.free_mib:,} MiB free beside its co-tenants; {self.need_mib:,} MiB are needed."
            )
        return f"{self.label} still holds {self.used_mib:,} MiB (limit {self.limit_mib:,} MiB)."


@dataclass(frozen=True)
class HolderSeen:
    """A process that holds one of the cards, and is none of the deployment's: a stranger, co-tenant or daemon."""

    pid: int
    start_time: int
    name: str
    user: str
    cards: tuple[str, ...]
    deployment: str = ""
    """Whose server it is, when it is one that this panel has launched for another deployment."""
    inner: int = 0
    """Its pid as its own container sees it, where it was seen from the node; else 0."""

    @property
    def program(self) -> str:
        """The first word of its command, which may be blank."""
        return (self.name.split() or [self.name])[0]

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
    missing: tuple[str, ...] = ()
    """Co-tenants of the plan that hold their card no more."""
    unusable: tuple[str, ...] = ()
    """Why a card cannot be used, where a server is to be started on it."""

    @property
    def is_clean(self) -> bool:
        """Everything measured and good.

        Holders that we may not look for do not count against memory at its baseline: it covers the whole card. On a
        shared card it does not, so there they must be seen.
        """
        return (
            all(card.is_free for card in self.cards)
            and self.survivors == ()
            and not self.holders
            and not self.missing
            and self.port_free is True
            and not self.hides_holders
            and not self.unusable
        )

    @property
    def hides_holders(self) -> bool:
        """Nobody can say who holds a card that has co-tenants."""
        return self.holders is None and any(card.shared for card in self.cards)


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
    unusable: bool = False
    """Whether a card cannot be used, free or not."""


@dataclass(frozen=True)
class Unmeasured:
    """The limit has passed and something could not be measured."""

    reasons: tuple[str, ...]


Verdict = Free | KeepLooking | NotFree | Unmeasured


def decide(rounds: Sequence[Round], policy: VerifyPolicy, *, elapsed: float) -> Verdict:
    """The verdict on the rounds so far, ``elapsed`` seconds after the first.

    A stranger on the cards does not go away by waiting, and a card does not mend itself: that is reported after a few
    seconds. Memory without an owner
    is given longer, since drivers release late.
    """
    if len(rounds) >= CLEAN_ROUNDS and all(round_.is_clean for round_ in rounds[-CLEAN_ROUNDS:]):
        return Free()
    last = rounds[-1] if rounds else None
    if last is None:
        return KeepLooking(False) if elapsed < policy.memory_seconds else Unmeasured(("No reading has come back.",))
    if elapsed < _limit(last, policy):
        return KeepLooking(elapsed >= policy.memory_seconds)
    unknown, wrong = unmeasured(last), in_the_way(last)
    if wrong:
        return NotFree((*wrong, *unknown), bool(last.unusable))
    return Unmeasured(unknown) if unknown else KeepLooking(False)


def _limit(last: Round, policy: VerifyPolicy) -> float:
    if last.holders or last.missing or last.unusable:
        return min(policy.memory_seconds, STRANGER_SECONDS)
    if last.survivors:
        return policy.memory_seconds
    if any(card.too_full for card in last.cards):
        return policy.stuck_seconds
    if unmeasured(replace(last, cards=tuple(card for card in last.cards if not card.lacks_need))):
        return policy.memory_seconds
    if unmeasured(last):
        return min(policy.memory_seconds, STRANGER_SECONDS)
    return policy.port_seconds


@dataclass(frozen=True)
class Waiting:
    """What is waited for, in words, and until how many seconds after the first look."""

    what: str
    seconds: float


def waiting_for(last: Round, policy: VerifyPolicy) -> Waiting | None:
    """What a person should know who looks on; None when all is well, or when somebody is asked within seconds."""
    limit = _limit(last, policy)
    if last.is_clean or limit <= STRANGER_SECONDS:
        return None
    words = [
        f"room on {card.label}" if card.shared else f"{card.label} to release {card.used_mib:,} MiB"
        for card in last.cards
        if card.too_full
    ]
    words += ["the old server's processes to end"] if last.survivors else []
    words += ["the port to be free"] if last.port_free is False else []
    words += ["what could not be measured"] if unmeasured(last) else []
    return Waiting(" and ".join(words), limit)


def in_the_way(last: Round) -> tuple[str, ...]:
    """What was measured that is in the way, a sentence each."""
    reasons = [*last.unusable, *(card.too_full for card in last.cards if card.too_full)]
    reasons += [f"{holder} holds {', '.join(holder.cards)}." for holder in last.holders or ()]
    reasons += [f"{name} shared the cards when the plan was made, and does so no more." for name in last.missing]
    if last.survivors:
        reasons.append(f"Processes of the old server still live: {', '.join(map(str, last.survivors))}.")
    if last.port_free is False:
        reasons.append(last.port_note or "The port is still taken.")
    return tuple(reasons)


def unmeasured(last: Round) -> tuple[str, ...]:
    """What could not be measured though a verdict needs it, a sentence each."""
    reasons = [f"{card.label}: {card.unmeasured}" for card in last.cards if card.unmeasured]
    if last.hides_holders:
        reasons.append(f"Who holds the cards beside the co-tenants is not known. {last.holders_note}".strip())
    if last.survivors is None:
        reasons.append("Whether the old server's processes live could not be measured.")
    if last.port_free is None:
        reasons.append(last.port_note or "Whether the port is free could not be measured.")
    return tuple(reasons)


def limit_for(
    baseline_mib: int | None, *, tolerance_mib: int = TOLERANCE_MIB, ceiling_mib: int = HEADLESS_CEILING_MIB
) -> int:
    """The limit of a card in MiB: baseline plus tolerance; without a baseline, what a card like it may use when idle.

    ``ceiling_mib``: the highest baseline that is learnt without a person.
    """
    return ceiling_mib if baseline_mib is None else baseline_mib + tolerance_mib
