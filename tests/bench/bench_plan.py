"""How long the plan of a restart takes, from the click until it can be approved, and how often its host is asked.

The peer is what somebody looks up by hand before such a restart, over a connection that is open: one command after the
other, and no time to type or to read. RUNS= sets how often each is measured.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from pathlib import Path
from statistics import median, quantiles

from deployments import runner
from deployments.lifecycle import JobState
from deployments.models import Deployment, Revision
from hosts import links
from hosts.models import Host
from lab import demo
from lab.fleet import L40S, RTX_PRO, ContainerSpec, Fleet, HostSpec, NodeSpec
from tests.bench.figures import spread, tell
from tests.bench.peers import Client
from tests.support.panel import Panel
from tests.support.story import Place, Story, sglang, told

GOAL_SECONDS = 2.0
GOAL_ROUND_TRIPS = 2
"""One probe and one read of the model."""
FLAGS = ("--mem-fraction-static", "0.88", "--context-length", "65536")
MODEL = "/models/qwen-27b"
BY_HAND = (
    "nvidia-smi",
    "nvidia-smi --query-compute-apps=pid,gpu_uuid,used_memory --format=csv",
    "ps -eo pid,ppid,user,lstart,args",
    "ss -Hltnp || netstat -ltnp",
    "ls -l /proc/[0-9]*/fd 2> /dev/null | grep nvidia",
    "df -h / /dev/shm",
    f"cat {MODEL}/config.json; ls -l {MODEL}",
    "/lab/bin/python -m sglang.launch_server --help",
)
"""Who serves, who holds the cards and the port, room, the model, and which flags this version knows."""


def run(directory: Path) -> None:
    """Measure and print."""
    runs = int(os.environ.get("RUNS") or "15")
    nodes = [NodeSpec(name="pve", cards=[RTX_PRO] * 8, containers={129: ContainerSpec(name="llm-gpu")})]
    with (
        Fleet(directory / "fleet", hosts=[HostSpec(name="gpu1", cards=[L40S] * 2)], nodes=nodes) as fleet,
        Panel(directory / "data") as panel,
        Client(fleet.host("gpu1"), key=fleet.client_key, directory=directory) as client,
    ):
        demo.put_models(fleet, directory)
        story = Story.begin()
        places = {"ssh": story.add_host(fleet.host("gpu1")), "pct": story.add_container(fleet.container(129))}
        panel.start("worker")
        panel.start("monitor")
        serving = {way: serve(story, place) for way, place in places.items()}
        walls: dict[str, list[float]] = defaultdict(list)
        for asked in serving.values():
            plan(story, *asked)  # links, imports and caches are warm from here on
        for _ in range(runs):
            for way, asked in serving.items():
                walls[way].append(plan(story, *asked))
            walls["by hand"].append(by_hand(client))
        panel.kill("worker")
        trips = {way: round_trips(story, places[way], *asked) for way, asked in serving.items()}
        tell_all(walls, trips)


def serve(story: Story, place: Place) -> tuple[Deployment, Revision]:
    """An SGLang that runs, and the revision with other flags that is to take its place."""
    deployment = story.deploy_sglang(place, "--enable-metrics")
    story.start(deployment)
    return deployment, story.add_revision(deployment, sglang("--enable-metrics", *FLAGS, cards=2))


def plan(story: Story, deployment: Deployment, revision: Revision) -> float:
    """Seconds from the click until the whole plan can be approved; it is discarded then."""
    job = story.ask(deployment, revision=revision)
    gate = story.gate(job, "plan")
    assert job.plan is not None and not job.plan["blocked"] and job.plan["fit"]["tables"], told(job)
    story.answer(gate, "discard")
    story.wait_for(job, JobState.REJECTED)
    return (gate.opened_at - job.created_at).total_seconds()


def by_hand(client: Client) -> float:
    """Seconds for the same, one command after the other."""
    began = time.monotonic()
    for command in BY_HAND:
        client.warm(command)
    return time.monotonic() - began


def round_trips(story: Story, place: Place, deployment: Deployment, revision: Revision) -> int:
    """Commands on the host, and on its node, for one plan, by the transports' own counters; links are warm."""
    try:
        for _ in range(2):
            before = commands(place.host)
            job = story.ask(deployment, revision=revision)
            runner.run(job.pk)
            asked = commands(place.host) - before
            story.answer(story.gate(job, "plan"), "discard")
            runner.run(job.pk)
        return asked
    finally:
        links.POOL.close_all()


def commands(host: Host) -> int:
    """Those that were sent so far over the links to the host and to its node, which may be one."""
    counters = {}
    for machine in {host, host.machine}:
        with links.borrow(machine) as transport:
            counters[id(transport.counters)] = transport.counters.execs
    return sum(counters.values())


def tell_all(walls: dict[str, list[float]], trips: dict[str, int]) -> None:
    """The lines of the benchmark."""
    for way, seconds in walls.items():
        print(f"  {way:8} {spread(seconds)}")
    hand = median(walls["by hand"])
    for way in ("ssh", "pct"):
        middle, p95 = median(walls[way]), quantiles(walls[way], n=20, method="inclusive")[-1]
        tell(f"plan_{way}", middle, "s", goal="<2", peer=f"{hand:.2f}s_by_hand", ok=middle < GOAL_SECONDS)
        tell(f"plan_{way}_p95", p95, "s", goal="<2", peer=f"{max(walls['by hand']):.2f}_most", ok=p95 < GOAL_SECONDS)
        most = GOAL_ROUND_TRIPS + (way == "pct")  # the node sees the cards as the container cannot
        ok = trips[way] <= most
        tell(f"plan_{way}_execs", trips[way], "execs", goal=f"<={most}", peer=f"{len(BY_HAND)}_by_hand", ok=ok)
