"""The simulated GPUs of one machine, from the outside: which cards it has, what is wrong, who holds memory.

Everything is a file in one directory (`/var/lib/fakegpu` inside a machine; see state.h for the formats).
Do not call `read_contexts` or `clear_leaks` in a process that itself holds memory by `hold.take`: closing a
context file that one has locked drops the lock.
"""

import fcntl
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.specs import CardSpec

_FLOCK = struct.Struct("hhqqi4x")


@dataclass(frozen=True)
class Context:
    """One piece of held memory. `card` is a slot, `instance` a MIG device of it.

    `pid` is in the caller's namespace; 0 when dead or not visible from here.
    """

    card: int
    mib: int
    mode: str
    delay: float
    died_ns: int
    thread: int
    instance: int
    kind: str
    live: bool
    pid: int


def write_cards(directory: Path, cards: Sequence[CardSpec], *, devices: bool = True) -> None:
    """Give the machine these cards (each placed in its slot); anybody on it may use them.

    `devices`: with device files in `directory`, for a machine without a /dev of its own.
    """
    (directory / "contexts").mkdir(parents=True, exist_ok=True)
    for path in (directory, directory / "contexts"):
        path.chmod(0o777)
    for name in ("lock", "ledger"):
        (directory / name).touch()
        (directory / name).chmod(0o666)
    _replace(directory / "cards", "".join(_card_line(card) for card in cards))
    if devices:
        (directory / "dev").mkdir(exist_ok=True)
        for name in device_names(cards):
            (directory / "dev" / name).touch()
            (directory / "dev" / name).chmod(0o666)


def device_names(cards: Sequence[CardSpec]) -> list[str]:
    """The files in /dev by which these cards are used; none without a card."""
    return [f"nvidia{card.minor}" for card in cards] + (["nvidiactl", "nvidia-uvm"] if cards else [])


def _card_line(card: CardSpec) -> str:
    cells = (
        card.name,
        card.uuid,
        card.bus_id,
        card.memory_mib,
        card.reserved_mib,
        card.baseline_mib,
        card.driver,
        card.minor,
        card.kind,
        ",".join(map(":".join, zip(card.mig, card.mig_uuids(), strict=True))) or "-",
    )
    if not card.uuid or card.minor is None or any("|" in str(cell) for cell in cells):
        raise ValueError(f"Not a placed card, or a name with '|': {card}")
    return "|".join(map(str, cells)) + "\n"


def find_card(cards: Sequence[CardSpec], name: str) -> CardSpec:
    """The card of this slot, device file (nvidia3), uuid or bus id: names that are the same everywhere.

    Raises KeyError, its argument a sentence."""
    for slot, card in enumerate(cards):
        if name.lower() in (str(slot), f"nvidia{card.minor}", card.uuid.lower(), card.bus_id.lower()):
            return card
    known = ", ".join(f"{slot} (nvidia{card.minor})" for slot, card in enumerate(cards)) or "none"
    raise KeyError(f"No card is called {name}. There are: {known}.")


ABOUT_A_CARD = ("lost", "reset", "broken", "denied", "cell", "app")


def check_fault(text: str, cards: Sequence[CardSpec]) -> None:
    """Raises KeyError, its argument a sentence, when a line of a fault names a card that the machine has not."""
    for line in text.splitlines():
        verb, _, rest = line.partition(" ")
        if verb in ABOUT_A_CARD and rest.split()[:1] != ["*"]:
            find_card(cards, rest.split()[0] if rest.split() else "")


def set_fault(directory: Path, text: str | None) -> None:
    """What is wrong with the machine's GPUs from now on (lines as fault.h lists them); None: nothing."""
    if text is None:
        (directory / "fault").unlink(missing_ok=True)
    else:
        _replace(directory / "fault", text.rstrip("\n") + "\n")


def set_fault_here(run: Path, text: str | None) -> None:
    """The same for the one machine or container whose /run this is: the directory of the cards may be shared."""
    if text is None:
        (run / "fakegpu-fault").unlink(missing_ok=True)
    else:
        _replace(run / "fakegpu-fault", text.rstrip("\n") + "\n")


def _replace(path: Path, text: str) -> None:
    """A reader sees the old text or the new one, never half of it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text)
    draft.chmod(0o644)
    draft.replace(path)


def read_contexts(directory: Path) -> list[Context]:
    """What is held now, or left over: the records as they stand, nothing is removed."""
    found = [_read_context(path) for path in _context_files(directory)]
    return [context for context in found if context is not None]


def clear_leaks(directory: Path) -> int:
    """Free what dead processes left behind (a reset of the GPUs); returns how many pieces."""
    cleared = 0
    for path in _context_files(directory):
        context = _read_context(path)
        if context is not None and not context.live:
            path.unlink(missing_ok=True)
            cleared += 1
    return cleared


def _context_files(directory: Path) -> list[Path]:
    return sorted(path for path in (directory / "contexts").iterdir() if not path.name.startswith("."))


def _read_context(path: Path) -> Context | None:
    """None when it went away meanwhile."""
    try:
        with path.open("rb") as file:
            card, mib, mode, delay, died, thread, instance, kind = file.read(128).split()
            answer = fcntl.fcntl(file, fcntl.F_GETLK, _FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0))
    except (FileNotFoundError, ValueError):
        return None
    lock, _, _, _, pid = _FLOCK.unpack(answer)
    live = lock != fcntl.F_UNLCK
    return Context(
        card=int(card),
        mib=int(mib),
        mode=mode.decode(),
        delay=float(delay),
        died_ns=int(died),
        thread=int(thread),
        instance=int(instance),
        kind=kind.decode(),
        live=live,
        pid=max(pid, 0) if live else 0,
    )
