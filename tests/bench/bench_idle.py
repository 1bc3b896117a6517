"""What the panel costs when nobody does anything: memory and CPU of all its processes, with the demo's fleet."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from tests.bench.figures import tell
from tests.support.panel import REPOSITORY
from tests.support.waiting import until

SECONDS = float(os.environ.get("SECONDS", "20"))
SETTLE_SECONDS = 10.0
"""After the first answer: the first readings of every host, and imports that wait for their first use."""
TICKS = os.sysconf("SC_CLK_TCK")
SUPERVISOR = "controlpanel.supervisor"


def run(directory: Path) -> None:
    """Start the demo as `make demo` does, wait, measure, print."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.set_inheritable(True)
    environment = {
        **os.environ,
        "RELAUNCH_DATA_DIR": str(directory / "demo"),
        "LAB_WEB_FD": str(listener.fileno()),
        "PYTHONPATH": str(REPOSITORY),
    }
    with (directory / "demo.log").open("wb") as log:
        demo = subprocess.Popen(
            [sys.executable, "-m", "lab", "demo", "--directory", str(directory / "demo-fleet")],
            env=environment,
            pass_fds=(listener.fileno(),),
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        address = listener.getsockname()
        until(lambda: answers(address), seconds=120, what="the demo", tell=(directory / "demo.log").read_text)
        time.sleep(SETTLE_SECONDS)
        measure(demo.pid)
    finally:
        demo.send_signal(signal.SIGTERM)
        demo.wait(30)
        listener.close()


def answers(address: tuple[str, int]) -> bool:
    """Whether the panel's page is served."""
    connection = http.client.HTTPConnection(*address, timeout=2)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def measure(demo: int) -> None:
    """The supervisor and all below it: proportional memory, and CPU over a while."""
    root = next(pid for pid in below(demo) if SUPERVISOR in command(pid))
    family = [root, *below(root)]
    before, began = {pid: cpu_seconds(pid) for pid in family}, time.monotonic()
    time.sleep(SECONDS)
    passed = time.monotonic() - began
    used = {pid: cpu_seconds(pid) - before[pid] for pid in family}
    memory = {pid: pss_mb(pid) for pid in family}
    for pid in family:
        print(f"  {memory[pid]:6.1f} MB {100 * used[pid] / passed:5.2f} % of a core  {command(pid)[-70:]}")
    total, load = sum(memory.values()), 100 * sum(used.values()) / passed
    tell("idle_memory", round(total, 1), "MB", goal="<=350", peer="none", ok=total <= 350)
    tell("idle_cpu", round(load, 2), "%", goal="<=5_of_one_core", peer="none", ok=load <= 5)


def below(root: int) -> list[int]:
    """Every process below ``root``."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (parent := parent_of(entry)) is not None:
            children.setdefault(parent, []).append(int(entry.name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found[1:]


def parent_of(entry: Path) -> int | None:
    try:
        return int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def pss_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
