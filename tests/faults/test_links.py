"""Hosts that fall silent: unreachable means unknown, never stopped, never free."""

import pytest

from deployments.lifecycle import JobState
from deployments.models import Check, Effect, Job
from lab.fleet import Fleet
from tests.support.panel import Panel
from tests.support.story import Place, Story, launch_of, one_server, told
from tests.support.waiting import until

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(300)]


def wait_for_signal(job: Job) -> None:
    """Until the host has said that it has signalled and who still lives."""
    shown = Check.objects.filter(step__job=job, key="processes")
    until(shown.exists, seconds=60, what="the signal", tell=lambda: told(job))


def test_fault_20_link_is_gone_during_the_stop_and_comes_back(
    story: Story, panel: Panel, gpu2: Place, clean_fleet: Fleet
) -> None:
    deployment = story.deploy_standin(gpu2, "--stop", "6")
    panel.start_worker("worker", lease=10)
    story.start(deployment)
    job = story.begin_job(deployment)
    wait_for_signal(job)

    clean_fleet.faults.link_down(gpu2.node)
    story.wait_for(job, JobState.UNKNOWN, seconds=120)

    assert "may still be served" in job.summary and job.contact_lost_at is not None, told(job)
    assert job.card_claims.exists() and job.port_claims.exists(), "its claims were let go"
    until(lambda: not gpu2.servers(deployment.port), seconds=60, what="end of the old server")
    assert len(gpu2.starts(deployment.port)) == 1
    clean_fleet.faults.link_up(gpu2.node)

    story.succeeded(job, seconds=150)
    assert one_server(gpu2, deployment.port).entry.launch == str(launch_of(job).pk)
    assert len(gpu2.starts(deployment.port)) == 2
    assert "is back after" in "".join(job.log.values_list("text", flat=True))


def test_fault_21_unreachable_before_the_first_effect_touches_nothing(
    story: Story, panel: Panel, gpu2: Place, clean_fleet: Fleet
) -> None:
    deployment = story.deploy_standin(gpu2)
    panel.start_worker("worker", lease=30)
    story.start(deployment)
    server = one_server(gpu2, deployment.port).process
    job = story.ask(deployment)
    gate = story.gate(job, "plan")
    clean_fleet.faults.link_down(gpu2.node)

    story.answer(gate, "approve")
    story.wait_for(job, JobState.FAILED, seconds=120)

    assert job.summary.count("Nothing was touched") == 1 and job.hint, told(job)
    assert not job.touched and not Effect.objects.filter(job=job).exists()
    assert not job.card_claims.exists()
    assert one_server(gpu2, deployment.port).process == server


def test_fault_22_sessions_hang_during_the_stop(story: Story, panel: Panel, gpu2: Place, clean_fleet: Fleet) -> None:
    """The machine answers pings, its SSH sessions do not: as silent as a pulled cable."""
    deployment = story.deploy_standin(gpu2, "--stop", "6")
    panel.start_worker("worker", lease=10)
    story.start(deployment)
    job = story.begin_job(deployment)
    wait_for_signal(job)

    clean_fleet.faults.sshd_freeze(gpu2.node)
    story.wait_for(job, JobState.UNKNOWN, seconds=120)
    assert len(gpu2.starts(deployment.port)) == 1
    clean_fleet.faults.sshd_thaw(gpu2.node)

    story.succeeded(job, seconds=150)
    assert len(gpu2.starts(deployment.port)) == 2
    one_server(gpu2, deployment.port)
