"""How much of each card will be free when the job launches: what its own server holds now counts as free then. PURE."""

from __future__ import annotations

from collections.abc import Sequence

from deployments.decisions.verify import HolderSeen
from deployments.plan.cards import Card, Held, memory_on
from deployments.plan.fitting import Room
from deployments.plan.inputs import PlanInput
from deployments.plan.serving import Serving
from hosts.probe.facts import HostFacts
from hosts.probe.frames import Unknown
from hosts.probe.gpus import GpuReading


def rooms_of(
    asked: PlanInput, serving: Serving, others: Held | Unknown, seen_from: HostFacts
) -> tuple[Room, ...] | Unknown:
    """The deployment's cards as the launch will find them. ``seen_from``: the look that names the ``others``."""
    found = []
    for card in asked.cards:
        room = _room(asked, card, serving, others, seen_from)
        if isinstance(room, Unknown):
            return Unknown(f"{card.label}: {room.reason}")
        found.append(room)
    return tuple(found) if found else Unknown("The deployment has no card.")


def _room(
    asked: PlanInput, card: Card, serving: Serving, others: Held | Unknown, seen_from: HostFacts
) -> Room | Unknown:
    if isinstance(asked.facts.gpus, Unknown):
        return asked.facts.gpus
    reading = asked.facts.gpus.by_uuid(card.uuid)
    if isinstance(reading, Unknown):
        return reading
    if reading.mig:
        return Unknown("It is split into parts (MIG), and which of them the server gets is not worked out.")
    cells = (reading.memory_total, reading.memory_used, reading.memory_free)
    unread = next((cell for cell in cells if isinstance(cell, Unknown)), None)
    if unread is not None:
        return unread
    assert isinstance(reading.memory_total, int) and isinstance(reading.memory_free, int)
    free = _free(asked, card, reading, serving, others, seen_from)
    if isinstance(free, Unknown):
        return free
    mib, why = free
    return Room(card.uuid, card.label, reading.memory_total, max(0, mib), why)


def _free(
    asked: PlanInput, card: Card, reading: GpuReading, serving: Serving, others: Held | Unknown, seen_from: HostFacts
) -> tuple[int, str] | Unknown:
    """MiB, and how they come about."""
    assert isinstance(reading.memory_used, int) and isinstance(reading.memory_free, int)
    if not asked.stops or not serving.processes:
        return reading.memory_free, "as it is free now"
    whole = reading.memory_free + reading.memory_used - (card.baseline_mib or 0)
    if isinstance(others, Unknown):
        return whole, f"once {asked.deployment} is stopped, if nobody else holds it: who does is not known"
    beside = [holder for holder in (*others.all, *others.daemons) if card.label in holder.cards]
    if not beside:
        return whole, f"once {asked.deployment} is stopped"
    held = _held(beside, seen_from, card)
    if held is not None:
        return whole - held, f"once {asked.deployment} is stopped, beside others with {held:,} MiB"
    ours = memory_on(asked.facts, serving.pids, card.uuid)
    if ours is not None:
        return reading.memory_free + ours, f"once {asked.deployment} is stopped, which has {ours:,} MiB of it"
    return Unknown("Others hold it too, and how much of it is theirs is not told.")


def _held(holders: Sequence[HolderSeen], seen_from: HostFacts, card: Card) -> int | None:
    """MiB of these processes on the card together; None where the driver does not tell of each of them."""
    told = [memory_on(seen_from, [holder.pid], card.uuid) for holder in holders]
    known = [mib for mib in told if mib is not None]
    return sum(known) if len(known) == len(told) else None
