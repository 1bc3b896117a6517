"""A server that somebody has started by hand, and that still loads when it is to be stopped."""

import pytest

from deployments.lifecycle import JobKind
from lab import ledger
from lab.fleet import Fleet
from tests.support.story import Story, sglang, told
from tests.support.waiting import until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]


def test_a_server_that_does_not_listen_yet_is_stopped(story: Story, fleet: Fleet) -> None:
    place = story.add_host(fleet.host("desk"))
    deployment = story.deploy_sglang(place)
    argv = " ".join(word.replace("{port}", str(deployment.port)) for word in sglang(cards=2))
    slow = {"LAB_TIME_SCALE": "20", "CUDA_VISIBLE_DEVICES": "0,1"}
    place.machine.exec(["sh", "-c", f"exec setsid -f {argv} > /dev/null 2>&1"], timeout=30, env=slow)
    until(
        lambda: len([process for process in place.machine.processes() if "sglang::scheduler" in process.title]) == 2,
        seconds=60,
        what="its workers",
    )

    job = story.ask(deployment, JobKind.STOP)
    gate = story.gate(job, "plan")
    assert not ledger.listeners(place.machine, deployment.port)
    names = [row["name"] for row in (job.plan or {})["stops"]]
    assert len(names) >= 3, (names, told(job))
    story.answer(gate, "approve")
    story.succeeded(job)
    assert not [process for process in place.machine.processes() if "sglang" in process.title]
