"""The deployment's cards in one look: their memory, and who else holds them. PURE."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from deployments.decisions.verify import CardSeen, HolderSeen, limit_for
from hosts.probe.facts import HostFacts
from hosts.probe.frames import Unknown
from hosts.probe.holders import HOUSEKEEPERS

CARDS_VARIABLE = "CUDA_VISIBLE_DEVICES"
MINORS = range(256)
"""The N that /dev/nvidiaN can have."""
NO_LAUNCHES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Card:
    """A card as the panel knows it; memory in MiB."""

    uuid: str
    label: str
    baseline_mib: int | None


def cards_seen(facts: HostFacts, cards: Sequence[Card]) -> tuple[CardSeen, ...]:
    """Each of the deployment's cards with its limit; one that was not read has a reason instead of a number."""
    seen = []
    for card in cards:
        used, reason = _used(facts, card.uuid)
        seen.append(CardSeen(card.uuid, card.label, used, limit_for(card.baseline_mib), reason))
    return tuple(seen)


def _used(facts: HostFacts, uuid: str) -> tuple[int | None, str]:
    if isinstance(facts.gpus, Unknown):
        return None, facts.gpus.reason
    reading = next((gpu for gpu in facts.gpus.gpus if gpu.uuid == uuid), None)
    if reading is None:
        return None, " ".join(facts.gpus.faults) or "nvidia-smi does not list this card."
    if isinstance(reading.memory_used, Unknown):
        return None, reading.memory_used.reason
    return reading.memory_used, ""


def holders(
    facts: HostFacts,
    *,
    labels: Mapping[str, str],
    ours: Collection[tuple[int, int]] = (),
    co_tenants: Collection[str] = (),
    launches: Mapping[str, str] = NO_LAUNCHES,
) -> tuple[HolderSeen, ...] | Unknown:
    """Processes that hold one of the cards of ``labels`` and are neither ``ours`` nor allowed co-tenants.

    The driver's own services keep the cards open for ever without using their memory: they do not count.

    ``ours``: (pid, start time) as the deployment's own host sees them. When ``facts`` is the node's look, that is the
    second of a process's pids: the container's, whatever runs containers in it. ``launches``: launch -> deployment, of
    the servers that the panel has started for others.
    """
    if isinstance(facts.files, Unknown):
        return facts.files
    if isinstance(facts.processes, Unknown):
        return facts.processes
    launch_of = dict(facts.files.launches)  # by the log they write to, which no process of another user can
    names = names_of_files(facts, labels)
    found = []
    for holder in facts.files.holders:
        held = sorted(names[minor] for minor in holder.cards if minor in names)
        process = facts.processes.by_pid.get(holder.pid)
        if not held or process is None or process.is_dead_zombie:
            continue
        detail = facts.details.get(holder.pid)
        inner = detail.pids[1] if detail is not None and len(detail.pids) > 1 else holder.pid
        mine = (holder.pid, process.start_time) in ours or (inner, process.start_time) in ours
        if mine or process.comm in co_tenants or process.comm in HOUSEKEEPERS:
            continue
        name = (detail.command if detail is not None else "") or process.comm
        user = "" if process.uid is None else "root" if process.uid == 0 else f"uid {process.uid}"
        deployment = launches.get(launch_of.get(holder.pid, ""), "")
        found.append(HolderSeen(holder.pid, process.start_time, name[:200], user, tuple(held), deployment))
    return tuple(found)


def pids_inside(facts: HostFacts) -> dict[tuple[int, int], int] | Unknown:
    """(pid in its container, start time) -> pid on the node, from the node's look. For containers of this node."""
    if isinstance(facts.processes, Unknown):
        return facts.processes
    if isinstance(facts.nspids, Unknown):
        return facts.nspids
    known = facts.processes.by_pid
    return {
        (chain[1], known[pid].start_time): pid for pid, chain in facts.nspids.items() if len(chain) > 1 and pid in known
    }


def labels_of(cards: Sequence[Card]) -> dict[str, str]:
    """uuid -> words for the card, the same on every page, whoever was asked about it."""
    return {card.uuid: card.label for card in cards}


def names_of_files(facts: HostFacts, labels: Mapping[str, str]) -> dict[int, str]:
    """N of /dev/nvidiaN -> words for the card, for those of ``labels`` (uuid -> words).

    A card whose file is not known may be behind any file that is not known to be another card's; where neither the
    kernel nor the driver tells, that is any file at all. So a holder is named once too often rather than missed.
    """
    minors = dict(facts.device_files.by_uuid)  # the kernel's word, which stands when nvidia-smi fails
    if not isinstance(facts.gpus, Unknown):
        told = {gpu.uuid: facts.device_files.minor_of(gpu, facts.gpus) for gpu in facts.gpus.gpus}
        minors |= {uuid: minor for uuid, minor in told.items() if minor is not None}
    found = {minors[uuid]: label for uuid, label in labels.items() if uuid in minors}
    if set(labels) - set(minors):
        others = {minor for uuid, minor in minors.items() if uuid not in labels}
        found = {minor: f"/dev/nvidia{minor}" for minor in MINORS if minor not in others} | found
    return found


def cards_named(facts: HostFacts, value: str) -> set[str] | None:
    """The uuids that a CUDA_VISIBLE_DEVICES names: indices, or uuids that may be cut short.

    As in CUDA, the list ends at the first entry that names no card, so it may be empty. None where that cannot be told.
    """
    if isinstance(facts.gpus, Unknown):
        return None
    found: set[str] = set()
    for entry in filter(None, (word.strip() for word in value.split(","))):
        if entry.isdecimal():
            matching = [gpu.uuid for gpu in facts.gpus.gpus if gpu.index == int(entry)]
        else:
            matching = [gpu.uuid for gpu in facts.gpus.gpus if gpu.uuid.startswith(entry)]
        if len(matching) != 1:
            break
        found.add(matching[0])
    return found


def memory_of(facts: HostFacts, pids: Collection[int]) -> dict[int, int]:
    """MiB that compute-apps attributes to each of these pids."""
    total: dict[int, int] = {}
    if isinstance(facts.apps, Unknown):
        return total
    for app in facts.apps.apps:
        if app.pid in pids and isinstance(app.memory_used, int):
            total[app.pid] = total.get(app.pid, 0) + app.memory_used
    return total
