"""Which device file /dev/nvidiaN is which card. PURE.

nvidia-smi's index counts the cards that can be opened from where it runs, in the order of their buses: in a container
that was given the last two of eight cards it is 0 and 1, while their files are /dev/nvidia6 and /dev/nvidia7.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from hosts.probe.frames import Section
from hosts.probe.gpus import GpuList, GpuReading

SAID = re.compile(r"^/proc/driver/nvidia/gpus/([0-9a-fA-F:.]+)/information:(GPU UUID|Device Minor):\s*(\S+)\s*$", re.M)
NODE = re.compile(r"^/dev/nvidia(\d{1,3})$", re.M | re.ASCII)


@dataclass(frozen=True)
class DeviceFiles:
    """What the kernel says of each card, by uuid and by bus id, and which card files there are here."""

    by_uuid: Mapping[str, int] = field(default_factory=dict)
    by_bus: Mapping[str, int] = field(default_factory=dict)
    nodes: tuple[int, ...] = ()
    buses: Mapping[str, str] = field(default_factory=dict)
    """uuid -> bus id as the kernel writes it, of cards that the driver may not list any more."""

    def minor_of(self, gpu: GpuReading, gpus: GpuList) -> int | None:
        """The N of this card's /dev/nvidiaN; None where that cannot be told.

        A driver that has not met the card yet shows question marks for its uuid, so the bus counts too. Without
        either, the files that are here belong to the cards that are listed here, one for one, or nothing is known.
        """
        for known, key in ((self.by_uuid, gpu.uuid), (self.by_bus, _bus(gpu.bus_id))):
            if key in known:
                return known[key]
        if isinstance(gpu.index, int) and len(self.nodes) == len(gpus.gpus) and gpu.index < len(self.nodes):
            return self.nodes[gpu.index]
        return None


def parse_minors(section: Section) -> DeviceFiles:
    """From the kernel's page of each card, and the list of card files."""
    cards: dict[str, dict[str, str]] = {}
    for bus, name, value in SAID.findall(section.text):
        cards.setdefault(_bus(bus), {})[name] = value
    minors = {bus: int(said["Device Minor"]) for bus, said in cards.items() if _is_minor(said.get("Device Minor"))}
    return DeviceFiles(
        by_uuid={said["GPU UUID"]: minors[bus] for bus, said in cards.items() if bus in minors and "GPU UUID" in said},
        by_bus=minors,
        nodes=tuple(sorted({int(minor) for minor in NODE.findall(section.text)})),
        buses={said["GPU UUID"]: bus for bus, said in cards.items() if "GPU UUID" in said},
    )


def _is_minor(text: str | None) -> bool:
    return text is not None and text.isascii() and text.isdecimal() and len(text) <= 3


def _bus(text: str) -> str:
    """A bus id as the kernel writes it: nvidia-smi gives the domain eight digits instead of four."""
    domain, _, rest = text.lower().partition(":")
    return f"{domain.lstrip('0'):0>4}:{rest}"
