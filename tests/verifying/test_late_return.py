"""A server that something unknown starts again long after its stop: its deployment's page says so."""

import shlex

import pytest

from deployments.lifecycle import JobKind
from deployments.models import Deployment
from lab.fleet import Fleet
from tests.support.story import Story, told
from tests.support.waiting import until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]


def detail(deployment: Deployment) -> str:
    deployment.refresh_from_db()
    return deployment.state_detail


def test_a_server_that_comes_back_after_the_job_is_named_on_the_page(story: Story, fleet: Fleet) -> None:
    place = story.add_host(fleet.host("gpu1"))
    deployment = story.deploy_standin(place)
    story.start(deployment)
    job = story.run_job(deployment, JobKind.STOP)
    assert [gate.kind for gate in job.gates.all()] == ["plan"], told(job)
    until(lambda: detail(deployment) == "", seconds=30, what="the monitor's own look")

    argv = ["/lab/bin/standin", "--port", str(deployment.port), "--gpu", "0", "--mib", "20000"]
    place.machine.exec(["sh", "-c", f"setsid -f {shlex.join(argv)} > /dev/null 2>&1"], timeout=20)

    words = f"Another server serves on its port {deployment.port}: /lab/bin/standin --port {deployment.port}"
    until(lambda: words in detail(deployment), seconds=60, what="its name", tell=lambda: detail(deployment))
    assert deployment.state == "unknown"


@pytest.mark.slow
def test_whoever_takes_the_cards_after_the_job_is_named_on_the_page(story: Story, fleet: Fleet) -> None:
    place = story.add_host(fleet.host("gpu1"))
    deployment = story.deploy_standin(place)
    story.start(deployment)
    story.run_job(deployment, JobKind.STOP)
    fleet.faults.gpu_hold(place.node, 0, 3000)
    words = "Somebody else is on its cards: sleep"
    until(lambda: words in detail(deployment), seconds=60, what="its name", tell=lambda: detail(deployment))
    assert deployment.state == "stopped"
