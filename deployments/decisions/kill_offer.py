"""Of those in the way: whom a confirmed kill may hit, and whom a person may agree to instead. PURE.

Two looks stand behind the question: the last round of verify, and one more that asks for command lines. Only who holds
a card in both, and is named in the question, may get a signal.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from deployments.decisions.stop_ladder import Who
from deployments.decisions.verify import HolderSeen
from hosts.probe.frames import Unknown

NO_BOOT = (
    "Nobody is offered to be killed: the host did not tell which boot it is in, and without that a process cannot be "
    "known again. Look again."
)


FROM_NODE = (
    "Nobody is offered to be killed: these were seen on the node under its numbers, and may belong to another "
    "container or to the node itself. Ask their owner, or end them there by hand, then look again."
)


@dataclass(frozen=True)
class Again:
    """The second look at who holds the cards, where the cards are: on the node of a container.

    ``planned``: of those that may share the cards, the very ones of the plan. ``lacks_one``: another one of the plan's
    does so no more.
    """

    strangers: tuple[HolderSeen, ...]
    co_tenants: tuple[HolderSeen, ...] = ()
    planned: frozenset[Who] = frozenset()
    lacks_one: bool = False


@dataclass(frozen=True)
class KillOffer:
    """``named`` are shown; ``killable``, always some of these, get the signal if a person says so.

    ``found``: the co-tenants of now, to be agreed to; None when they are those of the plan or not the only ones there.
    ``why_not``: why nobody is offered to be killed, where that needs a word.
    """

    named: tuple[HolderSeen, ...]
    killable: tuple[HolderSeen, ...] = ()
    found: tuple[HolderSeen, ...] | None = None
    why_not: str = ""


def kill_offer(
    last: Sequence[HolderSeen],
    again: Again | Unknown,
    *,
    spared: Collection[int] = (),
    boot_id: str,
    from_node: bool = False,
) -> KillOffer:
    """``last``: who was in the way in the last round. ``spared``: pids that get no signal, whatever a person answers.

    ``from_node``: the host is a container, whose pids are not those of the second look: nobody is offered there.
    """
    if isinstance(again, Unknown):
        return KillOffer(tuple(last))
    before = {_who(holder) for holder in last}
    named = tuple(holder for holder in (*again.strangers, *again.co_tenants) if _who(holder) not in again.planned)
    found = _to_be_agreed_to(again)
    if from_node:
        return KillOffer(named, found=found, why_not=FROM_NODE if again.strangers and named else "")
    if before:
        named = tuple(holder for holder in named if _who(holder) in before)
    strangers = {_who(holder) for holder in again.strangers}
    killable = tuple(holder for holder in named if _who(holder) in before & strangers and holder.pid not in spared)
    if killable and not boot_id:
        return KillOffer(named, found=found, why_not=NO_BOOT)
    return KillOffer(named, killable, found)


def _to_be_agreed_to(again: Again) -> tuple[HolderSeen, ...] | None:
    if again.strangers:
        return None
    others = any(_who(holder) not in again.planned for holder in again.co_tenants)
    return again.co_tenants if others or again.lacks_one else None


def _who(holder: HolderSeen) -> Who:
    return holder.pid, holder.start_time
