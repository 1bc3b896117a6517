"""A launch that fails at each point, on real processes: the old revision serves again, is asked about, or fails too."""

import json
from dataclasses import dataclass

import pytest

from deployments.lifecycle import JobState, LaunchState
from deployments.models import Deployment, Job, Revision
from tests.scenarios.models import put_model
from tests.support.story import HASTE, Place, Story, launch_of, one_server, sglang, told

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(240)]


@dataclass(frozen=True)
class Failure:
    """How the new revision fails: its further flags, the lab's mode, what the job says; does it ask before that?"""

    flags: tuple[str, ...] = ()
    mode: str = "normal"
    says: str = ""
    asks: bool = False


FAILURES = {
    "early exit": Failure(flags=("--served-model-name", "a:b"), says="exit code 1"),
    "out of memory": Failure(mode="oom-pool", says="memory"),
    "never ready": Failure(mode="never-ready", says="was not ready in time", asks=True),
    "broken completion": Failure(mode="repeating", says="does not answer as it should"),
}
POINTS = pytest.mark.parametrize("point", FAILURES)


def prepared(story: Story, place: Place, failure: Failure) -> tuple[Deployment, Revision]:
    """A deployment that serves a model of its own, and the revision that will fail."""
    config = {"architectures": ["Qwen3ForCausalLM"], "lab": {"weights_mib": 8000, "load_seconds": 0.5}}
    model = put_model(place, "own", config).rpartition("/")[2]
    deployment = story.deploy_sglang(place, model=model)
    story.start(deployment)
    Deployment.objects.filter(pk=deployment.pk).update(ready_seconds=3 if failure.asks else None)
    env = {**HASTE, "SGLANG_LAB_MODE": failure.mode}
    return deployment, story.add_revision(deployment, sglang(*failure.flags, cards=2), env=env)


def failed(story: Story, deployment: Deployment, new: Revision, failure: Failure, *, way_back: bool) -> Job:
    """A restart with it, approved; one that is asked about is stopped by a person."""
    job = story.begin_job(deployment, revision=new, way_back=way_back)
    if failure.asks:
        gate = story.gate(job, "not ready")
        Deployment.objects.filter(pk=deployment.pk).update(ready_seconds=60)  # the old one gets its time
        story.answer(gate, "stop")
    return job


def serves_again(place: Place, deployment: Deployment, job: Job) -> None:
    server = one_server(place, deployment.port)
    launch = launch_of(job)
    assert server.entry.launch == str(launch.pk), told(job)
    assert launch.revision == job.previous_revision and launch.state == LaunchState.SERVING
    assert job.state == JobState.FAILED, "the restart did not do what it was asked for"
    assert f"The new revision failed; {job.previous_revision} serves again." in job.summary
    assert len(place.starts(deployment.port)) == 3, "the first, the one that failed, and the first again"


@POINTS
def test_ticked_the_old_revision_serves_again(story: Story, place: Place, point: str) -> None:
    failure = FAILURES[point]
    deployment, new = prepared(story, place, failure)
    job = failed(story, deployment, new, failure, way_back=True)
    story.wait_for_end(job)
    serves_again(place, deployment, job)
    steps = job.steps.filter(way_back=False, state="failed")
    assert failure.says in steps.get().summary, told(job)
    assert [step.state for step in job.steps.filter(way_back=True)] == ["done"] * 4


@POINTS
def test_unticked_a_person_decides(story: Story, place: Place, point: str) -> None:
    failure = FAILURES[point]
    deployment, new = prepared(story, place, failure)
    job = failed(story, deployment, new, failure, way_back=False)
    if failure.asks:  # who has decided to stop it is not asked again
        story.wait_for(job, JobState.FAILED)
        assert not place.servers(deployment.port) and "is down" in job.summary
        return
    gate = story.gate(job, "way back")
    assert failure.says in gate.text, told(job)
    assert len(place.servers(deployment.port)) == (1 if point == "broken completion" else 0)
    story.answer(gate, "back")
    story.wait_for_end(job)
    serves_again(place, deployment, job)


@POINTS
def test_a_way_back_that_fails_too_says_so_and_stops(story: Story, place: Place, point: str) -> None:
    failure = FAILURES[point]
    deployment, new = prepared(story, place, failure)
    config = place.machine.seen("/models/own/config.json")
    broken = json.loads(config.read_text())
    broken["lab"]["mode"] = "oom-load"
    config.write_text(json.dumps(broken))
    job = failed(story, deployment, new, failure, way_back=True)
    story.wait_for(job, JobState.FAILED)
    assert f"Starting {job.previous_revision} again failed too:" in job.summary, told(job)
    assert failure.says in job.summary and "is down" in job.summary
    assert not place.servers(deployment.port)
    assert len(place.starts(deployment.port)) == 3, "it is tried once"
    assert deployment.live_launch is None
