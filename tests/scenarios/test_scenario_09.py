"""Why a start failed: the earliest cause, in plain words, with a link to its line; each way in which it can fail."""

from __future__ import annotations

import json

import pytest
from django.test import Client
from django.urls import reverse

from deployments.lifecycle import JobKind, JobState, LaunchState
from deployments.models import Check, Deployment, Job, LogChunk
from lab.fleet import Fleet
from tests.support.story import Place, Story, launch_of, log_of, told
from tests.support.waiting import until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

CLEAN = "were at their baseline before the start"
SIGQUIT = "Received sigquit from a child process"


def fail(story: Story, place: Place, mode: str, **hints: float) -> Job:
    """A start that fails in this way."""
    env = {"SGLANG_LAB_MODE": mode, "SGLANG_LAB_HINTS": json.dumps(hints)}
    return story.wait_for(story.begin_job(story.deploy_sglang(place, env=env), JobKind.START), JobState.FAILED)


def line_at(job: Job) -> str:
    """The line of the job's log that the page links to, as the log viewer counts lines."""
    assert job.diagnosis is not None
    chunk = LogChunk.objects.get(job=job, seq=job.diagnosis["log_seq"])
    return chunk.text.split("\n")[job.diagnosis["log_line"]]


def page_of(story: Story, job: Job) -> str:
    client = Client()
    client.force_login(story.actor)
    return client.get(reverse("deployments:job", args=[job.pk])).content.decode()


def test_scenario_09_the_cause_stands_far_above_the_line_that_gives_up(story: Story, place: Place) -> None:
    job = fail(story, place, "oom-pool", noise_lines=400)
    assert job.diagnosis is not None
    said = log_of(job, source="server").split("\n")
    cause = next(number for number, line in enumerate(said) if "Not enough memory" in line)
    gives_up = next(number for number, line in enumerate(said) if SIGQUIT in line)
    assert gives_up - cause > 300, "the lab wrote no noise, so this test shows nothing"

    assert "no memory was left for the KV cache" in job.diagnosis["cause"], told(job)
    assert "the model does not fit; nothing was left over" in job.diagnosis["memory"]
    assert "Not enough memory" in line_at(job) and job.diagnosis["line"] in line_at(job)
    page = page_of(story, job)
    assert f'href="#L-{job.diagnosis["log_seq"]}-{job.diagnosis["log_line"]}"' in page
    assert "no memory was left for the KV cache" in page


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "cause", "memory"),
    [
        ("oom-load", "A card ran out of memory", "the model does not fit; nothing was left over"),
        ("capture-failed", "Too little memory was left to capture CUDA graphs", "does not fit"),
        ("child-exception", "have another shape than the engine expects", CLEAN),
        ("warmup-failed", "does not support this kind of card", CLEAN),
    ],
)
def test_scenario_09_each_way_to_fail(story: Story, gpu1: Place, mode: str, cause: str, memory: str) -> None:
    job = fail(story, gpu1, mode)
    assert job.diagnosis is not None and cause in job.diagnosis["cause"], told(job)
    assert memory in job.diagnosis["memory"] and job.diagnosis["recognised"]
    assert job.diagnosis["line"] in line_at(job)
    assert launch_of(job).state == LaunchState.FAILED


@pytest.mark.slow
def test_scenario_09_a_port_that_was_taken_during_the_load(story: Story, gpu1: Place, fleet: Fleet) -> None:
    deployment = story.deploy_sglang(gpu1, env={"SGLANG_LAB_HINTS": '{"load_seconds": 30}'})
    job = story.begin_job(deployment, JobKind.START)
    until(lambda: launch_of(job).pid if job.launches.exists() else None, seconds=60, what="the start")
    fleet.faults.port_hold(gpu1.machine, "listens", deployment.port)
    story.wait_for(job, JobState.FAILED)
    assert job.diagnosis is not None
    assert f"Port {deployment.port} is already taken" in job.diagnosis["cause"], told(job)


@pytest.mark.parametrize(
    ("mode", "stage"), [("child-killed", "opening its port"), ("never-ready", "loading the weights, 5 of 10")]
)
def test_scenario_09_a_start_that_hangs_is_asked_about_and_never_called_failed(
    story: Story, gpu1: Place, mode: str, stage: str
) -> None:
    deployment = story.deploy_sglang(gpu1, env={"SGLANG_LAB_MODE": mode}, ready_seconds=3)
    job = story.begin_job(deployment, JobKind.START)
    for _ in range(20):  # as often as a slow machine needs
        gate = story.gate(job, "not ready")
        if stage in gate.evidence[0]["text"]:
            break
        story.answer(gate, "longer")
    assert gate.evidence[0]["text"] == f"It has got as far as: {stage}.", gate.evidence
    assert gpu1.servers(deployment.port), "nothing was stopped so far"
    story.answer(gate, "stop")
    story.wait_for(job, JobState.FAILED)
    assert "was stopped; it is down" in job.summary, told(job)
    assert not gpu1.servers(deployment.port)


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "why"), [("empty", "the answer is empty"), ("repeating", "only repeats 'the'")])
def test_scenario_09_a_server_that_answers_nothing_real_has_not_come_up(
    story: Story, gpu1: Place, mode: str, why: str
) -> None:
    job = fail(story, gpu1, mode)
    shown = Check.objects.get(step__job=job, key="completion")
    assert shown.status == "not ok" and why in shown.detail, told(job)
    if mode == "repeating":
        assert "the the the" in shown.detail
    assert Deployment.objects.get(pk=job.deployment_id).live_launch is not None, "it runs, and is not called gone"
