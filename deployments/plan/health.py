"""What one look at a host, and one at its node, say of whether the cards can be used. PURE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from deployments.decisions.usable import RECENT_SECONDS, CardFault, CardUsable, Condition, judge
from deployments.plan.cards import Card, memory_on
from hosts.probe.facts import HostFacts
from hosts.probe.frames import NOT_ASKED, Unknown
from hosts.probe.gpus import GpuReading
from hosts.probe.health import KernelLog, bus_of
from hosts.probe.holders import HOUSEKEEPERS
from hosts.probe.processes import CLOCK_TICKS

CONTROL_FILES = ("/dev/nvidiactl", "/dev/nvidia-uvm")
"""What every program that uses a card opens besides the card's own file."""
FABRIC_MANAGER = "nv-fabricmanager"[:15]
"""As the kernel cuts names."""
KERNEL_THREADS = "kthreadd"
"""Process 2 of a machine, root's. It shows neither in a container nor, to others, where /proc is mounted with hidepid
(proc(5)); whoever does not see it may not see the fabric manager either."""


def cards_usable(
    facts: HostFacts,
    outer: HostFacts | None,
    cards: Sequence[Card],
    *,
    host: str,
    machine: str,
    since: datetime | None = None,
) -> tuple[CardUsable, ...]:
    """The verdict on each card.

    ``facts``: of the deployment's own host, whose device files count. ``outer``: of the machine that has the cards,
    whose kernel and fabric manager count; the same for a plain host, None for a container whose node has not been
    asked. ``since``: faults in the kernel's log that are older have been judged before. What showed then that a card
    works after one of them, as the server that is stopped by now, is not there any more.
    """
    container = host if host != machine else ""
    seen = (_condition(facts, outer, card, machine=machine, container=container) for card in cards)
    return tuple(judge(_news(card, (outer or facts).measured_at, since)) for card in seen)


def _news(seen: Condition, now: datetime, since: datetime | None) -> Condition:
    """Without the faults before ``since``."""
    if seen.faults is None or since is None:
        return seen
    age = (now - since).total_seconds()
    return replace(seen, faults=tuple(fault for fault in seen.faults if fault.age <= age))


def _condition(facts: HostFacts, outer: HostFacts | None, card: Card, *, machine: str, container: str) -> Condition:
    seen = _reading(facts, Condition(card.uuid, card.label, machine, listed=None, container=container))
    seen = replace(seen, missing_files=_missing_files(facts, card))
    if outer is None:
        return replace(seen, faults=None)
    if outer is not facts and seen.listed is not False:
        seen = _reading(outer, seen)
    log = facts.kernel if isinstance(outer.kernel, Unknown) else outer.kernel  # a container may share its node's
    faults, note = _faults(outer, log, card)
    return replace(seen, faults=faults, log_note=note, manager_missing=_manager_missing(outer))


def _reading(facts: HostFacts, seen: Condition) -> Condition:
    """With what the driver says of the card, asked there."""
    if isinstance(facts.gpus, Unknown):
        sure = facts.gpus.reason
        return replace(seen, listed=None if facts.gpus is NOT_ASKED else False, said=(sure,))
    gpu = _gpu(facts, seen.uuid)
    if gpu is None:
        return replace(seen, listed=False, said=facts.gpus.faults)
    return replace(
        seen,
        listed=True,
        said=(),
        needs=None if isinstance(gpu.recovery, Unknown) else gpu.recovery,
        sure_of_none=gpu.tells_recovery,
        fabric_state=gpu.fabric_state,
        fabric_status=gpu.fabric_status,
    )


def _gpu(facts: HostFacts, uuid: str) -> GpuReading | None:
    reading = facts.gpus if isinstance(facts.gpus, Unknown) else facts.gpus.by_uuid(uuid)
    return None if isinstance(reading, Unknown) else reading


def _minor(facts: HostFacts, card: Card) -> int | None:
    """The N of the card's /dev/nvidiaN; None where that cannot be told."""
    gpu = _gpu(facts, card.uuid)
    if gpu is None or isinstance(facts.gpus, Unknown):
        return facts.device_files.by_uuid.get(card.uuid)
    return facts.device_files.minor_of(gpu, facts.gpus)


def _missing_files(facts: HostFacts, card: Card) -> tuple[str, ...]:
    """Those of the device files that a program opens for this card. The driver must be there to miss them."""
    nodes = facts.nodes
    if isinstance(nodes, Unknown) or nodes.self_made or not nodes.driver:
        return ()
    minor = _minor(facts, card)
    wanted = CONTROL_FILES if minor is None else (f"/dev/nvidia{minor}", *CONTROL_FILES)
    return tuple(name for name in wanted if name not in nodes.names)


def _manager_missing(outer: HostFacts) -> bool:
    """Whether there are NVSwitches here and surely no fabric manager: all of the machine's processes must be seen."""
    if isinstance(outer.nodes, Unknown) or not outer.nodes.has_switches or isinstance(outer.processes, Unknown):
        return False
    table = outer.processes.by_pid
    kernels_own = table.get(2)
    if kernels_own is None or (kernels_own.comm, kernels_own.parent) != (KERNEL_THREADS, 0):
        return False
    return all(process.comm != FABRIC_MANAGER for process in table.values())


def _faults(outer: HostFacts, log: KernelLog | Unknown, card: Card) -> tuple[tuple[CardFault, ...] | None, str]:
    """The card's faults in the kernel's log, and what that could not tell."""
    if isinstance(log, Unknown):
        return None, log.reason
    if isinstance(outer.host, Unknown):
        return None, outer.host.reason
    gpu = _gpu(outer, card.uuid)
    bus = gpu.bus_id if gpu is not None else outer.device_files.buses.get(card.uuid, "")
    if not bus:
        return None, f"Where {card.label} sits in the machine is not known, so its faults cannot be told from others'."
    uptime = outer.host.uptime_seconds
    users, openers = _started_on(outer, card)
    faults = tuple(
        CardFault(
            xid.code,
            xid.text,
            max(0.0, uptime - xid.seconds),
            outlived=any(start > xid.seconds for start in users),
            opened_by=max(((start, who) for who, start in openers.items() if start > xid.seconds), default=(0.0, ""))[
                1
            ],
        )
        for xid in log.xids
        if xid.bus == bus_of(bus)
    )
    covered = uptime - log.oldest
    short = log.oldest > 1.0 and covered < RECENT_SECONDS
    return faults, f"The kernel's log goes back {covered / 3600:.1f} hours only." if short else ""


def _started_on(outer: HostFacts, card: Card) -> tuple[tuple[float, ...], dict[str, float]]:
    """When the programs that have the card open were started, in seconds since the boot: of those that use its memory,
    and by name of those that only have it open, as what watches cards does.

    A look that has not asked who uses how much takes all of them for users.
    """
    minor = _minor(outer, card)
    if minor is None or isinstance(outer.files, Unknown) or isinstance(outer.processes, Unknown):
        return (), {}
    users: list[float] = []
    openers: dict[str, float] = {}
    for pid in (holder.pid for holder in outer.files.holders if minor in holder.cards):
        process = outer.processes.by_pid.get(pid)
        if process is None or process.comm in HOUSEKEEPERS or process.is_dead_zombie:
            continue
        started = process.start_time / CLOCK_TICKS
        if outer.apps is NOT_ASKED or memory_on(outer, {pid}, card.uuid):
            users.append(started)
        else:
            openers[f"{process.comm} (pid {pid})"] = started
    return tuple(users), openers
