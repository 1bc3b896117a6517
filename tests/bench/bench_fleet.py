"""What it costs to read a whole fleet once a second, beside the least that could do it, in one run.

The monitor reads, stores, thins and tells; the bare loop of bare_loop.py only reads. All cards say something new each
time, so nothing is saved by what stays as it was. HOSTS="10 100" are the sizes, SECONDS how long each is measured.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from django.conf import settings
from django.utils import timezone

from hosts import services as host_services
from hosts.history.keeping import read_block
from hosts.keys import panel_key_path
from hosts.models import Gpu, Host, HostKey, MemoryBlock
from hosts.transport.base import PublicHostKey
from lab.fleet import L40S, Fleet, HostSpec
from lab.fleet import Host as Machine
from lab.gpus import state
from tests.bench.bench_idle import cpu_seconds, pss_mb
from tests.bench.figures import tell
from tests.support.panel import REPOSITORY, Panel
from tests.support.waiting import until

CARDS = 8
OLDEST_SECONDS = 3.0
MOST_MB = 250
TWICE = 2.0


@dataclass
class Cost:
    """Of a way to read so many hosts."""

    hosts: int
    readings: int
    cpu: float
    mb: float = 0.0
    oldest: float = 0.0
    lost: int = 0

    @property
    def ms(self) -> float:
        """CPU of one look at one host, in ms."""
        return 1000 * self.cpu / max(1, self.readings)


def run(directory: Path) -> None:
    """Measure and print."""
    sizes = [int(word) for word in (os.environ.get("HOSTS") or "10 100").split()]
    seconds = float(os.environ.get("SECONDS") or "60")
    specs = [HostSpec(name=f"gpu{number}", cards=[L40S] * CARDS, disk_mib=16) for number in range(1, max(sizes) + 1)]
    with Fleet(directory / "fleet", hosts=specs) as fleet, Panel(directory / "data") as panel:
        print(f"  {len(fleet.hosts)} hosts started in {fleet.seconds:.0f} s", flush=True)
        panel_key_path(Path(settings.DATA_DIR))
        costs: dict[int, tuple[Cost, Cost]] = {}
        for size in sizes:
            machines = fleet.hosts[:size]
            with weather(machines):
                bare = read_barely(fleet, machines, seconds)
                costs[size] = bare, read_by_monitor(panel, machines, seconds)
            show(*costs[size])
    tell_all(costs)


@contextmanager
def weather(machines: Sequence[Machine]) -> Iterator[None]:
    """Every second other figures on every card."""
    over = threading.Event()

    def change() -> None:
        number = 0
        while not over.wait(1.0 / len(machines)):
            number += 1
            machine = machines[number % len(machines)]
            state.set_fault(machine.gpu_state, f"cell * utilization.gpu {number // len(machines) % 101}")

    thread = threading.Thread(target=change, daemon=True)
    thread.start()
    yield
    over.set()
    thread.join()


def read_barely(fleet: Fleet, machines: Sequence[Machine], seconds: float) -> Cost:
    """By the bare loop."""
    addresses = [machine.address for machine in machines]
    command = [sys.executable, "-m", "tests.bench.bare_loop", str(fleet.client_key), str(seconds), *addresses]
    said = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=REPOSITORY).stdout)
    assert said["cards"] == CARDS * len(machines), said
    return Cost(len(machines), said["readings"], said["cpu"])


def read_by_monitor(panel: Panel, machines: Sequence[Machine], seconds: float) -> Cost:
    """By the panel's own monitor process."""
    for machine in machines:
        know(machine)
    wanted = CARDS * len(machines)
    panel.start("monitor")
    try:
        pid = panel.processes["monitor"].pid
        read = Gpu.objects.filter(read_at__gt=timezone.now())
        until(
            lambda: read.count() == wanted, seconds=120, what="every card read", tell=panel.log_of("monitor").read_text
        )
        time.sleep(5.0)
        began, before = time.time(), cpu_seconds(pid)
        oldest = max(oldest_age() for _ in ticks(seconds))
        cost = Cost(len(machines), 0, cpu_seconds(pid) - before, pss_mb(pid), oldest)
        ended = time.time()
        time.sleep(11.0)  # what was read last is written within ten seconds
        cost.readings, cost.lost = looks(int(began), int(ended))
        return cost
    finally:
        panel.kill("monitor")


def know(machine: Machine) -> None:
    """The panel's row of a machine, with the key that it really has."""
    if Host.objects.filter(name=machine.name).exists():
        Host.objects.filter(name=machine.name).update(monitor_owner="", monitor_lease_until=None)
        return
    machine.authorize(host_services.panel_public_key())
    row = {"name": machine.name, "address": machine.address, "reach": Host.Reach.REACHABLE}
    key_type, key_base64 = machine.host_key_line.split()
    fingerprint = PublicHostKey(key_type, key_base64).fingerprint
    key = {"key_type": key_type, "key_base64": key_base64, "fingerprint": fingerprint, "pinned_at": timezone.now()}
    HostKey.objects.create(host=Host.objects.create(**row), **key)


def ticks(seconds: float) -> Iterator[None]:
    """Once a second."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(1.0)
        yield


def oldest_age() -> float:
    """Seconds since the card was read that was read longest ago."""
    oldest = Gpu.objects.order_by("read_at").values_list("read_at", flat=True).first()
    assert oldest is not None
    return (timezone.now() - oldest).total_seconds()


def looks(began: int, ended: int) -> tuple[int, int]:
    """How many looks were kept, and how many times none was for longer than a reading may be old."""
    seconds: dict[int, set[int]] = {}
    for row in MemoryBlock.objects.filter(step=1):
        for buckets in read_block(row).cards.values():
            seconds.setdefault(row.host_id, set()).update(at for at in buckets if began <= at < ended)
    lost = 0
    for found in seconds.values():
        moments = [began, *sorted(found), ended]
        lost += sum(later - earlier > OLDEST_SECONDS for earlier, later in pairwise(moments))
    return sum(map(len, seconds.values())), lost


def show(bare: Cost, monitor: Cost) -> None:
    """What was measured of one size."""
    for name, cost in (("bare loop", bare), ("monitor", monitor)):
        print(
            f"  {cost.hosts} hosts, {name:9}: {cost.readings} looks, {cost.cpu:.2f} s of CPU, {cost.ms:.2f} ms a look, "
            f"{cost.mb:.0f} MB, oldest {cost.oldest:.1f} s, {cost.lost} lost",
            flush=True,
        )


def tell_all(costs: dict[int, tuple[Cost, Cost]]) -> None:
    """The lines of the benchmark."""
    most, least = max(costs), min(costs)
    bare, monitor = costs[most]
    ratio = monitor.ms / bare.ms
    tell("fleet_cpu", monitor.ms, "ms", goal="<=2x_bare", peer=f"{bare.ms:.2f}", ok=ratio <= TWICE)
    tell("fleet_cpu_ratio", ratio, "x", goal="<=2", peer="1", ok=ratio <= TWICE)
    tell("fleet_memory", round(monitor.mb, 1), "MB", goal=f"<={MOST_MB}", peer="none", ok=monitor.mb <= MOST_MB)
    tell("fleet_lost", monitor.lost, "gaps", goal="0", peer="none", ok=monitor.lost == 0)
    tell("fleet_oldest", monitor.oldest, "s", goal="<=3", peer="none", ok=monitor.oldest <= OLDEST_SECONDS)
    growth = monitor.ms / costs[least][1].ms
    goal, peer = f"<=1_from_{least}_to_{most}", f"{bare.ms / costs[least][0].ms:.2f}"
    tell("fleet_growth", growth, "x", goal=goal, peer=peer, ok=growth <= 1.0)
