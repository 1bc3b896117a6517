"""How long after the memory is really free the panel says so, beside a script that polls once a second.

Each server is a stand-in whose driver frees its memory some time after its death, at another moment each time, so that
no rhythm of looking can be lucky. When it was free is the lab's own word: the record of the memory, which notes the
death. The panel's moment is the end of its step *verify*, which has read everything three times. The poll reads the
same three times, over a connection that is open.
"""

from __future__ import annotations

import os
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median, quantiles

from deployments.lifecycle import JobKind, LaunchState
from deployments.models import Deployment, Launch
from hosts.models import Host as HostRow
from lab.fleet import L40S, RTX_PRO, Container, ContainerSpec, Fleet, Host, HostSpec, NodeSpec
from tests.bench.figures import spread, tell
from tests.bench.peers import Client
from tests.support.panel import Panel
from tests.support.story import STANDIN, Place, Story
from tests.support.waiting import until

CARDS = 8
READINGS = 3
PEER_PORT = 29001
Delays = dict[str, list[float]]


def run(directory: Path) -> None:
    """Measure and print."""
    runs = int(os.environ.get("RUNS") or "50")
    nodes = [NodeSpec(name="pve", cards=[RTX_PRO] * CARDS, containers={129: ContainerSpec(name="llm-gpu")})]
    hosts = [HostSpec(name="gpu1", cards=[L40S] * CARDS), HostSpec(name="gpu2", cards=[L40S])]
    with (
        Fleet(directory / "fleet", hosts=hosts, nodes=nodes) as fleet,
        Panel(directory / "data") as panel,
        Client(fleet.host("gpu2"), key=fleet.client_key, directory=directory) as client,
    ):
        story = Story.begin()
        ssh, pct = story.add_host(fleet.host("gpu1")), story.add_container(fleet.container(129))
        panel.start("worker")
        panel.start("monitor")
        tell_all(measure(story, client, fleet.host("gpu2"), ssh, pct, runs=runs))


def measure(story: Story, client: Client, peer: Host, ssh: Place, pct: Place, *, runs: int) -> Delays:
    """All ways, one after another, again and again; seconds from *really free* to the verdict."""
    ways: dict[str, tuple[Place, Deployment]] = {
        "two": (ssh, story.deploy_standin(ssh, cards=(0, 1))),
        "eight": (ssh, story.deploy_standin(ssh, cards=range(CARDS))),
        "pct": (pct, story.deploy_standin(pct, cards=(0, 1))),
    }
    for place, deployment in ways.values():
        by_panel(story, place, deployment, delay=0.1)  # links, imports and caches are warm from here on
    delays: Delays = defaultdict(list)
    chance = random.Random(1)
    with ThreadPoolExecutor(1) as beside:
        for _ in range(runs):
            # On a host of its own, while the panel stops its servers: what disturbs one disturbs the other.
            polled = beside.submit(by_poll, client, peer, delay=chance.uniform(0.2, 1.2))
            for way, (place, deployment) in ways.items():
                delays[way].append(by_panel(story, place, deployment, delay=chance.uniform(0.2, 1.2)))
            delays["poll"].append(polled.result())
    return delays


def by_panel(story: Story, place: Place, deployment: Deployment, *, delay: float) -> float:
    """A stop by the panel."""
    slots = [card.uuid for card in place.node.cards]
    cards = [slots.index(uuid) for uuid in deployment.placement.gpu_uuids]
    with serving(place.machine, port=deployment.port, cards=cards, delay=delay) as (pid, started, freed):
        adopt(deployment, place.host, pid, started)
        job = story.run_job(deployment, JobKind.STOP)
        ended = job.steps.get(name="verify").ended_at
        assert ended is not None
        return ended.timestamp() - (time.time() - time.monotonic()) - freed()


def by_poll(client: Client, host: Host, *, delay: float) -> float:
    """kill, then nvidia-smi once a second, until the card was free so many times in a row."""
    query = "nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits"
    with serving(host, port=PEER_PORT, cards=[0], delay=delay) as (pid, _, freed):
        client.warm(f"kill {pid}")
        due, clean = time.monotonic(), 0
        while clean < READINGS:
            due += 1.0
            time.sleep(max(0.0, due - time.monotonic()))
            clean = clean + 1 if client.warm(query).stdout.strip() == "0" else 0
        return time.monotonic() - freed()


def adopt(deployment: Deployment, host: HostRow, pid: int, started: int) -> None:
    """The row of a launch, as if the panel had made it; the one before has ended."""
    Launch.objects.create(
        deployment=deployment,
        revision=deployment.revision,
        host=host,
        state=LaunchState.SERVING,
        pid=pid,
        start_time=started,
    )


@contextmanager
def serving(
    machine: Host | Container, *, port: int, cards: list[int], delay: float
) -> Iterator[tuple[int, int, Callable[[], float]]]:
    """A server that ends at once; its pid and start time, and a function that tells when its memory was free.

    The records of the memory stay open here: whoever sees them free first takes their files away.
    """
    argv = f"{STANDIN} --port {port} --gpu {','.join(map(str, cards))} --ready 0 --stop 0 --delay {delay:.3f}"
    contexts = machine.gpu_state / "contexts"
    before = set(contexts.iterdir())
    machine.exec(["sh", "-c", f"setsid -f {argv} < /dev/null > /dev/null 2>&1"], timeout=20)

    def records() -> set[Path]:
        return {path for path in contexts.iterdir() if not path.name.startswith(".")} - before

    until(lambda: len(records()) == len(cards), seconds=20, what="a server that holds its cards")
    process = next(process for process in machine.processes() if process.title.startswith(argv))
    with ExitStack() as stack:
        files = [stack.enter_context(path.open("rb", buffering=0)) for path in sorted(records())]

        def freed() -> float:
            died = [int(file.read(128).split()[4]) for file in files if not file.seek(0)]
            assert all(died), "a server that has not died"
            return max(died) / 1e9 + delay

        yield process.own_pid, process.started, freed


def tell_all(delays: Delays) -> None:
    """The lines of the benchmark."""
    for way, seconds in delays.items():
        print(f"  {way:6} {spread(seconds)} after the memory was free")
        assert min(seconds) > 0, f"{way}: a verdict before the memory was free"
    two, poll = median(delays["two"]), median(delays["poll"])
    p95, poll_p95 = (quantiles(delays[way], n=20, method="inclusive")[-1] for way in ("two", "poll"))
    tell("release_median", two, "s", goal="<0.6", peer=f"{poll:.2f}", ok=two < 0.6)
    tell("release_p95", p95, "s", goal="<1", peer=f"{poll_p95:.2f}", ok=p95 < 1)
    tell("release_of_poll", two / poll, "x", goal="<0.5", peer=f"{poll:.2f}s_at_1_Hz", ok=two < 0.5 * poll)
    eight = median(delays["eight"])
    tell("release_eight_cards", eight / two, "x", goal="0.9-1.1", peer=f"{two:.2f}s_two", ok=0.9 <= eight / two <= 1.1)
    pct = median(delays["pct"])
    tell("release_pct", pct, "s", goal="<0.6", peer=f"{two:.2f}_ssh", ok=pct < 0.6)
