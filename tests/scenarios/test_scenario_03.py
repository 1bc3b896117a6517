"""The part without a benchmark: what serves differs from what was proven, named on the page without being asked."""

import shlex

import pytest
from django.test import Client
from django.urls import reverse

from deployments import services
from deployments.lifecycle import JobKind
from deployments.models import Deployment
from tests.support.story import HASTE, Place, Story, launch_of, sglang
from tests.support.waiting import until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

SPEC = ("--speculative-algorithm", "NEXTN", "--speculative-eagle-topk", "1")
PROVEN = (*SPEC, "--speculative-num-steps", "3", "--speculative-num-draft-tokens", "4", "--context-length", "131072")
SLOW = (*SPEC, "--speculative-num-steps", "1", "--speculative-num-draft-tokens", "2")
WORDS = (
    "speculative-num-steps 1, proven 3; speculative-num-draft-tokens 2, proven 4; context-length not set, proven 131072"
)


def page_of(story: Story, deployment: Deployment) -> str:
    client = Client()
    client.force_login(story.actor)
    return client.get(reverse("deployments:deployment", args=[deployment.pk])).content.decode()


def proven(story: Story, place: Place) -> Deployment:
    deployment = story.deploy_sglang(place, *PROVEN)
    services.mark_proven(launch_of(story.start(deployment)), actor=story.actor, address="")
    deployment.refresh_from_db()
    return deployment


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
