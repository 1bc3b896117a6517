"""What a simulated fleet consists of: plain values, given once, never changed."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

NAMESPACE = uuid.UUID("5d6ad51c-8f2d-4c5e-9d4e-2f6b2c1b7a10")
MIG_IDLE_MIB, DESKTOP_IDLE_MIB = 55, 596


@dataclass(frozen=True)
class CardSpec:
    """One GPU. Memory in MiB; `uuid` and `bus_id` are derived from host and position when empty.

    `minor` is the number of its device file, /dev/nvidia<minor>; None: its position (its slot).
    """

    name: str = "NVIDIA L40S"
    memory_mib: int = 46068
    reserved_mib: int = 0
    baseline_mib: int = 0
    uuid: str = ""
    bus_id: str = ""
    driver: str = "550.163.01"
    minor: int | None = None
    kind: str = "plain"
    """`unified` tells no memory of its own (GB10); `desktop` has a screen and is no data-centre card."""
    mig: Sequence[str] = ()
    """Profiles of its MIG devices ("1g.18gb", "3g.71gb"); with one, it is in MIG mode."""

    def placed(self, machine: str, index: int) -> "CardSpec":
        """The same card with its identity filled in for slot `index` of `machine`."""
        idle = MIG_IDLE_MIB if self.mig else DESKTOP_IDLE_MIB if self.kind == "desktop" else 0
        identity = uuid.uuid5(NAMESPACE, f"{machine}/{index}")
        return replace(
            self,
            uuid=self.uuid or f"GPU-{identity}",
            bus_id=self.bus_id or f"{index // 8:08X}:{0x01 + 0x20 * (index % 8):02X}:00.0",
            baseline_mib=self.baseline_mib or idle,
            minor=index if self.minor is None else self.minor,
        )

    def mig_uuids(self) -> list[str]:
        """Of its MIG devices, in order; the card must be placed."""
        return [f"MIG-{uuid.uuid5(NAMESPACE, f'{self.uuid}/{number}')}" for number in range(len(self.mig))]


@dataclass(frozen=True)
class HostSpec:
    """A machine with its own sshd.

    `driver` False: no nvidia-smi and no NVML library. `disk_mib` is the size of its disk. `address` empty:
    the fleet gives the next one. `systemd`: it is PID 1 there (only where `cgroups.why_no_systemd()` is empty).
    """

    name: str
    cards: Sequence[CardSpec] = ()
    driver: bool = True
    disk_mib: int = 1024
    address: str = ""
    systemd: bool = False


@dataclass(frozen=True)
class ContainerSpec:
    """A container of a node. `cards`: which of the node's cards it sees, by slot; None is all of them.

    `systemd`: as of a HostSpec.
    """

    name: str
    cards: Sequence[int] | None = None
    running: bool = True
    systemd: bool = False


@dataclass(frozen=True)
class NodeSpec(HostSpec):
    """A machine that also runs containers, by number, and has `pct`."""

    containers: Mapping[int, ContainerSpec] = field(default_factory=dict)
    pct_start_cost: float = 0.0
    """Seconds that every `pct` call takes before it does anything (the real one starts a Perl)."""
