"""The deployment's cards in one look: their memory, and who else holds them. PURE."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from deployments.decisions.verify import TOLERANCE_MIB, CardSeen, HolderSeen, limit_for
from deployments.plan.marks import launch_of
from deployments.plan.sharing import Rules
from deployments.plan.words import command_of, user_of
from hosts.baseline import HEADLESS_CEILING_MIB
from hosts.probe.facts import HostFacts
from hosts.probe.frames import NOT_ASKED, Unknown
from hosts.probe.gpus import AppList
from hosts.probe.holders import DAEMONS, HOUSEKEEPERS, Holder, OpenFiles
from hosts.probe.processes import Process, ProcessTable

CARDS_VARIABLE = "CUDA_VISIBLE_DEVICES"
MINORS = range(256)
"""The N that /dev/nvidiaN can have."""
NO_LAUNCHES: Mapping[str, str] = MappingProxyType({})
NO_SHARING = Rules()
MAX_ANCESTORS = 64
HIDDEN = Unknown(
    "This login may not see the files of other users' processes. Log in as root, or let the login use sudo without a "
    "password and tick “Use sudo where root is needed” on the host's page."
)


@dataclass(frozen=True)
class Card:
    """A card as the panel knows it; memory in MiB.

    ``need_mib``: what the server to be launched needs there, None where that is not known; it counts only beside
    co-tenants.
    """

    uuid: str
    label: str
    baseline_mib: int | None
    ceiling_mib: int = HEADLESS_CEILING_MIB
    tolerance_mib: int = TOLERANCE_MIB
    need_mib: int | None = None

    @property
    def limit_mib(self) -> int:
        """Memory in use with which it counts as free."""
        return limit_for(self.baseline_mib, tolerance_mib=self.tolerance_mib, ceiling_mib=self.ceiling_mib)


@dataclass(frozen=True)
class Claim:
    """A server that was launched to use ``cards`` (in words), by its identity: whether it lives the host must tell."""

    deployment: str
    boot_id: str
    pid_namespace: str
    pid: int
    start_time: int
    cards: tuple[str, ...]


@dataclass(frozen=True)
class Held:
    """Who holds the cards beside the deployment itself: those that its rules allow, and everybody else."""

    strangers: tuple[HolderSeen, ...]
    co_tenants: tuple[HolderSeen, ...] = ()
    daemons: tuple[HolderSeen, ...] = ()
    """The machine's own, named by what they are for. Not among ``all``: only their memory may be in the way."""

    @property
    def all(self) -> tuple[HolderSeen, ...]:
        """The first two."""
        return (*self.strangers, *self.co_tenants)


def with_claims(held: Held, facts: HostFacts, claims: Sequence[Claim]) -> Held:
    """With the servers that live and are to use the cards, though they hold none so far: they load, or import.

    A claim is of its own pid namespace: a node knows those of its containers when they hold a card.
    """
    if isinstance(facts.host, Unknown) or isinstance(facts.processes, Unknown):
        return held
    table, known = facts.processes, {(holder.pid, holder.start_time) for holder in held.all}
    known |= {(holder.inner, holder.start_time) for holder in held.all if holder.inner}
    loading = []
    for claim in claims:
        process = table.by_pid.get(claim.pid)
        here = claim.boot_id == facts.host.boot_id and claim.pid_namespace in ("", facts.host.pid_namespace)
        if not here or process is None or process.start_time != claim.start_time or process.is_dead_zombie:
            continue
        if {(each.pid, each.start_time) for each in table.tree(claim.pid)} & known:
            continue
        name = command_of(process, facts.details.get(process.pid))
        who = (process.pid, process.start_time, name, user_of(process.uid))
        loading.append(HolderSeen(*who, claim.cards, claim.deployment))
    return replace(held, strangers=(*held.strangers, *loading)) if loading else held


def cards_seen(facts: HostFacts, cards: Sequence[Card], *, shared: Collection[str] = ()) -> tuple[CardSeen, ...]:
    """Each of the deployment's cards with its limit; one that was not read has a reason instead of a number.

    ``shared``: uuids of those that have co-tenants by the plan.
    """
    return tuple(_card_seen(facts, card, shared=card.uuid in shared) for card in cards)


def _card_seen(facts: HostFacts, card: Card, *, shared: bool) -> CardSeen:
    used, free = _memory(facts, card.uuid)
    reasons = [cell.reason for cell in (used, *([free] if shared else [])) if isinstance(cell, Unknown)]
    return CardSeen(
        card.uuid,
        card.label,
        None if isinstance(used, Unknown) else used,
        card.limit_mib,
        " ".join(dict.fromkeys(reasons)),
        shared,
        None if isinstance(free, Unknown) else free,
        card.need_mib if shared else None,
    )


def _memory(facts: HostFacts, uuid: str) -> tuple[int | Unknown, int | Unknown]:
    """In use, and free."""
    if isinstance(facts.gpus, Unknown):
        return facts.gpus, facts.gpus
    reading = facts.gpus.by_uuid(uuid)
    if isinstance(reading, Unknown):
        return reading, reading
    return reading.memory_used, reading.memory_free


def holders(
    facts: HostFacts,
    *,
    labels: Mapping[str, str],
    ours: Collection[tuple[int, int]] = (),
    rules: Rules = NO_SHARING,
    launches: Mapping[str, str] = NO_LAUNCHES,
) -> Held | Unknown:
    """Processes that hold one of the cards of ``labels`` and are not ``ours``.

    The driver's and the machine's own services keep the cards open for ever: they are no strangers. That nobody
    was found is Unknown where this login may not look at everybody's files.

    ``ours``: (pid, start time) as the deployment's own host sees them. When ``facts`` is the node's look, that is the
    second of a process's pids: the container's, whatever runs containers in it. ``launches``: launch -> deployment, of
    the servers that the panel has started for others.
    """
    if isinstance(facts.files, Unknown):
        return facts.files
    if isinstance(facts.processes, Unknown):
        return facts.processes
    names = names_of_files(facts, labels)
    on_node, logs = _on_node(ours, facts, facts.processes), launch_of(facts, launches)
    strangers: list[HolderSeen] = []
    co_tenants: list[HolderSeen] = []
    daemons: list[HolderSeen] = []
    for pid, held in _held(facts, facts.files, labels, names):
        process = facts.processes.by_pid.get(pid)
        if not held or process is None or process.is_dead_zombie:
            continue
        if process.comm in HOUSEKEEPERS:
            daemons += _daemon(facts, process, held)
            continue
        seen = _holder(facts, process, held, deployment=deployment_of(process, facts.processes, logs, launches))
        if (process.pid, process.start_time) in ours or process.pid in on_node:
            continue
        users = {facts.owners.get(process.pid, ""), "" if process.uid is None else str(process.uid)} - {""}
        users |= {"root"} if process.uid == 0 else set()
        allowed = rules.allow(deployment=seen.deployment, users=users, program=process.comm)
        if process.comm in DAEMONS and not allowed:
            daemons += _daemon(facts, process, held)
        else:
            (co_tenants if allowed else strangers).append(seen)
    if facts.files.partial and not strangers:
        return HIDDEN
    return Held(tuple(strangers), tuple(co_tenants), tuple(daemons))


def _held(
    facts: HostFacts, files: OpenFiles, labels: Mapping[str, str], names: Mapping[int, str]
) -> list[tuple[int, list[str]]]:
    """pid -> the cards that it holds, in words, by its open files and by the driver's word.

    A driver before 535.104 tells the node's numbers in a container too, where they are others' processes: then it does
    not know their names either, and is not believed.
    """
    held = {holder.pid: {names[minor] for minor in holder.cards if minor in names} for holder in files.holders}
    for app in () if isinstance(facts.apps, Unknown) else facts.apps.apps:
        if app.gpu_uuid in labels and app.name and not app.name.startswith("["):
            held.setdefault(app.pid, set()).add(labels[app.gpu_uuid])
    return [(pid, sorted(cards)) for pid, cards in sorted(held.items())]


def with_those_of(first: HostFacts, facts: HostFacts) -> HostFacts:
    """A later look of a loop with the holders that only its first one asked for, as far as they are still there.

    Such a one may have let go of the card without ending: a new first look tells.
    """
    if first is facts or isinstance(first.processes, Unknown) or isinstance(facts.processes, Unknown):
        return facts
    then, now = first.processes.by_pid, facts.processes.by_pid
    same = {pid for pid in now if pid in then and now[pid].start_time == then[pid].start_time}
    if isinstance(first.apps, AppList) and facts.apps is NOT_ASKED:
        facts = replace(facts, apps=replace(first.apps, apps=tuple(a for a in first.apps.apps if a.pid in same)))
    if isinstance(first.files, OpenFiles) and isinstance(facts.files, OpenFiles):
        found = {holder.pid: holder.devices for holder in facts.files.holders}
        for holder in first.files.apart:
            if holder.pid in same:
                found[holder.pid] = found.get(holder.pid, frozenset()) | holder.devices
        holders = tuple(Holder(pid, devices) for pid, devices in sorted(found.items()))
        facts = replace(facts, files=replace(facts.files, holders=holders))
    return facts


def _daemon(facts: HostFacts, process: Process, held: Sequence[str]) -> list[HolderSeen]:
    """Named by what it is for; nvidia-smi, which may be our own question, is not worth a word."""
    if process.comm not in DAEMONS:
        return []
    seen = _holder(facts, process, held, deployment="")
    return [replace(seen, name=f"{process.comm}, {DAEMONS[process.comm]}")]


def _holder(facts: HostFacts, process: Process, held: Sequence[str], *, deployment: str) -> HolderSeen:
    detail = facts.details.get(process.pid)
    inner = detail.pids[1] if detail is not None and len(detail.pids) > 1 else 0
    user = facts.owners.get(process.pid) or user_of(process.uid)
    name = command_of(process, detail)
    return HolderSeen(process.pid, process.start_time, name, user, tuple(held), deployment, inner)


def deployment_of(process: Process, table: ProcessTable, logs: Mapping[int, str], launches: Mapping[str, str]) -> str:
    """Whose server it is: its own log's or that of the nearest process above it, which no stranger can choose.

    ``logs``: pid -> the launch to whose log it writes, as far as that is to be believed.
    """
    above: Process | None = process
    for _ in range(MAX_ANCESTORS):
        if above is None or above.pid <= 1:
            return ""
        if above.pid in logs:
            return launches.get(logs[above.pid], "")
        above = table.by_pid.get(above.parent)
    return ""


def pids_inside(facts: HostFacts) -> dict[tuple[int, int], int] | Unknown:
    """(pid in its container, start time) -> pid on the node, from the node's look. For containers of this node.

    Two containers may each have a process of that number that started in the same tick: these are left out.
    """
    if isinstance(facts.processes, Unknown):
        return facts.processes
    if isinstance(facts.nspids, Unknown):
        return facts.nspids
    return _by_inner(facts.nspids, facts.processes)


def _by_inner(chains: Mapping[int, Sequence[int]], table: ProcessTable) -> dict[tuple[int, int], int]:
    """As ``pids_inside``; ``chains``: all pids of a process, from the node's to its own."""
    found: dict[tuple[int, int], list[int]] = {}
    for pid, chain in chains.items():
        if len(chain) > 1 and pid in table.by_pid:
            found.setdefault((chain[1], table.by_pid[pid].start_time), []).append(pid)
    return {inner: pids[0] for inner, pids in found.items() if len(pids) == 1}


def _on_node(ours: Collection[tuple[int, int]], facts: HostFacts, table: ProcessTable) -> set[int]:
    """The pids of ``ours`` in the node's look, where they are a container's; whoever may be another's is left out."""
    if not ours:
        return set()
    details = {pid: detail.pids for pid, detail in facts.details.items()}
    inside = _by_inner(details if isinstance(facts.nspids, Unknown) else facts.nspids, table)
    return {inside[who] for who in ours if who in inside}


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


def memory_on(facts: HostFacts, pids: Collection[int], uuid: str) -> int | None:
    """MiB of one card that compute-apps attributes to these pids; None where it tells nothing of them there."""
    if isinstance(facts.apps, Unknown):
        return None
    known = [app.memory_used for app in facts.apps.apps if app.pid in pids and app.gpu_uuid == uuid]
    told = [memory for memory in known if isinstance(memory, int)]
    return sum(told) if told and len(told) == len(known) else None


def memory_of(facts: HostFacts, pids: Collection[int]) -> dict[int, int]:
    """MiB that compute-apps attributes to each of these pids."""
    total: dict[int, int] = {}
    if isinstance(facts.apps, Unknown):
        return total
    for app in facts.apps.apps:
        if app.pid in pids and isinstance(app.memory_used, int):
            total[app.pid] = total.get(app.pid, 0) + app.memory_used
    return total
