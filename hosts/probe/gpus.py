"""What nvidia-smi says about the cards, and what it means when it says something else. PURE.

nvidia-smi prints its failures on stdout, in the place of a number, or not at all, so each cell is a number of a
believable size or an Unknown, and output without the header we asked for is explained, not read.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from hosts.probe.frames import NOT_ASKED, Section, Unknown

NUMBER = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,4})?)(?: (?:MiB|%|W))?", re.ASCII)
UUID = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z/-]{1,80}", re.ASCII)
MAX_MIB = 64 * 1024 * 1024
ROUNDING_MIB = 2
"""What used, free and reserved may be apart from the total: each is rounded."""
NOT_TOLD = Unknown("How much memory is free was not asked.")
LOST = "A card is lost (fallen off the bus): the host needs a reboot."
NEEDS_RESET = "A card needs a reset before it can be used again."
NOT_LOADED = "The NVIDIA driver is not loaded on this host."
MISMATCH = "The NVIDIA driver was updated under the running one: the host needs a reboot."
SMI_TIMEOUT = Unknown("nvidia-smi did not answer within its time; the driver may hang.")

EXPLAINED: tuple[tuple[str, str], ...] = (
    ("another nvidia-smi is still running", "Another nvidia-smi on this host has not ended; the driver may hang."),
    ("couldn't find libnvidia-ml", "The NVIDIA driver's library (libnvidia-ml) is not installed here."),
    ("couldn't communicate with the NVIDIA driver", NOT_LOADED),
    ("Driver/library version mismatch", MISMATCH),
    ("GPU access blocked by the operating system", "The operating system blocks access to the cards."),
    ("Insufficient Permissions", "This user is not permitted to look at the cards."),
    ("Failed to initialize NVML: Unknown Error", "Access to the cards was taken away from this container or user."),
    ("In use by another client", "The driver is in use by another client that allows no second one."),
    ("GPU is lost", LOST),
    ("A GPU reset must occur", NEEDS_RESET),
    ("requires reset", NEEDS_RESET),
    ("device handle", "A card does not answer the driver."),
    ("No devices were found", "The driver sees no card here."),
    ("No devices found", "The driver sees no card here."),
    ("Unable to determine the number of GPUs", "The driver cannot even count its cards."),
    ("is not a valid field to query", "This nvidia-smi does not know a field that we ask for."),
    ("not found", "There is no nvidia-smi on this host."),
)
CELLS = {
    "N/A": "this card does not report it",
    "Not Supported": "this card does not report it",
    "Insufficient Permissions": "this user may not read it",
    "Not Found": "the card was not found",
    "Driver Not Loaded": "the driver is not loaded",
    "Function Not Found": "the driver is too old for it",
    "GPU is lost": "the card is lost: the host needs a reboot",
    "GPU requires reset": "the card needs a reset",
    "Driver/library version mismatch": "driver and library differ: the host needs a reboot",
    "Requested functionality has been deprecated": "the driver no longer reports it",
    "Unknown Error": "the driver failed to read it",
}


class Recovery(StrEnum):
    """What a card needs before it can be used again, by the driver's own word."""

    NONE = "none"
    RESET = "reset"
    REBOOT = "reboot"
    DRAIN = "drain"
    """Programs on this card and those that it works together with must end, then it needs a reset."""


# By parts of the words of gpu_recovery_action, in this order: GPU Reset, Node Reboot, Drain P2P, Drain and Reset, ...
ACTIONS = (("Reboot", Recovery.REBOOT), ("Drain", Recovery.DRAIN), ("Reset", Recovery.RESET), ("FLR", Recovery.RESET))
RESET_NOT_TOLD = Unknown("This driver does not tell whether the card needs a reset.")


@dataclass(frozen=True)
class GpuReading:
    """One card. Memory in MiB, `used` without what the driver keeps for itself (`reserved`)."""

    index: int | Unknown
    uuid: str
    name: str
    bus_id: str
    memory_total: int | Unknown
    memory_used: int | Unknown
    memory_reserved: int | Unknown
    utilization_percent: int | Unknown
    temperature_c: int | Unknown
    power_watts: float | Unknown
    driver_version: str
    mig: bool
    memory_free: int | Unknown = NOT_TOLD
    display: bool = False
    """A screen is driven by it, so some memory is in use whoever computes."""
    recovery: Recovery | Unknown = NOT_ASKED
    """What the card needs; its absence (NONE) counts for more from a driver that has `gpu_recovery_action`."""
    tells_recovery: bool = False
    """Whether this driver has `gpu_recovery_action`, which speaks of every fault, not of memory errors alone."""
    fabric_state: str = ""
    """How far the card has joined its NVLink fabric: Not Started, In Progress, Completed; empty where it has none."""
    fabric_status: str = ""
    """Success, or an error, once that is completed."""


@dataclass(frozen=True)
class GpuList:
    """The cards that answered, and in words what is wrong with those that did not."""

    gpus: tuple[GpuReading, ...]
    faults: tuple[str, ...] = ()

    def by_uuid(self, uuid: str) -> GpuReading | Unknown:
        """The one card of this uuid."""
        found = [gpu for gpu in self.gpus if gpu.uuid == uuid]
        if len(found) == 1:
            return found[0]
        if found:
            return Unknown("nvidia-smi lists this card twice.")
        return Unknown(" ".join(self.faults) or "nvidia-smi does not list this card.")


@dataclass(frozen=True)
class ComputeApp:
    """A process that the driver names as using a card. The pid is one of the asker's namespace."""

    pid: int
    gpu_uuid: str
    name: str
    memory_used: int | Unknown


@dataclass(frozen=True)
class AppList:
    """`hidden` has a reason for each card whose processes the driver would not name."""

    apps: tuple[ComputeApp, ...]
    hidden: tuple[str, ...] = ()


def explain(text: str, status: int) -> str:
    """Why nvidia-smi failed, in plain words."""
    if status in (124, 137):
        return SMI_TIMEOUT.reason
    for sign, words in EXPLAINED:
        if sign in text:
            return words
    if status == 127:
        return "There is no nvidia-smi on this host."
    first = " ".join(text.split())[:160]
    return f"nvidia-smi failed (status {status}): {first}" if first else f"nvidia-smi failed with status {status}."


def parse_gpus(sections: Mapping[str, Section], *, name: str = "gpus") -> GpuList | Unknown:
    """The cards from the section `name`, or from those of single cards when one card silenced the whole list."""
    whole = sections[name]
    single = [section for key, section in sections.items() if key.startswith(f"{name}.")]
    if not single:
        return _parse_table(whole)
    gpus: list[GpuReading] = []
    faults = [explain(whole.text, whole.status)]
    for section in single:
        parsed = _parse_table(section)
        if isinstance(parsed, Unknown):
            faults.append(parsed.reason)
        else:
            gpus += parsed.gpus
            faults += parsed.faults
    return GpuList(tuple(gpus), tuple(dict.fromkeys(faults)))


def parse_apps(section: Section) -> AppList | Unknown:
    """The compute processes that the driver names."""
    rows = _rows(section)
    if isinstance(rows, Unknown):
        return rows
    apps: list[ComputeApp] = []
    hidden: list[str] = []
    for row in rows:
        pid = parse_number(row.get("pid", ""), "the process number")
        uuid = row.get("gpu_uuid", "")
        if isinstance(pid, Unknown) or pid <= 0 or not UUID.fullmatch(uuid):
            hidden.append(pid.reason if isinstance(pid, Unknown) else "A line of the process list is garbled.")
            continue
        memory = _mib(row.get("used_gpu_memory", ""), "this process's memory")
        apps.append(ComputeApp(int(pid), uuid, row.get("process_name", ""), memory))
    return AppList(tuple(apps), tuple(hidden))


@lru_cache(maxsize=4096)  # the monitor reads the same few values all day
def parse_number(cell: str, what: str) -> float | Unknown:
    """A cell as a number. Anything else is Unknown, with `what` in its reason."""
    found = NUMBER.fullmatch(cell)
    if found:
        return float(found.group(1))
    inner = cell[1:-1] if cell.startswith("[") and cell.endswith("]") else cell
    if inner in CELLS:
        return Unknown(f"Could not read {what}: {CELLS[inner]}.")
    return Unknown(f"Could not read {what}: the driver says {cell[:40]!r}.")


@lru_cache(maxsize=4096)
def _mib(cell: str, what: str) -> int | Unknown:
    value = parse_number(cell, what)
    if isinstance(value, Unknown):
        return value
    return int(value) if value <= MAX_MIB else Unknown(f"Could not read {what}: {cell[:40]} is not believable.")


@lru_cache(maxsize=1024)
def _whole(cell: str, what: str) -> int | Unknown:
    value = parse_number(cell, what)
    return value if isinstance(value, Unknown) else int(value)


def _rows(section: Section) -> list[dict[str, str]] | Unknown:
    """The table by its header's names, units taken off; a last column keeps its commas."""
    lines = [line for line in section.text.split("\n") if line.strip()]
    if section.status != 0:
        return Unknown(explain(section.text, section.status))
    if not lines or "uuid" not in lines[0] or ", " not in lines[0]:
        return Unknown(explain(section.text, section.status))
    header = [column.partition(" [")[0] for column in lines[0].split(", ")]
    rows: list[dict[str, str]] = []
    for line in lines[1:]:
        cells = [cell.strip() for cell in line.split(", ", len(header) - 1)]
        rows.append(dict(zip(header, cells, strict=False)) if len(cells) == len(header) else {})
    return rows


def _parse_table(section: Section) -> GpuList | Unknown:
    rows = _rows(section)
    if isinstance(rows, Unknown):
        return rows
    if not rows:
        return Unknown("nvidia-smi named no card.")
    gpus = [gpu for row in rows if (gpu := _reading(row)) is not None]
    faults = ("A line of nvidia-smi's answer is garbled.",) if len(gpus) < len(rows) else ()
    return GpuList(tuple(gpus), faults)


def _reading(row: Mapping[str, str]) -> GpuReading | None:
    if not UUID.fullmatch(row.get("uuid", "")):
        return None
    total = _mib(row.get("memory.total", "N/A"), "the card's memory size")
    used = _mib(row.get("memory.used", "N/A"), "the memory in use")
    free = _mib(row.get("memory.free", "N/A"), "the free memory")
    if isinstance(total, int) and (total == 0 or _sum(used) > total or _sum(used, free) > total + ROUNDING_MIB):
        total = used = free = Unknown("The driver's memory figures contradict each other.")
    return GpuReading(
        index=_whole(row.get("index", "N/A"), "the card's index"),
        uuid=row["uuid"],
        name=row.get("name", ""),
        bus_id=row.get("pci.bus_id", ""),
        memory_total=total,
        memory_used=used,
        memory_reserved=_mib(row.get("memory.reserved", "N/A"), "the memory the driver keeps"),
        utilization_percent=_whole(row.get("utilization.gpu", "N/A"), "how busy the card is"),
        temperature_c=_whole(row.get("temperature.gpu", "N/A"), "the temperature"),
        power_watts=parse_number(row.get("power.draw", "N/A"), "the power draw"),
        driver_version=row.get("driver_version", ""),
        mig=row.get("mig.mode.current") == "Enabled",
        memory_free=free,
        display=row.get("display_active") == "Enabled",
        recovery=_recovery(row),
        tells_recovery=row.get("gpu_recovery_action", "N/A").strip("[]") not in CELLS,
        fabric_state=_word(row.get("fabric.state", "")),
        fabric_status=_word(row.get("fabric.status", "")),
    )


def _sum(*cells: int | Unknown) -> int:
    return sum(cell for cell in cells if isinstance(cell, int))


def _recovery(row: Mapping[str, str]) -> Recovery | Unknown:
    """By any cell that cannot be read for want of a reset, else by the cell that is about it."""
    if "[GPU is lost]" in row.values():
        return Recovery.REBOOT
    if "[GPU requires reset]" in row.values():
        return Recovery.RESET
    action = row.get("gpu_recovery_action", "")
    if action == "None":
        return Recovery.NONE
    for part, needed in ACTIONS:
        if part in action and not action.startswith("["):
            return needed
    required = row.get("reset_status.reset_required", "")
    return {"Yes": Recovery.RESET, "No": Recovery.NONE}.get(required, RESET_NOT_TOLD)


def _word(cell: str) -> str:
    """A cell in words; empty when it holds none."""
    return "" if cell.strip("[]") in CELLS else cell
