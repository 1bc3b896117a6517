"""Of those in the way: whom a confirmed kill may hit, and whom a person may agree to instead. PURE.

Two looks stand behind the question: the last round of verify, and one more that asks for command lines. Only who holds
a card in both, and is named in the question, may get a signal.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from deployments.decisions.stop_ladder import Who
from deployments.decisions.verify import HolderSeen
from hosts.probe.frames import Unknown

NO_BOOT = (
    "Nobody is offered to be killed: the host did not tell which boot it is in, and without that a process cannot be "
    "known again. Look again."
)


FROM_NODE = (
    "Whoever has a number of the node only is not offered to be killed: it may belong to another container or to the "
    "node itself. Ask its owner, or end it there by hand, then look again."
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
class Inside:
    """What a container sees itself, beside the second look from its node.

    ``strangers``: its own, under the numbers that it signals them by. ``on_node``: (pid in a container, start time) ->
    pid on the node.
    """

    strangers: tuple[HolderSeen, ...]
    on_node: Mapping[Who, int]


@dataclass(frozen=True)
class KillOffer:
    """``named`` are shown; ``killable``, always some of these, get the signal if a person says so.

    In a container those named have the node's numbers, the killable its own; ``own`` tells these by those.

    ``found``: the co-tenants of now, to be agreed to; None when they are those of the plan or not the only ones there.
    ``why_not``: why nobody is offered to be killed, where that needs a word.
    """

    named: tuple[HolderSeen, ...]
    killable: tuple[HolderSeen, ...] = ()
    found: tuple[HolderSeen, ...] | None = None
    why_not: str = ""
    own: Mapping[int, int] = field(default_factory=dict)


def kill_offer(
    last: Sequence[HolderSeen],
    again: Again | Unknown,
    *,
    spared: Collection[int] = (),
    boot_id: str,
    inside: Inside | None = None,
) -> KillOffer:
    """``last``: who was in the way in the last round. ``spared``: pids that get no signal, whatever a person answers.

    ``inside``: the host is a container, and the second look is its node's: who is not its own as well is not offered.
    """
    if isinstance(again, Unknown):
        return KillOffer(tuple(last))
    before = {_who(holder) for holder in last}
    named = tuple(holder for holder in (*again.strangers, *again.co_tenants) if _who(holder) not in again.planned)
    found = _to_be_agreed_to(again)
    strangers = {_who(holder) for holder in again.strangers}
    if inside is not None:
        return _in_container(before, named, strangers, found, inside, spared=spared, boot_id=boot_id)
    if before:
        named = tuple(holder for holder in named if _who(holder) in before)
    killable = tuple(holder for holder in named if _who(holder) in before & strangers and holder.pid not in spared)
    if killable and not boot_id:
        return KillOffer(named, found=found, why_not=NO_BOOT)
    return KillOffer(named, killable, found)


def _in_container(
    before: Collection[Who],
    named: tuple[HolderSeen, ...],
    strangers: Collection[Who],
    found: tuple[HolderSeen, ...] | None,
    inside: Inside,
    *,
    spared: Collection[int],
    boot_id: str,
) -> KillOffer:
    """Of those that the node calls strangers, the container's own that it has seen twice itself.

    The container's word on who may share the cards does not count: it knows other users by the same numbers.
    """
    own = {inside.on_node[_who(holder)]: holder for holder in inside.strangers if _who(holder) in inside.on_node}
    killable = tuple(
        own[holder.pid]
        for holder in named
        if holder.pid in own
        and _who(holder) in strangers
        and _who(own[holder.pid]) in before
        and own[holder.pid].pid not in spared
    )
    foreign = found is None and any(holder.pid not in own for holder in named)
    why_not = [NO_BOOT if killable and not boot_id else "", FROM_NODE if foreign else ""]
    numbers = {holder.pid: own[holder.pid].pid for holder in named if holder.pid in own}
    return KillOffer(named, killable if boot_id else (), found, " ".join(filter(None, why_not)), numbers)


def _to_be_agreed_to(again: Again) -> tuple[HolderSeen, ...] | None:
    if again.strangers:
        return None
    others = any(_who(holder) not in again.planned for holder in again.co_tenants)
    return again.co_tenants if others or again.lacks_one else None


def _who(holder: HolderSeen) -> Who:
    return holder.pid, holder.start_time
