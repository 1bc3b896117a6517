"""Benchmarks of servers that really answer: the simulated SGLang, the real llama.cpp, the stand-in; by ssh and pct."""

import http.client
import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from deployments import services
from deployments.benchmark.figures import Level
from deployments.benchmark.wanted import Wanted
from deployments.engines.registry import ENGINES
from deployments.lifecycle import JobState
from deployments.models import Benchmark, Check, Deployment, Job
from tests.support.story import Place, Story, launch_of, told
from tests.support.waiting import until

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(240)]

FASTEST = 350.0
"""Tokens per second of one request to the simulated SGLang, whose time is a tenth."""
LLAMA = ("/lab/bin/llama-server", "-m", "/models/tiny.gguf", "--host", "127.0.0.1", "--metrics", "--port", "{port}")


def ask(story: Story, deployment: Deployment, *at_once: int, tokens: int = 32) -> Job:
    return services.request_benchmark(
        deployment,
        wanted=Wanted(at_once, tokens),
        reason="",
        request_key=uuid.uuid4(),
        actor=story.actor,
        address="",
    )


def measure(story: Story, deployment: Deployment, *at_once: int, tokens: int = 32) -> list[Level]:
    figures = story.measure(deployment, *at_once, tokens=tokens).figures
    assert [level.at_once for level in figures] == list(at_once)
    assert not any(level.failed for level in figures), figures
    return figures


def running(place: Place, deployment: Deployment) -> int | None:
    """How many requests the server itself says that it works on."""
    connection = http.client.HTTPConnection(place.machine.address, deployment.port, timeout=10)
    try:
        connection.request("GET", "/metrics")
        return ENGINES["sglang"].running_requests(connection.getresponse().read().decode())
    finally:
        connection.close()


@contextmanager
def a_user(place: Place, deployment: Deployment, *, tokens: int) -> Iterator[None]:
    """Somebody who waits for a long answer."""
    connection = http.client.HTTPConnection(place.machine.address, deployment.port, timeout=60)
    body = json.dumps({"prompt": "Hello", "max_tokens": tokens, "stream": True})
    connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
    reader = threading.Thread(target=lambda: connection.getresponse().read(), daemon=True)
    reader.start()
    until(lambda: running(place, deployment) == 1, seconds=20, what="the user's request runs")
    yield
    reader.join(60)
    connection.close()


def log_on_host(place: Place, job: Job) -> str:
    """All that the server has written."""
    return place.machine.seen(launch_of(job).log_path).read_text()


def test_the_server_is_asked_exactly_what_was_wanted_and_nothing_is_flushed(story: Story, gpu1: Place) -> None:
    deployment = story.deploy_sglang(gpu1, "--enable-metrics")
    started = story.start(deployment)
    one, eight = measure(story, deployment, 1, 8)
    assert (one.answered, one.tokens, eight.answered, eight.tokens) == (3, 96, 16, 512)
    for level in (one, eight):
        assert level.each and level.first and level.between and level.acceptance is None
        assert level.each.most <= FASTEST * 1.1, "faster than the server can be"
        assert level.beside == 0 and not level.disturbed
    assert one.tokens_per_second and eight.tokens_per_second and eight.tokens_per_second > one.tokens_per_second
    log = log_on_host(gpu1, started)
    assert log.count("POST /generate") == 1 + 1 + 3 + 16, "its own warm-up, ours, and the two levels"
    assert "flush" not in log and "abort" not in log
    assert running(gpu1, deployment) == 0


def test_a_cancel_leaves_no_request_behind(story: Story, gpu1: Place) -> None:
    deployment = story.deploy_sglang(gpu1, "--enable-metrics")
    story.start(deployment)
    job = ask(story, deployment, 8, tokens=8192)
    until(lambda: bool(job.steps.get().data.get("agreed")), seconds=30, what="it has begun", tell=lambda: told(job))
    until(lambda: (running(gpu1, deployment) or 0) > 0, seconds=30, what="requests run", tell=lambda: told(job))
    services.cancel_job(job, actor=story.actor, address="")
    story.wait_for(job, JobState.CANCELLED, seconds=10)
    until(lambda: running(gpu1, deployment) == 0, seconds=10, what="no request runs any more")
    assert not Benchmark.objects.filter(job=job).exists() and not job.touched
    assert gpu1.servers(deployment.port), "the server lives"


def test_more_at_once_than_one_link_to_a_node_carries(story: Story, ct129: Place) -> None:
    deployment = story.deploy_sglang(ct129, "--enable-metrics", "--speculative-algorithm", "NEXTN")
    story.start(deployment)
    one, many = measure(story, deployment, 1, 16)
    assert (one.answered, many.answered) == (3, 32)
    assert one.acceptance is not None and one.acceptance.middle == pytest.approx(2.95, abs=0.01)


@pytest.mark.parametrize("where", ["gpu1", "llm-gpu"])
def test_the_real_llama_server_on_a_port_that_only_its_machine_sees(story: Story, where: str) -> None:
    deployment = story.deploy(story.places[where], LLAMA, engine="llama_server", cards=(0,))
    story.start(deployment)
    one, two = measure(story, deployment, 1, 2, tokens=100)
    assert (one.tokens, two.tokens) == (3 * 100, 4 * 100)
    assert one.first and one.between and one.beside == 0 and two.beside == 0


def test_beside_a_user_it_asks_and_says_how_much_was_done_for_others(story: Story, gpu1: Place) -> None:
    deployment = story.deploy_sglang(gpu1, "--enable-metrics")
    story.start(deployment)
    with a_user(gpu1, deployment, tokens=4000):
        job = ask(story, deployment, 1)
        gate = story.gate(job, "traffic")
        assert gate.title == "1 request of users runs now. Measure beside it?"
        story.answer(gate, "anyway")
        story.succeeded(job)
    (one,) = Benchmark.objects.get(job=job).figures
    assert one.disturbed, one
    assert "were made for others" in Check.objects.get(step__job=job, key="level-1").detail


def test_a_server_that_does_not_stream_tells_less(story: Story, gpu1: Place) -> None:
    deployment = story.deploy_standin(gpu1)
    story.start(deployment)
    job = ask(story, deployment, 2)
    story.answer(story.gate(job, "traffic"), "anyway")
    story.succeeded(job)
    (two,) = Benchmark.objects.get(job=job).figures
    assert (two.answered, two.tokens) == (4, 8), "two tokens each"
    assert two.tokens_per_second and two.first is None and two.between is None and two.beside is None
