"""What the kernel's driver tells in /proc/driver/nvidia: every card of the machine, also inside a container."""

from collections.abc import Sequence
from pathlib import Path

from lab.specs import CardSpec

OPEN_MODULES_FROM = 560
DMA_BITS = 52
FIRST_IRQ = 120


def write(directory: Path, cards: Sequence[CardSpec]) -> None:
    """Prepare the directory that is laid over /proc/driver; empty without a card, as the driver is not loaded then."""
    directory.mkdir(parents=True, exist_ok=True)
    if not cards:
        return
    (directory / "nvidia/gpus").mkdir(parents=True, exist_ok=True)
    (directory / "nvidia/version").write_text(_version(cards[0].driver))
    for slot, card in enumerate(cards):
        folder = directory / "nvidia/gpus" / bus_location(card)
        folder.mkdir(exist_ok=True)
        (folder / "information").write_text(information(card, slot))


def bus_location(card: CardSpec) -> str:
    """The bus id as the kernel writes it: a domain of four digits, lower case."""
    domain, _, rest = card.bus_id.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"


def information(card: CardSpec, slot: int) -> str:
    lines = (
        f"Model: \t\t {card.name}",
        f"IRQ:   \t\t {FIRST_IRQ + slot}",
        f"GPU UUID: \t {card.uuid}",
        "Video BIOS: \t 96.00.74.00.1c",
        "Bus Type: \t PCIe",
        f"DMA Size: \t {DMA_BITS} bits",
        f"DMA Mask: \t {(1 << DMA_BITS) - 1:#x}",
        f"Bus Location: \t {bus_location(card)}",
        f"Device Minor: \t {card.minor}",
        f"GPU Firmware: \t {card.driver}",
        "GPU Excluded:\t No",
    )
    return "\n".join(lines) + "\n"


def _version(driver: str) -> str:
    proprietary = f"x86_64 Kernel Module  {driver}  Tue Apr  8 12:41:17 UTC 2025"
    released = "Release Build  (builder@lab)  Tue Sep 23 09:09:56 UTC 2025"
    opened = f"Open Kernel Module for x86_64  {driver}  {released}"
    module = opened if int(driver.split(".")[0]) >= OPEN_MODULES_FROM else proprietary
    return f"NVRM version: NVIDIA UNIX {module}\nGCC version:  gcc version 12.2.0 (Debian 12.2.0-14+deb12u1) \n"
