"""What was measured, held against its limit: ok, not ok, or unknown. PURE. Never a guess, never a zero for a gap."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from hosts.probe.frames import Unknown
from hosts.probe.gpus import AppList, GpuList, GpuReading
from hosts.probe.holders import OpenFiles
from hosts.probe.listeners import Listeners

CEILING_HEADLESS = 64
CEILING_PER_MIG_INSTANCE = 64
CEILING_DISPLAY = 1024
TOLERANCE_HEADLESS = 64
TOLERANCE_DISPLAY = 512
DISPLAY_NAMES = ("Xorg", "Xwayland", "gnome-shell", "kwin_wayland", "kwin_x11", "weston", "sway")
HOUSEKEEPERS = frozenset({"nvidia-persistenced", "nvidia-persiste", "nvidia-smi", "nv-hostengine", "nv-fabricmanage"})
"""Watch the cards without using their memory. As the kernel cuts names, at fifteen letters."""


class Status(StrEnum):
    OK = "ok"
    NOT_OK = "not ok"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Check:
    """One measured fact with its limit. `value` and `limit` in `unit`; None where there is none to show."""

    name: str
    status: Status
    value: int | None = None
    limit: int | None = None
    unit: str = ""
    reason: str = ""

    @property
    def ok(self) -> bool:
        return self.status is Status.OK


def unknown(name: str, reason: str, *, limit: int | None = None, unit: str = "") -> Check:
    return Check(name, Status.UNKNOWN, None, limit, unit, reason)


def check_memory(
    gpus: GpuList | Unknown, uuid: str, *, baseline: int | None, tolerance: int = TOLERANCE_HEADLESS
) -> Check:
    """Whether a card's memory is back where it is when nobody uses it. MiB."""
    name = f"memory of {uuid}"
    if baseline is None:
        return unknown(name, "Nobody has confirmed yet how much memory this card shows when it is idle.", unit="MiB")
    limit = baseline + tolerance
    gpu = gpus if isinstance(gpus, Unknown) else gpus.by_uuid(uuid)
    if isinstance(gpu, Unknown):
        return unknown(name, gpu.reason, limit=limit, unit="MiB")
    if gpu.unified:
        reason = "This card shares the machine's memory, so its own use cannot be measured."
        return unknown(name, reason, limit=limit, unit="MiB")
    if isinstance(gpu.memory_used, Unknown):
        return unknown(name, gpu.memory_used.reason, limit=limit, unit="MiB")
    if isinstance(gpu.memory_total, Unknown):
        return unknown(name, gpu.memory_total.reason, limit=limit, unit="MiB")
    used = gpu.memory_used
    if used <= limit:
        return Check(name, Status.OK, used, limit, "MiB", f"{used} MiB in use, at most {limit} MiB expected.")
    reason = f"{used} MiB still in use; at most {limit} MiB when the card is free."
    return Check(name, Status.NOT_OK, used, limit, "MiB", reason)


def clean_in_a_row(checks: Sequence[Check], *, n: int = 3) -> bool:
    """Whether the last `n` readings of one card were all ok."""
    return n > 0 and len(checks) >= n and all(check.ok for check in checks[-n:])


def check_port(listeners: Listeners | Unknown, port: int, *, files: OpenFiles | Unknown | None = None) -> Check:
    """Whether nobody listens on the port; names the owner's pid where it is known."""
    name = f"port {port}"
    if isinstance(listeners, Unknown):
        return unknown(name, listeners.reason)
    taken = listeners.on_port(port)
    if not taken:
        return Check(name, Status.OK, 0, 0, "listeners", f"Nobody listens on port {port}.")
    owners: list[int] = []
    if isinstance(files, OpenFiles):
        owners = sorted({pid for listener in taken for pid in files.owners_of(listener.inode)})
    who = f"process {', '.join(map(str, owners))}" if owners else f"a process of user {taken[0].uid}"
    return Check(name, Status.NOT_OK, len(taken), 0, "listeners", f"Port {port} is in use by {who}.")


def check_holders(
    files: OpenFiles | Unknown,
    apps: AppList | Unknown,
    *,
    uuids: Collection[str],
    minors: Collection[int],
    allowed: Collection[int] = (),
) -> Check:
    """Whether nobody but `allowed` pids holds these cards, by their device files and by the driver's own list.

    Both must be readable in full for an ok; one that names a stranger is enough for a not ok.
    """
    name = "holders"
    gaps: list[str] = []
    strangers: set[int] = set()
    if isinstance(files, Unknown):
        gaps.append(files.reason)
    else:
        strangers |= {holder.pid for holder in files.holders if holder.cards & frozenset(minors)}
        if files.partial:
            gaps.append("This user may not see which files other users' processes have open.")
    if isinstance(apps, Unknown):
        gaps.append(apps.reason)
    else:
        strangers |= {app.pid for app in apps.apps if app.gpu_uuid in uuids}
        gaps += apps.hidden
    strangers -= set(allowed)
    if strangers:
        pids = ", ".join(map(str, sorted(strangers)))
        return Check(name, Status.NOT_OK, len(strangers), 0, "processes", f"Held by process {pids}.")
    if gaps:
        return unknown(name, gaps[0], limit=0, unit="processes")
    return Check(name, Status.OK, 0, 0, "processes", "No process holds the cards.")


@dataclass(frozen=True)
class BaselineProposal:
    """What a card shows when idle. `trusted` when it may be learnt without asking a person."""

    uuid: str
    value: int
    ceiling: int
    trusted: bool


def baseline_ceiling(gpu: GpuReading, *, display: bool, mig_instances: int = 1) -> int:
    """The most that may be learnt by itself, in MiB; above it a leak would be learnt as normal."""
    if display:
        return CEILING_DISPLAY
    if gpu.mig:
        return CEILING_PER_MIG_INSTANCE * max(1, mig_instances)
    return CEILING_HEADLESS


def propose_baseline(
    readings: Sequence[GpuReading], *, held: bool | Unknown, display: bool, mig_instances: int = 1
) -> BaselineProposal | Unknown:
    """The highest of at least three readings of one card that nobody holds. Unknown when that is not so."""
    if isinstance(held, Unknown):
        return held
    if held:
        return Unknown("A process holds the card, so this is not its idle state.")
    values = [gpu.memory_used for gpu in readings if isinstance(gpu.memory_used, int)]
    if len(values) < 3 or len(values) < len(readings) or len({gpu.uuid for gpu in readings}) != 1:
        return Unknown("Three readings of the card in a row are needed.")
    ceiling = baseline_ceiling(readings[-1], display=display, mig_instances=mig_instances)
    return BaselineProposal(readings[-1].uuid, max(values), ceiling, trusted=max(values) <= ceiling)
