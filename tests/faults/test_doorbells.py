"""A message is only a doorbell: lost, doubled or late, it does no harm."""

import pytest

from deployments.lifecycle import JobKind, JobState
from deployments.models import Effect
from tests.support.panel import Panel
from tests.support.story import Place, Story, one_server, told
from tests.support.waiting import until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]


def test_fault_08_doorbells_that_ring_many_times(story: Story, panel: Panel, gpu1: Place) -> None:
    deployment = story.deploy_standin(gpu1)
    panel.start_worker("one")
    panel.start_worker("two")
    job = story.ask(deployment, JobKind.START)
    for _ in range(20):
        panel.ring(job.pk)
    gate = story.gate(job, "plan")
    story.answer(gate, "approve")
    for _ in range(20):
        panel.ring(job.pk)

    story.succeeded(job)
    for _ in range(5):
        panel.ring(job.pk)
    assert len(gpu1.starts(deployment.port)) == 1
    assert Effect.objects.filter(job=job, kind="launch").count() == 1, told(job)
    second = story.run_job(deployment)
    assert Effect.objects.filter(job=second, kind="launch").count() == 1
    one_server(gpu1, deployment.port)


def test_fault_09_doorbell_is_lost(story: Story, panel: Panel, gpu1: Place) -> None:
    """The broker forgets everything between the click and the work: a sweeper rings again."""
    deployment = story.deploy_standin(gpu1)
    job = story.ask(deployment, JobKind.START)  # nobody works yet, so the message waits in the broker
    panel.flush_broker()
    panel.start_worker("worker")

    story.answer(story.gate(job, "plan", seconds=60), "approve")
    panel.flush_broker()
    story.succeeded(job)
    one_server(gpu1, deployment.port)


def test_fault_09_without_a_sweeper_the_test_above_would_fail(story: Story, panel: Panel, gpu1: Place) -> None:
    deployment = story.deploy_standin(gpu1)
    lost = story.ask(deployment, JobKind.START)
    panel.flush_broker()
    panel.start_worker("worker", sweeps=False)
    other = story.deploy_standin(gpu1, cards=(1,))
    story.gate(story.ask(other, JobKind.START), "plan")  # the worker is at work
    lost.refresh_from_db()
    assert lost.state == JobState.QUEUED


@pytest.mark.slow
def test_fault_10_broker_is_down_in_the_middle_of_a_job(story: Story, panel: Panel, gpu1: Place) -> None:
    deployment = story.deploy_standin(gpu1, "--stop", "3")
    panel.start_worker("worker", lease=30)
    story.start(deployment)
    job = story.begin_job(deployment)
    story.wait_for_log(job, "Sending SIGTERM")

    panel.stop_broker()
    story.succeeded(job)
    waiting = story.ask(deployment)  # accepted while the broker is down
    panel.start_broker()

    story.answer(story.gate(waiting, "plan"), "approve")
    story.succeeded(waiting)
    one_server(gpu1, deployment.port)


def test_fault_14_two_workers_and_two_sweepers_give_one_server(story: Story, panel: Panel, gpu1: Place) -> None:
    """Both sweep twice a second, the lease is as short as a step, and still nothing is done twice."""
    deployment = story.deploy_standin(gpu1)
    for name in ("one", "two", "three"):
        panel.start_worker(name, lease=3)
    story.start(deployment)
    for _ in range(2):
        story.run_job(deployment)
    assert len(gpu1.starts(deployment.port)) == 3
    until(lambda: len(gpu1.servers(deployment.port)) == 1, seconds=20, what="one server")
