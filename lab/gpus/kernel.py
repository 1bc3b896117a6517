"""The log of a machine's kernel, which its dmesg shows (`gpus/dmesg`): the boot, and what the driver complains of.

The times are those of the kernel that is really there, as are the start times of processes.
"""

import time
from pathlib import Path

from lab.gpus.procfs import bus_location
from lab.specs import CardSpec

RING = "var/log/kernel-ring"
XIDS = {
    13: "pid=20417, name=python3, Graphics SM Warp Exception on (GPC 3, TPC 5, SM 1): Out Of Range Address",
    31: "pid=20417, name=python3, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC1 GPCCLIENT_T1_0 faulted",
    43: "pid=20417, name=python3, Ch 00000008",
    45: "pid=20417, name=python3, Ch 0000000a",
    48: "pid='<unknown>', name=<unknown>, An uncorrectable double bit error (DBE) has been detected on GPU in the "
    "framebuffer at partition 3, subpartition 0.",
    63: "pid='<unknown>', name=<unknown>, Row Remapper: New row (0x000000010a5f4000) marked for remapping, reset gpu "
    "to activate.",
    74: "pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 2(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0)",
    79: "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    95: "pid=20417, name=python3, Uncontained: FBHUB. RST: Yes, D-RST: No",
    119: "pid=20417, name=nvidia-smi, Timeout after 45s of waiting for RPC response from GPU0 GSP! Expected function "
    "76 (GSP_RM_CONTROL) (0x20801702 0x4).",
}
NEEDS = {48: 1, 62: 1, 64: 1, 74: 1, 79: 2, 95: 1, 119: 1, 120: 1}
"""Xid -> number in `ACTIONS` that newer drivers say with it."""
TELLS_FROM = 580
"""The driver that says it."""
ACTIONS = ("None", "GPU Reset Required", "Node Reboot Required", "Drain P2P", "Drain and Reset")


def begin(root: Path) -> None:
    """A machine starts: what its kernel said before is gone. Only root may read it."""
    ring = root / RING
    ring.parent.mkdir(parents=True, exist_ok=True)
    ring.write_text("[    0.000000] Linux version 6.8.12-lab (builder@lab) (gcc (Debian 12.2.0-14) 12.2.0)\n")
    ring.chmod(0o600)


def say(root: Path, text: str, *, ago: float = 0.0) -> None:
    """A line of the kernel, `ago` seconds old."""
    with (root / RING).open("a") as ring:
        ring.write(f"[{max(time.clock_gettime(time.CLOCK_BOOTTIME) - ago, 0.0):12.6f}] {text}\n")


def xid(card: CardSpec, code: int) -> str:
    """What the driver says of a fault of this (placed) card."""
    words = XIDS.get(code, "pid='<unknown>', name=<unknown>, unknown fault")
    return f"NVRM: Xid (PCI:{bus_location(card).partition('.')[0]}): {code}, {words}"


def recovery_changed(card: CardSpec, before: int, after: int) -> str:
    """What newer drivers say when a card needs something else than before; numbers of `ACTIONS`."""
    change = f"changed from {before:#x} ({ACTIONS[before]}) to {after:#x} ({ACTIONS[after]})"
    return f"NVRM: Xid (PCI:{bus_location(card).partition('.')[0]}): 154, GPU recovery action {change}"
