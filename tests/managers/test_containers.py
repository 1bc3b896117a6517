"""A server in a container of docker: a look-alike with real processes, namespaces and control groups."""

import pytest

from deployments.lifecycle import JobKind, JobState
from deployments.models import Effect
from lab.fleet import Fleet
from tests.managers.keepers import (
    Bystander,
    adopted,
    evidence_of,
    run,
    signalled,
    start_container,
    start_docker,
    wait_for_server,
)
from tests.support.story import Place, Story, told

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]


def test_a_container_is_stopped_by_docker_and_its_neighbour_is_not(story: Story, with_systemd: Place) -> None:
    deployment = adopted(story, with_systemd, started_by="transient")
    start_docker(with_systemd)
    other = Bystander(with_systemd, "other")
    run(with_systemd, f"docker run -d --name other --restart always sglang {other.command}")
    other.wait()
    start_container(with_systemd, deployment)

    job = story.ask(deployment)
    plan = story.gate(job, "plan").job.plan
    assert plan is not None and "'container chat'" in str(plan["sections"]), plan
    assert "restarts it: always" in str(plan["sections"])
    assert "docker start" in plan["way_back"]["text"]
    story.approve(job)
    story.succeeded(job)

    stop = Effect.objects.get(job=job, kind="stop by its manager")
    assert stop.command.startswith("docker stop -t 10 "), stop.command
    assert not signalled(job)
    assert run(with_systemd, "docker inspect -f '{{.State.Status}}' chat").strip() == "exited"
    ours = [each for each in with_systemd.servers(deployment.port) if each.entry.launch]
    assert len(ours) == 1, "and the one that serves is ours"
    other.assert_unharmed()


@pytest.mark.slow
def test_a_container_that_somebody_starts_again_is_named_and_left_alone(
    story: Story, with_systemd: Place, fleet: Fleet
) -> None:
    deployment = adopted(story, with_systemd)
    start_docker(with_systemd)
    start_container(with_systemd, deployment)
    fleet.faults.gpu_leak(with_systemd.node, 0, 1000)  # so that it is looked at until the other has acted
    loop = "while :; do docker start chat; sleep 0.2; done"
    job = story.ask(deployment)
    gate = story.gate(job, "plan")
    run(with_systemd, f"systemd-run --quiet --collect --unit=watch sh -c '{loop}'")
    story.answer(gate, "approve")

    gate = story.gate(job, "not free")
    assert gate.title == "The server has come back by itself", told(job)
    assert "has started it again" in evidence_of(gate) and "container" in evidence_of(gate)
    assert "kill" not in [choice["key"] for choice in gate.choices]
    story.answer(gate, "leave")
    story.wait_for(job, JobState.FAILED)
    assert wait_for_server(with_systemd, deployment)
    assert not signalled(job)


@pytest.mark.slow
def test_a_docker_that_does_not_answer_stops_nothing(story: Story, with_systemd: Place) -> None:
    deployment = adopted(story, with_systemd)
    start_docker(with_systemd)
    start_container(with_systemd, deployment)
    run(with_systemd, "rm /run/docker.sock")

    job = story.wait_for(story.ask(deployment, JobKind.STOP), JobState.FAILED)

    assert "Cannot connect to the Docker daemon" in job.summary and "Nothing was touched" in job.summary, told(job)
    assert wait_for_server(with_systemd, deployment)
