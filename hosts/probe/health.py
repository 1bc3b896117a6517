"""What the machine says of the health of its cards: the kernel's log, and the device files that are there. PURE.

The driver reports a fault of a card as an Xid, one line each in the kernel's log:
`[ 4711.081523] NVRM: Xid (PCI:0000:61:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.`
"""

import re
from dataclasses import dataclass

from hosts.probe.frames import Section, Unknown

STAMP = re.compile(r"^\[\s*(\d{1,12}\.\d{1,9})\]", re.ASCII)
XID = re.compile(
    STAMP.pattern + r".*?NVRM: Xid \(PCI:([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2})[^)]*\): (\d{1,4})\b,?\s*(.*)$",
    re.ASCII | re.IGNORECASE,
)
NOT_READABLE = Unknown("This login may not read the kernel's log, so faults that are only written there are not seen.")


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
        return any(name.startswith("/dev/nvidia-nvswitch") for name in self.names)


def parse_kernel_log(section: Section) -> KernelLog | Unknown:
    """From dmesg, or from the journal with monotonic times. Unknown when this login may not read either."""
    lines = section.text.split("\n")
    first = STAMP.match(lines[0])
    if first is None:
        return NOT_READABLE
    found = [match.groups() for line in lines if (match := XID.match(line.rstrip()))]
    return KernelLog(
        tuple(Xid(int(code), bus_of(bus), float(seconds), text[:200]) for seconds, bus, code, text in found),
        float(first.group(1)),
    )


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
