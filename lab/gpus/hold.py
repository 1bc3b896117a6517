"""Take memory of the simulated cards for this process: what an engine's worker does while it loads.

The kernel gives it back when the process ends. Needs the standard library only: engines must start fast.
"""

import ctypes
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

MIB_PER_GIB = 1024
_NO_CARD, _NO_ROOM = -1, -2
_HERE = Path(__file__).resolve().parent
_PLACES = (Path("/lab/bin/libfakegpu.so"), _HERE.parent / "build/libfakegpu.so")


class HoldError(RuntimeError):
    """The simulated driver refused; the text is CUDA's."""


class OutOfMemoryError(HoldError):
    """Does not fit; name and text are PyTorch's."""

    __module__ = "torch"


@dataclass(frozen=True)
class Room:
    """Memory of one card in MiB."""

    free: int
    total: int
    reserved: int


@dataclass
class Held:
    """Memory of one card, held until the process ends."""

    card: int
    mib: int
    descriptor: int

    def resize(self, mib: int) -> None:
        """Hold `mib` MiB from now on. Raises OutOfMemoryError when it does not fit; then nothing changes."""
        result = _library().fg_resize(self.descriptor, mib)
        if result:
            raise _refusal(self.card, mib - self.mib, result)
        self.mib = mib

    def grow(self, mib: int) -> None:
        """Hold `mib` MiB more. Raises OutOfMemoryError."""
        self.resize(self.mib + mib)


def take(card: int, *, mib: int, mode: str = "normal", delay: float = 0.0) -> Held:
    """Hold `mib` MiB of real card `card`, its device files open.

    mode "delay": the memory stays `delay` seconds after the process is gone; "leak": until it is cleared.
    Raises OutOfMemoryError or HoldError.
    """
    result = _library().fg_take(card, mib, mode.encode(), delay, 0)
    if result < 0:
        raise _refusal(card, mib, result)
    return Held(card=card, mib=mib, descriptor=result)


def room(card: int) -> Room:
    """How much of real card `card` is free. Raises HoldError when there is no such card."""
    free, total, reserved = ctypes.c_ulonglong(), ctypes.c_ulonglong(), ctypes.c_ulonglong()
    result = _library().fg_room(card, ctypes.byref(free), ctypes.byref(total), ctypes.byref(reserved))
    if result:
        raise _refusal(card, 0, result)
    return Room(free=free.value, total=total.value, reserved=reserved.value)


def visible_cards(environ: Mapping[str, str] = os.environ) -> list[int]:
    """The real cards that this process may use, in its own numbering.

    CUDA_VISIBLE_DEVICES has indices or uuids; as in CUDA the list ends at the first entry that names no card.
    """
    count = _library().fg_count()
    wanted = environ.get("CUDA_VISIBLE_DEVICES")
    if wanted is None:
        return list(range(count))
    names = {_uuid(card): card for card in range(count)} | {str(card): card for card in range(count)}
    found: list[int] = []
    for word in wanted.split(","):
        if word.strip() not in names:
            break
        found.append(names[word.strip()])
    return found


def _uuid(card: int) -> str:
    buffer = ctypes.create_string_buffer(64)
    _library().fg_uuid(card, buffer)
    return buffer.value.decode()


def _refusal(card: int, mib: int, result: int) -> HoldError:
    if result == _NO_CARD:
        return HoldError("CUDA error: invalid device ordinal")
    if result != _NO_ROOM:
        return HoldError(f"CUDA unknown error: {os.strerror(ctypes.get_errno())}")
    now = room(card)
    return OutOfMemoryError(
        f"CUDA out of memory. Tried to allocate {mib / MIB_PER_GIB:.2f} GiB. GPU {card} has a total capacity "
        f"of {(now.total - now.reserved) / MIB_PER_GIB:.2f} GiB of which {now.free / MIB_PER_GIB:.2f} GiB is "
        f"free."
    )


def _library() -> ctypes.CDLL:
    global _loaded
    if _loaded is None:
        chosen = os.environ.get("FAKEGPU_LIBRARY")
        found = next((str(path) for path in _PLACES if path.exists()), "libfakegpu.so")
        _loaded = ctypes.CDLL(chosen or found, use_errno=True)
        _loaded.fg_take.argtypes = [
            ctypes.c_int, ctypes.c_ulonglong, ctypes.c_char_p, ctypes.c_double, ctypes.c_int,
        ]  # fmt: skip
        _loaded.fg_resize.argtypes = [ctypes.c_int, ctypes.c_ulonglong]
    return _loaded


_loaded: ctypes.CDLL | None = None
