"""What the machine says of the health of its cards: the kernel's log, and the device files that are there. PURE.

The driver reports a fault of a card as an Xid, one line each in the kernel's log:
`[ 4711.081523] NVRM: Xid (PCI:0000:61:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.`
"""

import re
from dataclasses import dataclass

from hosts.probe.frames import Section, Unknown

SWITCH = re.compile(r"/dev/nvidia-nvswitch\d+", re.ASCII)
"""Of a switch; `nvidia-nvswitchctl` is there where the driver could drive one."""
STAMP = re.compile(r"^\[\s*(\d{1,12}\.\d{1,9})\]", re.ASCII)
XID = re.compile(
    STAMP.pattern + r".*?NVRM: Xid \(PCI:([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2})[^)]*\): (\d{1,4})\b,?\s*(.*)$",
    re.ASCII | re.IGNORECASE,
)
UNSEEN = "so faults that are only written there are not seen."
NOT_READABLE = Unknown(f"This login may not read the kernel's log, {UNSEEN}")
EMPTY = Unknown(f"The kernel's log is empty, or this login may not read it, {UNSEEN}")
"""To those who may not read it the system's journal shows nothing, and does not say so."""
NO_TIMES = Unknown("The kernel's log has no times (printk.time is off), so it does not tell which faults are of now.")
NO_DMESG = Unknown(f"This host has no dmesg, which reads the kernel's log, {UNSEEN}")
MISSING = re.compile(r"dmesg\b.*not found", re.ASCII)
"""What a shell says of it."""
REFUSAL = re.compile(r"dmesg:|journalctl", re.ASCII)
"""In a line that one of the two says instead of the log, or a shell of a missing journalctl."""


@dataclass(frozen=True)
class Xid:
    """One fault. `bus`: of the card, without its function. `seconds`: since the boot."""

    code: int
    bus: str
    seconds: float
    text: str


@dataclass(frozen=True)
class KernelLog:
    """The driver's complaints. `oldest`: seconds from the boot to the first line that the log still has."""

    xids: tuple[Xid, ...]
    oldest: float


@dataclass(frozen=True)
class DeviceNodes:
    """Device files below /dev that begin with nvidia. `self_made`: the first program that wants one gets it made,
    whoever runs it. `driver`: the kernel has the driver loaded."""

    names: frozenset[str]
    self_made: bool
    driver: bool

    @property
    def has_switches(self) -> bool:
        """Whether the cards are joined by NVSwitches, which the fabric manager has to set up."""
        return any(SWITCH.fullmatch(name) for name in self.names)


def parse_kernel_log(section: Section) -> KernelLog | Unknown:
    """From dmesg, or from the journal with monotonic times. Unknown, with the reason, when it cannot be read."""
    lines = section.text.split("\n")
    first = STAMP.match(lines[0])
    if first is None:
        return _why_not(lines[0])
    found = [match.groups() for line in lines if (match := XID.match(line.rstrip()))]
    return KernelLog(
        tuple(Xid(int(code), bus_of(bus), float(seconds), text[:200]) for seconds, bus, code, text in found),
        float(first.group(1)),
    )


def _why_not(line: str) -> Unknown:
    """Why the first line is none of the log."""
    if not line.strip():
        return EMPTY
    if MISSING.search(line):
        return NO_DMESG
    return NOT_READABLE if REFUSAL.search(line) else NO_TIMES


def parse_nodes(section: Section) -> DeviceNodes | Unknown:
    """From the list of names, with a word each for what else is there."""
    if section.status != 0:
        return Unknown("The host did not list its device files.")
    words = frozenset(section.text.split())
    names = frozenset(word for word in words if word.startswith("/dev/"))
    return DeviceNodes(names, "nvidia-modprobe" in words, "driver" in words)


def bus_of(text: str) -> str:
    """A card's place as Xid lines give it, from any way to write it: domain of four digits, no function, lower case."""
    domain, _, rest = text.lower().partition(":")
    return f"{domain.lstrip('0'):0>4}:{rest.partition('.')[0]}"
