"""How long a restart takes: the panel beside what people do today, interleaved, in one run.

The panel's time is from the click to the end of the job, without the time it waited for the approval. Peers are
those of tests/bench/peers.py. RUNS= sets how often each is measured.
"""

import os
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from deployments import runner
from deployments.lifecycle import JobKind
from deployments.models import Deployment, Job
from hosts import links
from lab import demo
from lab.fleet import L40S, RTX_PRO, ContainerSpec, Fleet, HostSpec, NodeSpec
from tests.bench.figures import spread, tell
from tests.bench.peers import Client, Server
from tests.support.panel import Panel
from tests.support.story import Place, Story

NOMINAL = 1.8
"""What the stand-in itself takes: 0.3 s to exit, 0.5 s until its memory is free, 1.0 s to be ready."""
PEER_CARD = 1
LLAMA = ("/lab/bin/llama-server", "-m", "/models/tiny.gguf", "--host", "0.0.0.0", "--metrics")


@dataclass
class Times:
    """Seconds by way, and the panel's by way and step."""

    walls: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    steps: dict[str, dict[str, list[float]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))

    def median(self, way: str) -> float:
        return median(self.walls[way])

    def add(self, way: str, job: Job) -> None:
        """A restart by the panel."""
        gate = job.gates.get()
        assert job.ended_at is not None and gate.answered_at is not None
        waited = gate.answered_at - gate.opened_at
        self.walls[way].append((job.ended_at - job.created_at - waited).total_seconds())
        phases = self.steps[way]
        before, last = gate.opened_at - job.created_at, gate.answered_at
        phases["click to plan"].append(before.total_seconds())
        for step in job.steps.all():
            began = max(step.started_at, gate.answered_at) if step.started_at else last
            phases[f"to {step.name}"].append((began - last).total_seconds())
            phases[step.name].append((step.ended_at - began).total_seconds() if step.ended_at else 0.0)
            last = step.ended_at or last
        phases["to the end"].append((job.ended_at - last).total_seconds())

    def show(self) -> None:
        for way, walls in self.walls.items():
            print(f"  {way:20} {spread(walls)}")
        for way, phases in self.steps.items():
            told = ", ".join(f"{name} {median(values) * 1000:.0f}" for name, values in phases.items())
            print(f"  {way} by step, ms: {told}")


def run(directory: Path) -> None:
    """Measure and print."""
    runs = int(os.environ.get("RUNS", "5"))
    nodes = [NodeSpec(name="pve", cards=[RTX_PRO] * 8, containers={129: ContainerSpec(name="llm-gpu")})]
    with (
        Fleet(directory / "fleet", hosts=[HostSpec(name="gpu1", cards=[L40S] * 2)], nodes=nodes) as fleet,
        Panel(directory / "data") as panel,
        Client(fleet.host("gpu1"), key=fleet.client_key, directory=directory) as client,
    ):
        demo.put_models(fleet, directory)
        story = Story.begin()
        ssh, pct = story.add_host(fleet.host("gpu1")), story.add_container(fleet.container(129))
        panel.start("worker")
        panel.start("monitor")
        standin = measure_standin(story, client, ssh, pct, runs=runs)
        llama = measure_llama(story, client, ssh, runs=runs)
        execs, connections = count_execs(story, panel, ssh)
        for times in (standin, llama):
            times.show()
        tell_all(standin, llama, execs=execs, connections=connections)


def measure_standin(story: Story, client: Client, ssh: Place, pct: Place, *, runs: int) -> Times:
    """All ways with the stand-in engine, one after another, again and again."""
    times = Times()
    command = f"/lab/bin/standin --port 29001 --gpu {PEER_CARD} --mib 20000"
    peer = Server(command, port=29001, card=PEER_CARD, ready="standin ready")
    by_ssh, by_pct = story.deploy_standin(ssh), story.deploy_standin(pct)
    client.start(peer)
    for deployment in (by_ssh, by_pct):
        story.start(deployment)
        restart(story, deployment)  # links, imports and caches are warm from here on
    for _ in range(runs):
        times.add("restart_ssh", restart(story, by_ssh))
        times.walls["floor"].append(client.at_once(peer))
        times.add("restart_pct", restart(story, by_pct))
        times.walls["careful"].append(client.carefully(peer))
        times.walls["manual"].append(client.by_hand(peer))
    client.stop(peer)
    for deployment in (by_ssh, by_pct):
        story.run_job(deployment, JobKind.STOP)
    return times


def measure_llama(story: Story, client: Client, ssh: Place, *, runs: int) -> Times:
    """The real llama.cpp: by hand, at once, and by the panel."""
    times = Times()
    peer = Server(f"{' '.join(LLAMA)} --port 29002 -mg {PEER_CARD}", port=29002, card=PEER_CARD, ready="listening on")
    deployment = story.deploy(ssh, [*LLAMA, "--port", "{port}"], engine="llama_server", cards=(0,))
    client.start(peer)
    story.start(deployment)
    restart(story, deployment)
    for _ in range(runs):
        times.add("llama_panel", restart(story, deployment))
        times.walls["llama_floor"].append(client.at_once(peer))
        times.walls["llama_manual"].append(client.by_hand(peer))
    client.stop(peer)
    story.run_job(deployment, JobKind.STOP)
    return times


def restart(story: Story, deployment: Deployment) -> Job:
    """A restart by doorbell and worker; the approval comes as soon as it is asked for."""
    job = story.ask(deployment)
    deadline = time.monotonic() + 60
    while (gate := job.open_gate) is None:
        assert time.monotonic() < deadline, "no plan within 60 s"
        time.sleep(0.02)
    story.answer(gate, "approve")
    return story.succeeded(job)


def count_execs(story: Story, panel: Panel, ssh: Place) -> tuple[int, int]:
    """Commands and new connections of one clean restart, by the transport's own counters, in this process."""
    deployment = story.deploy_standin(ssh)
    story.start(deployment)
    panel.kill("worker")
    try:
        work_here(story, deployment)
        with links.borrow(ssh.host) as transport:
            before = (transport.counters.execs, links.POOL.counters.opened)
        work_here(story, deployment)
        with links.borrow(ssh.host) as transport:
            return transport.counters.execs - before[0], links.POOL.counters.opened - before[1]
    finally:
        links.POOL.close_all()


def work_here(story: Story, deployment: Deployment) -> None:
    """A restart by the runner in this process."""
    job = story.ask(deployment)
    runner.run(job.pk)
    story.answer(story.gate(job, "plan"), "approve")
    runner.run(job.pk)
    story.succeeded(job)


def tell_all(standin: Times, llama: Times, *, execs: int, connections: int) -> None:
    """The lines of the benchmark."""
    ssh, floor, manual = standin.median("restart_ssh"), standin.median("floor"), standin.median("manual")
    pct, careful = standin.median("restart_pct"), standin.median("careful")
    tell("restart_ssh", ssh, "s", goal="<=1.25x_floor", peer=f"{floor:.2f}", ok=ssh <= 1.25 * floor)
    tell("restart_ssh_ratio", ssh / floor, "x", goal="<=1.25", peer=f"{careful / floor:.2f}", ok=ssh <= 1.25 * floor)
    overhead = (manual - NOMINAL) / max(0.01, ssh - NOMINAL)
    tell("restart_overhead", overhead, "x", goal=">=10", peer=f"{manual:.2f}s_by_hand", ok=overhead >= 10)
    tell("restart_pct", pct, "s", goal="<=1.1x_ssh", peer=f"{ssh:.2f}", ok=pct <= 1.1 * ssh)
    by_hand, panel = llama.median("llama_manual"), llama.median("llama_panel")
    tell("restart_llama", by_hand / panel, "x", goal=">=9", peer=f"{by_hand:.2f}s_by_hand", ok=by_hand >= 9 * panel)
    ok = execs <= 8 and connections == 0
    tell("restart_execs", execs, "execs", goal="<=8_and_0_connections", peer=f"{connections}_connections", ok=ok)
