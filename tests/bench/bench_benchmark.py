"""The panel's figures beside those of the same requests sent by hand, in turn, in one run: are they the same?

By hand means here: straight over the network to the server's port, with http.client, timed as its lines come. The panel
measures through its tunnel: by SSH, and by a command in a container. Of the simulated SGLang, which makes its tokens by
the clock, and of the real llama.cpp. RUNS= sets how often each is measured.
"""

from __future__ import annotations

import http.client
import json
import os
import threading
import time
import uuid
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from deployments import services
from deployments.benchmark.wanted import Wanted, prompt, requests_at
from deployments.engines.registry import ENGINES
from deployments.lifecycle import JobKind
from deployments.models import Benchmark, Deployment
from lab import demo
from lab.fleet import L40S, RTX_PRO, ContainerSpec, Fleet, HostSpec, NodeSpec
from tests.bench.figures import tell
from tests.support.panel import Panel
from tests.support.story import Place, Story

AT_ONCE = (1, 8)
TOKENS = 128
CLOSE = 0.05
REAL_TIME = {"LAB_TIME_SCALE": "1", "SGLANG_LAB_HINTS": '{"tokens_per_second": 172, "load_seconds": 0.2}'}
LLAMA = ("/lab/bin/llama-server", "-m", "/models/tiny.gguf", "--host", "0.0.0.0", "--metrics", "-np", "8", "-c", "2048")
Figures = dict[str, list[float]]


@dataclass
class Pair:
    """What the panel found and what was found by hand, by figure."""

    panel: Figures = field(default_factory=lambda: defaultdict(list))
    hand: Figures = field(default_factory=lambda: defaultdict(list))


def run(directory: Path) -> None:
    """Measure and print."""
    runs = int(os.environ.get("RUNS") or "3")
    nodes = [NodeSpec(name="pve", cards=[RTX_PRO] * 2, containers={129: ContainerSpec(name="llm-gpu")})]
    with (
        Fleet(directory / "fleet", hosts=[HostSpec(name="gpu1", cards=[L40S] * 2)], nodes=nodes) as fleet,
        Panel(directory / "data") as panel,
    ):
        demo.put_models(fleet, directory)
        story = Story.begin()
        ssh, pct = story.add_host(fleet.host("gpu1")), story.add_container(fleet.container(129))
        panel.start("worker")
        pairs = {
            "sglang": measure(story, ssh, story.deploy_sglang(ssh, "--enable-metrics", env=REAL_TIME), runs=runs),
            "pct": measure(story, pct, story.deploy_sglang(pct, "--enable-metrics", env=REAL_TIME), runs=runs),
        }
        llama = story.deploy(ssh, [*LLAMA, "--port", "{port}"], engine="llama_server", cards=(0,))
        pairs["llama"] = measure(story, ssh, llama, runs=runs)
    for name, pair in pairs.items():
        tell_all(name, pair)


def measure(story: Story, place: Place, deployment: Deployment, *, runs: int) -> Pair:
    """In turn: the panel, by hand, the panel, by hand."""
    story.start(deployment)
    pair = Pair()
    for number in range(runs + 1):
        for figures, way in ((pair.panel, by_panel), (pair.hand, by_hand)):
            found = way(story, place, deployment)
            for name, value in found.items() if number else ():  # the first round only warms up
                figures[name].append(value)
    story.run_job(deployment, JobKind.STOP)
    return pair


def by_panel(story: Story, place: Place, deployment: Deployment) -> dict[str, float]:
    """A job."""
    wanted = Wanted(AT_ONCE, TOKENS)
    key = uuid.uuid4()
    job = services.request_benchmark(
        deployment, wanted=wanted, reason="", request_key=key, actor=story.actor, address=""
    )
    found = {}
    for level in Benchmark.objects.get(job=story.succeeded(job)).figures:
        assert level.tokens_per_second and level.first, level
        found[f"rate_{level.at_once}"] = level.tokens_per_second
        found[f"first_{level.at_once}"] = level.first.middle
        if level.between:  # not known of answers that came in one piece, as of a tiny model on a busy machine
            found[f"between_{level.at_once}"] = level.between.middle
    return found


def by_hand(story: Story, place: Place, deployment: Deployment) -> dict[str, float]:
    """The same requests, from as many threads."""
    found = {}
    for at_once in AT_ONCE:
        answers = ask_all(place.machine.address, deployment, at_once)
        seconds = max(answer.ended for answer in answers) - min(answer.sent for answer in answers)
        found[f"rate_{at_once}"] = TOKENS * len(answers) / seconds
        found[f"first_{at_once}"] = median(answer.first - answer.sent for answer in answers)
        found[f"between_{at_once}"] = median((answer.last - answer.first) / (TOKENS - 1) for answer in answers)
    return found


@dataclass
class Answer:
    sent: float
    first: float = 0.0
    last: float = 0.0
    ended: float = 0.0


def ask_all(address: str, deployment: Deployment, at_once: int) -> list[Answer]:
    """So many requests at once until all are answered."""
    left, answers = list(range(requests_at(at_once))), list[Answer]()
    lock = threading.Lock()

    def work() -> None:
        keeps_open = ENGINES[deployment.profile.engine].bench.keeps_open
        connection = http.client.HTTPConnection(address, deployment.port, timeout=60)
        connection.connect()
        while True:
            with lock:
                if not left:
                    break
                number = left.pop()
            answer = ask(connection, deployment, number)
            with lock:
                answers.append(answer)
            if not keeps_open:
                connection.close()  # the next request opens another
        connection.close()

    threads = [threading.Thread(target=work) for _ in range(at_once)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def ask(connection: http.client.HTTPConnection, deployment: Deployment, number: int) -> Answer:
    """One request; its lines are timed as they come."""
    bench = ENGINES[deployment.profile.engine].bench
    headers = {"Content-Type": "application/json", **({} if bench.keeps_open else {"Connection": "close"})}
    request = bench.request(prompt(uuid.uuid4().hex[:8], number), TOKENS)
    if connection.sock is None:
        connection.connect()
    answer = Answer(time.monotonic())
    connection.request(request.method, request.path, json.dumps(request.body), headers)
    response = connection.getresponse()
    assert response.status == 200, response.read()
    while line := response.readline():
        if line.startswith(b"data: {"):
            answer.last = time.monotonic()
            answer.first = answer.first or answer.last
    answer.ended = time.monotonic()
    return answer


def tell_all(name: str, pair: Pair) -> None:
    """The lines of the benchmark."""
    for figure, values in pair.panel.items():
        mine, theirs = median(values), median(pair.hand[figure])
        ratio = mine / theirs
        ok = abs(ratio - 1) <= CLOSE
        unit = "tokens/s" if figure.startswith("rate") else "s"
        tell(f"benchmark_{name}_{figure}", ratio, "x", goal="0.95-1.05", peer=f"{theirs:.4g}_{unit}_by_hand", ok=ok)
