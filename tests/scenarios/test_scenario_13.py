"""An engine that is older than the model's card asks for: it runs, and nobody knows why it answers badly."""

import pytest
from django.test import Client
from django.urls import reverse

from deployments import services
from deployments.lifecycle import JobKind, JobState
from deployments.models import Check, Deployment, Job
from tests.support.story import Place, Story, launch_of, told

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

ASKED = "0.5.10 or newer"


def with_version(story: Story, deployment: Deployment, version: str, *, stated: str = ASKED) -> Job:
    """Ask for a start with the SGLang of this version, by a revision that states what it is good with."""
    before = deployment.revision
    python = f"/opt/sglang-{version}/bin/python"
    revision = services.add_revision(
        deployment.profile,
        argv=[python, *before.argv[1:]],
        env=before.env,
        workdir="",
        port=before.port,
        ready_pattern="",
        engine_versions=stated,
        notes="",
        actor=story.actor,
        address="",
    )
    return story.ask(deployment, JobKind.START, revision=revision)


def warnings(job: Job) -> list[str]:
    job.refresh_from_db()
    return [warning["text"] for warning in (job.plan or {})["warnings"]]


def test_scenario_13_an_older_engine_is_warned_of_before_the_start(story: Story, place: Place) -> None:
    deployment = story.deploy_sglang(place)
    job = with_version(story, deployment, "0.5.9")
    gate = story.gate(job, "plan")
    (text,) = [text for text in warnings(job) if "known to be good with" in text]
    assert f"SGLang {ASKED}; 0.5.9, which" in text and "is not among them" in text
    client = Client()
    client.force_login(story.actor)
    assert "is not among them" in client.get(reverse("deployments:job", args=[job.pk])).content.decode()
    story.answer(gate, "approve")
    story.succeeded(job)
    # It is a warning, not a ban; what it answers is there for a person to read.
    assert "Paris" in launch_of(job).completion
    page = client.get(reverse("deployments:job", args=[job.pk])).content.decode()
    assert "Paris" in page and "0.5.9" in page
    assert "Paris" in Check.objects.get(step__job=job, key="completion").detail


@pytest.mark.slow
def test_scenario_13_a_version_that_is_stated_is_no_warning(story: Story, place: Place) -> None:
    deployment = story.deploy_sglang(place)
    job = with_version(story, deployment, "0.5.11")
    story.gate(job, "plan")
    assert not [text for text in warnings(job) if "known to be good with" in text]


def test_scenario_13_an_interpreter_that_is_not_there_is_unknown(story: Story, gpu1: Place) -> None:
    deployment = story.deploy_sglang(gpu1)
    job = with_version(story, deployment, "0.4.0")
    ended = story.wait_for_end(job)
    assert ended.state == JobState.FAILED and "The program /opt/sglang-0.4.0/bin/python is not there" in ended.summary


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "words"), [("empty", "empty"), ("repeating", "repeats")])
def test_scenario_13_an_answer_that_nobody_would_accept_is_a_failed_check(
    story: Story, gpu1: Place, mode: str, words: str
) -> None:
    deployment = story.deploy_sglang(gpu1, env={"SGLANG_LAB_MODE": mode})
    failed = story.wait_for(story.begin_job(deployment, JobKind.START), JobState.FAILED)
    check = Check.objects.get(step__job=failed, key="completion")
    assert check.status == "not ok" and words in check.detail, told(failed)
