"""What was decided, and what was measured, is looked at again on the host before a server is launched."""

from __future__ import annotations

import pytest

from deployments.lifecycle import EffectKind, JobKind, JobState
from deployments.models import Effect
from lab.fleet import Fleet
from tests.support.story import Story, log_of, one_server, sglang, told
from tests.support.waiting import until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]


def test_launch_anyway_starts_nothing_beside_a_server_that_came_back(story: Story, fleet: Fleet) -> None:
    """The question is open for a leak, and meanwhile somebody starts the old command by hand; it still loads."""
    place = story.add_host(fleet.host("desk"))
    deployment = story.deploy_sglang(place, cards=(0,), memory_seconds=2, stuck_seconds=3)
    story.start(deployment)
    argv = [word.replace("{port}", str(deployment.port)) for word in sglang(cards=1)]
    newer = story.add_revision(deployment, [*argv, "--log-level", "info"])
    job = story.ask(deployment, JobKind.RESTART, revision=newer)
    gate = story.gate(job, "plan")
    fleet.faults.gpu_leak(place.node, 0, 500)
    story.answer(gate, "approve")
    gate = story.gate(job, "not free")
    assert "anyway" in [choice["key"] for choice in gate.choices]
    by_hand = f"exec setsid -f {' '.join(argv)} > /dev/null 2>&1"
    place.machine.exec(["sh", "-c", by_hand], timeout=30, env={"LAB_TIME_SCALE": "1", "CUDA_VISIBLE_DEVICES": "0"})
    until(lambda: len(place.servers(deployment.port)) == 1, seconds=30, what="the server started by hand")
    story.answer(gate, "anyway", comment="The leak is known.")
    until(lambda: job.gates.filter(kind="not free").count() == 2, seconds=60, what="asked anew", tell=lambda: told(job))
    again = story.gate(job, "not free")
    assert len(place.servers(deployment.port)) == 1 and "anyway" not in [choice["key"] for choice in again.choices]
    assert not Effect.objects.filter(job=job, kind=EffectKind.LAUNCH).exists()


@pytest.mark.slow
def test_a_slow_driver_that_the_monitor_asks_too_keeps_no_server_from_being_launched(
    story: Story, fleet: Fleet
) -> None:
    """Each reading takes 7 s, and the monitor reads on: the launch waits for its turn."""
    place = story.add_host(fleet.host("desk"))
    deployment = story.deploy_standin(place, cards=(0,))
    job = story.ask(deployment, JobKind.START)
    gate = story.gate(job, "plan")
    fleet.faults.gpu(place.node, "slow", "7")
    story.answer(gate, "approve")
    assert story.wait_for_end(job, seconds=200).state == JobState.SUCCEEDED, told(job)
    assert "Looking again" not in log_of(job), told(job)
    one_server(place, deployment.port)
