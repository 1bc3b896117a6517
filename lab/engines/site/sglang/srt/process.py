"""Processes of the simulated server: names, dying with the parent, ending the whole tree."""

import ctypes
import os
import signal
from collections.abc import Iterable
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """From now on the kernel kills this process when its parent ends; before this call it would live on."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def descendants(root: int) -> list[int]:
    """Pids of all processes below `root`, parents first."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (parent := _parent(entry)) is not None:
            children.setdefault(parent, []).append(int(entry.name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found[1:]


def _parent(process: Path) -> int | None:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def kill_tree(*, spare: Iterable[int] = (), itself: bool = True) -> None:
    """SIGKILL everything below this process, and then this process."""
    for pid in descendants(os.getpid()):
        if pid in spare:
            continue
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    if itself:
        os.kill(os.getpid(), signal.SIGKILL)
