"""Who was started, and who lives: what a test asks to know that there is exactly one server.

Every simulated engine appends a line to the ledger beside the GPU state of its machine when it starts. What is
alive is looked up among the processes of the machine, from outside.
"""

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from lab import processes
from lab.host import Host
from lab.node import Container
from lab.processes import Process

SLACK = 0.1  # seconds by which a start time, kept in ticks, may seem later than the line written after it


@dataclass(frozen=True)
class Entry:
    """One start of one server. `time`: seconds since 1970; `pid`: as the server knows itself."""

    time: float
    pid: int
    kind: str
    port: int
    launch: str


@dataclass(frozen=True)
class Server:
    """A start whose process is alive."""

    entry: Entry
    process: Process


def entries(machine: Host | Container) -> list[Entry]:
    """Every start on the machine, oldest first; node and containers share one ledger."""
    path = machine.gpu_state / "ledger"
    lines = path.read_text().splitlines() if path.exists() else []
    return [_entry(json.loads(line)) for line in lines]


def _entry(fields: dict[str, object]) -> Entry:
    return Entry(
        time=float(str(fields["time"])),
        pid=int(str(fields["pid"])),
        kind=str(fields["kind"]),
        port=int(str(fields["port"])),
        launch=str(fields.get("launch", "")),
    )


def live_servers(machine: Host | Container) -> list[Server]:
    """The starts whose process still runs; zombies do not count."""
    running = [process for process in machine.processes() if process.state not in "ZX"]
    servers = []
    for entry in entries(machine):
        process = _process_of(entry, running)
        if process:
            servers.append(Server(entry=entry, process=process))
    return servers


def _process_of(entry: Entry, running: list[Process]) -> Process | None:
    """Older than its line in the ledger; of several (node and container number alike) the youngest."""
    fitting = [
        process for process in running if process.own_pid == entry.pid and _started(process) <= entry.time + SLACK
    ]
    return max(fitting, key=lambda process: process.started, default=None)


def _started(process: Process) -> float:
    booted = time.time() - float(Path("/proc/uptime").read_text().split()[0])
    return booted + process.started / os.sysconf("SC_CLK_TCK")


def listeners(machine: Host | Container, port: int) -> list[Process]:
    """The processes that hold a socket listening on `port` of the machine; asks the kernel, not the ledger."""
    sockets = processes.listening_sockets(machine.pid1, port)
    return [process for process in machine.processes() if processes.open_files(process.lab_pid) & sockets]
