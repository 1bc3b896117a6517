"""Processes as the lab sees them, from /proc of the lab."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """`pid` is the number inside the machine, `lab_pid` the one in the lab; `started` in ticks since boot."""

    pid: int
    lab_pid: int
    cmdline: tuple[str, ...]
    state: str
    started: int


def space(pid: int) -> str:
    """The pid namespace of a process, as the kernel names it; empty when the process is gone."""
    try:
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    except OSError:
        return ""


def in_spaces(spaces: Collection[str], *, depth: int) -> Iterator[Process]:
    """Every process of these pid namespaces; `depth`: which number of NSpid is the machine's (0: the lab's)."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or space(int(entry.name)) not in spaces:
            continue
        process = _read(entry, depth)
        if process:
            yield process


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
        lab_pid=int(entry.name),
        cmdline=tuple(word.decode(errors="replace") for word in words if word),
        state=fields[0],
        started=int(fields[19]),
    )


def listens(pid: int, port: int) -> bool:
    """Whether somebody listens on a TCP port in the network of process `pid`."""
    for table in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
        except OSError:
            continue
        if any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A" for line in lines):
            return True
    return False
