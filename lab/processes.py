"""Processes as the lab sees them, from /proc of the lab."""

import fcntl
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

NS_GET_PARENT = 0xB702


@dataclass(frozen=True)
class Process:
    """`pid` is the number in the machine that was asked, `own_pid` the one it knows itself by (they differ for
    a container seen from its node), `lab_pid` the lab's; `started` in clock ticks since boot."""

    pid: int
    own_pid: int
    lab_pid: int
    cmdline: tuple[str, ...]
    state: str
    started: int

    @property
    def title(self) -> str:
        """The command line as one text; empty for a zombie."""
        return " ".join(self.cmdline)


def space(pid: int) -> str:
    """The pid namespace of a process, as the kernel names it; empty when the process is gone."""
    try:
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    except OSError:
        return ""


def in_spaces(spaces: Collection[str], *, depth: int) -> Iterator[Process]:
    """Every process of these pid namespaces, numbered as at this `depth` of NSpid (0 is the lab's)."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or space(int(entry.name)) not in spaces:
            continue
        process = _read(entry, depth)
        if process:
            yield process


def spaces_below(parent: str) -> set[str]:
    """The pid namespaces made directly inside pid namespace `parent`."""
    return {found for found, above in _known_spaces().items() if above == parent}


def _known_spaces() -> dict[str, str]:
    """Every pid namespace that has a process, with the one above it."""
    known: dict[str, str] = {}
    for entry in Path("/proc").iterdir():
        name = space(int(entry.name)) if entry.name.isdigit() else ""
        if name and name not in known:
            known[name] = _space_above(int(entry.name))
    return known


def _space_above(pid: int) -> str:
    try:
        handle = os.open(f"/proc/{pid}/ns/pid", os.O_RDONLY)
    except OSError:
        return ""
    try:
        above = fcntl.ioctl(handle, NS_GET_PARENT)
    except PermissionError:  # the one above is outside the lab
        return ""
    finally:
        os.close(handle)
    try:
        return str(Path(f"/proc/self/fd/{above}").readlink())
    finally:
        os.close(above)


def _read(entry: Path, depth: int) -> Process | None:
    try:
        status = (entry / "status").read_text()
        fields = (entry / "stat").read_text().rpartition(")")[2].split()
        words = (entry / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return None
    numbers = next(line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:"))
    return Process(
        pid=int(numbers[depth]),
        own_pid=int(numbers[-1]),
        lab_pid=int(entry.name),
        cmdline=tuple(word.decode(errors="replace") for word in words if word),
        state=fields[0],
        started=int(fields[19]),
    )


def listening_sockets(pid: int, port: int) -> set[str]:
    """The sockets (as `/proc/PID/fd` names them) that listen on a TCP port in the network of process `pid`."""
    found = set()
    for table in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
        except OSError:
            continue
        rows = [line.split() for line in lines]
        found |= {f"socket:[{row[9]}]" for row in rows if row[3] == "0A" and row[1].endswith(f":{port:04X}")}
    return found


def open_files(lab_pid: int) -> set[str]:
    """What the descriptors of a process point to; empty when it is gone."""
    try:
        return {str(link.readlink()) for link in Path(f"/proc/{lab_pid}/fd").iterdir()}
    except OSError:
        return set()
