"""A port that somebody has bound without listening: seen before the launch, said at the gate, waited for."""

import pytest

from deployments.lifecycle import JobKind
from lab.fleet import Fleet
from tests.support.panel import Panel
from tests.support.story import Place, Story

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]


def test_a_server_that_loads_on_the_same_port_is_a_gate(story: Story, panel: Panel, place: Place, fleet: Fleet) -> None:
    deployment = story.deploy_standin(place, port_seconds=1)
    pid = fleet.faults.port_hold(place.machine, "bound-reuse", deployment.port)
    panel.start_worker("worker")
    job = story.begin_job(deployment, JobKind.START)
    gate = story.gate(job, "not free")
    said = str(gate.evidence)
    assert f"Port {deployment.port} is taken: " in said and f"(pid {pid}, root)" in said and "still loads" in said
    assert place.starts(deployment.port) == []
    fleet.faults.port_free(place.machine)
    story.answer(gate, "again")
    story.succeeded(job)
    assert len(place.starts(deployment.port)) == 1


def test_what_has_the_port_elsewhere_does_not_stand_in_the_way(
    story: Story, panel: Panel, place: Place, fleet: Fleet
) -> None:
    deployment = story.deploy_standin(place, port_seconds=1)
    fleet.faults.port_hold(place.machine, "elsewhere", deployment.port)
    if place.node is not place.machine:
        fleet.faults.port_hold(place.node, "listens", deployment.port)
    panel.start_worker("worker")
    story.start(deployment)
