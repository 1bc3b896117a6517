"""How old what a browser shows is: from a change of a card's memory on its host to the text on the page.

20 hosts with 8 cards each, read once a second (HOSTS, CHANGES), and a real Chromium on the overview. The peer is what
gpustat-web does, at its default of 5 s and at 1 s: each host is asked, then there is a pause of the interval, and the
page asks for what is known once an interval. It is asked here by nvidia-smi instead of gpustat, which takes a second
more, and its page costs nothing: both are in the peer's favour.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles

from django.conf import settings
from playwright.sync_api import Page, sync_playwright

from hosts.keys import panel_key_path
from hosts.models import Gpu
from lab.fleet import L40S, Fleet, HostSpec
from lab.fleet import Host as Machine
from lab.gpus import state
from tests.bench.bench_fleet import CARDS, know
from tests.bench.figures import tell
from tests.bench.peers import OPTIONS
from tests.support.waiting import until

QUERY = "nvidia-smi --query-gpu=uuid,memory.used --format=csv,noheader,nounits"
SHOWN = """([card, text]) => new Promise((done, fail) => {
  const element = document.querySelector(`[data-gpu="${card}"] [data-gpu-used]`);
  const look = () => element.textContent === text && done(Date.now() / 1000);
  new MutationObserver(() => requestAnimationFrame(look)).observe(element, { childList: true, characterData: true, subtree: true });
  look();
  setTimeout(() => fail(new Error(`${text} was not shown, but ${element.textContent}`)), 20000);
})"""  # noqa: E501 (one piece of JavaScript)


def run(directory: Path) -> None:
    """Measure and print."""
    count, changes = int(os.environ.get("HOSTS") or "20"), int(os.environ.get("CHANGES") or "24")
    specs = [HostSpec(name=f"gpu{number}", cards=[L40S] * CARDS, disk_mib=16) for number in range(1, count + 1)]
    with Fleet(directory / "fleet", hosts=specs) as fleet:
        ours = by_panel(directory / "data", fleet.hosts, changes)
        peers = {seconds: by_polling(fleet, seconds, changes // 4) for seconds in (5.0, 1.0)}
    middle, p95 = median(ours), quantiles(ours, n=20)[-1]
    for name, ages in (("panel", ours), *((f"polling each {seconds:g} s", ages) for seconds, ages in peers.items())):
        print(f"  {name}: median {median(ages):.2f} s, most {max(ages):.2f} s of {len(ages)}")
    tell("live_median", middle, "s", goal="<=0.8", peer=f"{median(peers[5.0]):.2f}", ok=middle <= 0.8)
    tell("live_p95", p95, "s", goal="<=1.3", peer=f"{max(peers[5.0]):.2f}_most", ok=p95 <= 1.3)
    slow, fast = (median(peers[seconds]) / middle for seconds in (5.0, 1.0))
    tell("live_fresher_default", slow, "x", goal=">=8", peer="1", ok=slow >= 8)
    tell("live_fresher_1s", fast, "x", goal=">=3", peer="1", ok=fast >= 3)


def change(machine: Machine, chance: random.Random) -> tuple[float, int]:
    """Other memory in use on all cards of a machine, at a moment of its own. Returns when, and how much in MiB."""
    time.sleep(chance.uniform(0.2, 1.4))
    used = chance.randint(1, 1023)  # shown in MiB, so that no two look alike
    state.set_fault(
        machine.gpu_state, f"cell * memory.used {used}\ncell * memory.free {machine.cards[0].memory_mib - used}"
    )
    return time.time(), used


def by_panel(data: Path, machines: Sequence[Machine], changes: int) -> list[float]:
    """Seconds until the text stands on the overview."""
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"  # the browser's driver has a loop in this thread
    from tests.e2e import steps
    from tests.e2e.conftest import CHROMIUM, QUIET, RunningPanel

    panel, chance = RunningPanel(data), random.Random(5)
    panel.start()
    try:
        panel_key_path(Path(settings.DATA_DIR))
        for machine in machines:
            know(machine)
        path = next(found for name in CHROMIUM if (found := shutil.which(name)))
        with sync_playwright() as playwright:
            page = (
                playwright.chromium.launch(executable_path=path, args=QUIET).new_context(base_url=panel.url).new_page()
            )
            steps.sign_in(page, panel.sign_in_link)
            read = Gpu.objects.filter(used_mib__isnull=False)
            until(lambda: read.count() == CARDS * len(machines), seconds=60, what="every card read")
            page.goto("/")
            page.wait_for_function("document.documentElement.dataset.live === 'live'")
            return [age_on_page(page, chance.choice(machines), chance) for _ in range(changes)]
    finally:
        panel.stop()


def age_on_page(page: Page, machine: Machine, chance: random.Random) -> float:
    """One change."""
    card = Gpu.objects.get(host__name=machine.name, index=0)
    at, used = change(machine, chance)
    return float(page.evaluate(SHOWN, [card.pk, f"{used} MiB"])) - at


def by_polling(fleet: Fleet, interval: float, changes: int) -> list[float]:
    """Seconds until a page that asks once an interval gets it."""
    chance, ages = random.Random(5), []
    with polling(fleet, interval) as table:
        for _ in range(changes):
            machine = chance.choice(fleet.hosts)
            at, used = change(machine, chance)
            phase = at + chance.uniform(0, interval)  # the page asks at a moment of its own
            while True:
                time.sleep(max(0.0, phase - time.time()))
                if table(machine.name) == used:
                    break
                phase += interval
            ages.append(phase - at)
    return ages


@contextmanager
def polling(fleet: Fleet, interval: float) -> Iterator[Callable[[str], int | None]]:
    """A thread a host that asks over a warm connection, and pauses. Gives what is known of a host."""
    known: dict[str, int] = {}
    over = threading.Event()

    def follow(machine: Machine) -> None:
        master = [
            "-o",
            "ControlMaster=auto",
            "-o",
            f"ControlPath={fleet.paths.directory}/m-%h",
            "-o",
            "ControlPersist=60",
        ]
        command = ["ssh", "-i", str(fleet.client_key), *OPTIONS, *master, f"root@{machine.address}", QUERY]
        while not over.is_set():
            said = subprocess.run(
                command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False
            ).stdout.decode()
            if said:
                known[machine.name] = int(said.splitlines()[0].split(", ")[1])
            over.wait(interval)

    threads = [threading.Thread(target=follow, args=(machine,), daemon=True) for machine in fleet.hosts]
    for thread in threads:
        thread.start()
    until(lambda: len(known) == len(fleet.hosts), seconds=60, what="every host asked")
    yield known.get
    over.set()
    for thread in threads:
        thread.join(30)
