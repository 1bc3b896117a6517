"""A server that is killed at night: it comes back when its cards are clean and somebody has allowed it, else not."""

import os
import signal
from typing import Any

import pytest
from django.utils import timezone

from deployments import services
from deployments.lifecycle import ENDED, JobState, LaunchState
from deployments.models import Deployment, Job, StandingApproval
from lab.fleet import Fleet
from tests.support.story import PATIENCE, Place, Story, one_server, told
from tests.support.waiting import until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]


def serving(story: Story, place: Place, **policy: Any) -> Deployment:
    """A deployment that serves, and may be started again twice an hour."""
    deployment = story.deploy_sglang(place, **({"crash_starts_per_hour": 2} | policy))
    story.start(deployment)
    services.allow_after_crash(deployment, days=1, reason="", actor=story.actor, address="")
    return deployment


def kill(place: Place, deployment: Deployment) -> None:
    """As the kernel does when memory runs out: the root, and with it all of it."""
    os.kill(one_server(place, deployment.port).process.lab_pid, signal.SIGKILL)
    until(lambda: not place.servers(deployment.port), seconds=PATIENCE, what="end of the server")


def job_after(deployment: Deployment, number: int) -> Job:
    """The panel's own job after the crash with this number, once it has ended."""
    jobs = deployment.jobs.exclude(standing=None)
    until(lambda: jobs.count() >= number and jobs[0].state in ENDED, seconds=PATIENCE, what=f"job {number}")
    assert jobs.count() == number
    return jobs[0]


def left_down(deployment: Deployment) -> str:
    """What the page says once it is left down for a reason."""

    def said() -> str:
        deployment.refresh_from_db()
        return deployment.state_detail if "Not started again" in deployment.state_detail else ""

    return until(said, seconds=PATIENCE, what="a reason", tell=lambda: (deployment.state, deployment.state_detail))


def test_a_killed_server_is_back_by_itself_and_is_one(story: Story, gpu1: Place) -> None:
    deployment = serving(story, gpu1)
    kill(gpu1, deployment)
    job = job_after(deployment, 1)
    assert job.state == JobState.SUCCEEDED, told(job)
    server = one_server(gpu1, deployment.port)
    assert server.entry.launch == str(deployment.launches.get(state=LaunchState.SERVING).pk)
    assert len(gpu1.starts(deployment.port)) == 2
    assert (job.requested_by_name, job.approved_by_name) == ("panel", story.actor.username)
    assert job.gates.get().standing == StandingApproval.objects.get(deployment=deployment)


def test_with_somebody_on_its_cards_it_stays_down(story: Story, gpu1: Place, fleet: Fleet) -> None:
    deployment = serving(story, gpu1)
    Deployment.objects.filter(pk=deployment.pk).update(crash_starts_per_hour=1)
    services.allow_after_crash(deployment, days=1, reason="", actor=story.actor, address="")
    fleet.faults.gpu_hold(gpu1.node, 1, 500)
    kill(gpu1, deployment)
    job = job_after(deployment, 1)
    assert job.state == JobState.FAILED and "Not started again. Somebody else holds GPU 1" in job.summary, told(job)
    assert not job.touched and not job.effects.exists()
    assert "tried once, and the host or its cards were not as they should be" in left_down(deployment)
    assert not gpu1.servers(deployment.port)


@pytest.mark.slow
def test_not_more_often_than_allowed(story: Story, gpu1: Place) -> None:
    deployment = serving(story, gpu1)
    for number in (1, 2):
        kill(gpu1, deployment)
        assert job_after(deployment, number).state == JobState.SUCCEEDED
    kill(gpu1, deployment)
    assert "2 times within an hour, as often as is allowed" in left_down(deployment)
    assert not gpu1.servers(deployment.port) and len(gpu1.starts(deployment.port)) == 3


@pytest.mark.slow
def test_not_after_it_was_revoked(story: Story, gpu1: Place) -> None:
    deployment = serving(story, gpu1)
    services.revoke_standing(StandingApproval.in_force().get(), actor=story.actor, address="")
    kill(gpu1, deployment)
    assert f"{story.actor.username} has revoked it" in left_down(deployment)
    assert not deployment.jobs.exclude(standing=None).exists() and not gpu1.servers(deployment.port)


@pytest.mark.slow
def test_after_a_boot_of_its_host(story: Story, gpu1: Place, fleet: Fleet) -> None:
    deployment = serving(story, gpu1)
    StandingApproval.objects.filter(deployment=deployment).update(given_at=timezone.now())
    fleet.faults.reboot(gpu1.node)
    job = job_after(deployment, 1)
    assert "the host has booted" in job.reason
    assert job.state == JobState.SUCCEEDED, told(job)
    one_server(gpu1, deployment.port)
