"""Slower than the team remembers: what differs from the proven flags, one click back, and figures before and after."""

import re
import shlex
import uuid
from html import unescape

import pytest
from django.test import Client
from django.urls import reverse

from deployments import services
from deployments.lifecycle import JobKind
from deployments.models import Benchmark, Deployment, Job
from tests.support.story import HASTE, Place, Story, launch_of, sglang
from tests.support.waiting import until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

SPEC = ("--enable-metrics", "--speculative-algorithm", "NEXTN", "--speculative-eagle-topk", "1")
PROVEN = (*SPEC, "--speculative-num-steps", "3", "--speculative-num-draft-tokens", "4", "--context-length", "131072")
SLOW = (*SPEC, "--speculative-num-steps", "1", "--speculative-num-draft-tokens", "2")
WORDS = (
    "speculative-num-steps 1, proven 3; speculative-num-draft-tokens 2, proven 4; context-length not set, proven 131072"
)


def page_of(story: Story, deployment: Deployment) -> str:
    client = Client()
    client.force_login(story.actor)
    return client.get(reverse("deployments:deployment", args=[deployment.pk])).content.decode()


def words_of(page: str) -> str:
    """A page without its markup."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", page)))


def proven(story: Story, place: Place) -> Deployment:
    deployment = story.deploy_sglang(place, *PROVEN)
    services.mark_proven(launch_of(story.start(deployment)), actor=story.actor, address="")
    deployment.refresh_from_db()
    return deployment


def back_by_one_click(story: Story, deployment: Deployment) -> Job:
    """The button on the deployment's page opens the form with the proven revision chosen; its plan is approved."""
    client = Client()
    client.force_login(story.actor)
    path = reverse("deployments:plan_restart", args=[deployment.pk])
    assert f"{path}?which=proven" in page_of(story, deployment)
    form = client.get(path, {"which": "proven"}).content.decode()
    chosen = re.search(r'value="(\w+)" checked', form)
    assert chosen is not None
    said = {"which": chosen[1], "reason": "It was faster", "request_key": str(uuid.uuid4()), "way_back": "on"}
    answer = client.post(path, said)
    return story.succeeded(story.approve(Job.objects.get(pk=int(answer["Location"].strip("/").rpartition("/")[2]))))


def best(measured: Benchmark) -> float:
    """Tokens per second of the fastest single request: a busy machine slows others."""
    (level,) = measured.figures
    assert level.each is not None
    return level.each.most


@pytest.mark.parametrize("where", ["gpu1", pytest.param("llm-gpu", marks=pytest.mark.slow)])
def test_scenario_03_the_benchmark_before_and_after_stands_side_by_side(story: Story, where: str) -> None:
    place = story.places[where]
    deployment = proven(story, place)
    fast = story.measure(deployment, 1)
    story.run_job(deployment, revision=story.add_revision(deployment, sglang(*SLOW, cards=2)))
    slow = story.measure(deployment, 1)
    assert best(slow) < best(fast)
    text = words_of(page_of(story, deployment))
    assert f"Differs from proven: {WORDS}." in text
    # 1 step keeps 1.8 tokens, 3 steps keep 2.95 of them
    assert "1.80 proven 2.95 : -39 %, worse" in text, text

    job = back_by_one_click(story, deployment)
    assert launch_of(job).revision == deployment.proven_revision
    again = story.measure(deployment, 1)
    assert best(again) > best(slow)
    text = words_of(page_of(story, deployment))
    assert "2.95 proven 2.95 : about the same" in text and "Differs from proven" not in text
    assert "3 benchmarks" in text


@pytest.mark.slow
def test_scenario_03_flags_that_are_not_the_proven_ones_are_named(story: Story, place: Place) -> None:
    deployment = proven(story, place)
    assert "Differs from proven" not in page_of(story, deployment)
    slow = story.add_revision(deployment, sglang(*SLOW, cards=2))
    story.run_job(deployment, revision=slow)
    assert f"Differs from proven: {WORDS}." in page_of(story, deployment)
    assert "Restart with the proven revision" in page_of(story, deployment)
    story.run_job(deployment, revision=deployment.proven_revision)
    assert "Differs from proven" not in page_of(story, deployment)


@pytest.mark.slow
def test_scenario_03_also_of_a_server_that_somebody_else_has_started(story: Story, place: Place) -> None:
    deployment = proven(story, place)
    story.run_job(deployment, JobKind.STOP)
    words = [word.replace("{port}", str(deployment.port)) for word in sglang(*SLOW, cards=2)]
    start = f"exec setsid -f {shlex.join(words)} > /tmp/by-hand.log 2>&1"
    place.machine.exec(["sh", "-c", start], timeout=30, env=HASTE)

    def found() -> bool:
        deployment.refresh_from_db()
        return bool(deployment.found.get("effective"))

    until(found, seconds=60, what="the monitor finds the server")
    text = page_of(story, deployment)
    assert "a server that Relaunch did not start" in text
    assert f"Differs from proven: {WORDS}." in text
    assert "engine version <span" in text, "it was asked for its configuration"
    log = place.machine.seen("/tmp/by-hand.log").read_text()
    assert "GET /server_info" in log and "GET /health" not in log
    assert log.count("POST /generate") == 1, "only its own warm-up: to look at it makes it generate nothing"
