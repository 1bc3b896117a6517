"""A card that cannot be used is named before anything is stopped, with what to do; on a host and in a container."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from deployments.lifecycle import JobKind, JobState
from deployments.models import Deployment, Job
from lab.fleet import Container, Fleet
from tests.support.panel import Panel
from tests.support.story import Place, Story, one_server, told

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]


@pytest.fixture
def served(panel: Panel, story: Story, place: Place) -> Iterator[Deployment]:
    """A stand-in on the first card that serves."""
    panel.start("worker")
    deployment = story.deploy_standin(place)
    story.start(deployment)
    yield deployment
    if isinstance(place.machine, Container):  # its device files come from its node when it starts
        place.machine.stop()
        place.machine.start()


def refused(story: Story, deployment: Deployment, kind: JobKind = JobKind.RESTART) -> Job:
    """A job that ends at its plan."""
    job = story.wait_for_end(story.ask(deployment, kind))
    assert job.state == JobState.FAILED and not job.touched, told(job)
    return job


def xid(fleet: Fleet, place: Place) -> None:
    fleet.faults.gpu_xid(place.node, 0, 79)


def reset(fleet: Fleet, place: Place) -> None:
    fleet.faults.gpu(place.node, "cell 0 reset_status.reset_required Yes\ncell 0 gpu_recovery_action GPU Reset")


def lost(fleet: Fleet, place: Place) -> None:
    fleet.faults.gpu(place.node, "lost 0")


def fabric(fleet: Fleet, place: Place) -> None:
    fleet.faults.fabric_manager_down(place.node)


def files(fleet: Fleet, place: Place) -> None:
    if isinstance(place.machine, Container):
        fleet.faults.ct_nodes_missing(place.machine, "nvidia-uvm")
    else:
        place.machine.exec(["rm", "/dev/nvidia-uvm"], timeout=10)


@pytest.mark.parametrize(
    ("break_it", "text", "todo"),
    [
        (xid, "(Xid 79, less than 2 minutes before this look): it has fallen off the bus", "Reboot {node}."),
        (reset, "GPU 0 waits for a reset", "reset it as root on {node}"),
        (lost, "GPU 0 is lost", "Reboot {node}."),
        (fabric, "GPU 0 has not joined its NVLink fabric", "systemctl start nvidia-fabricmanager"),
        (files, "/dev/nvidia-uvm is missing", "As root on {node}"),
    ],
    ids=["xid", "reset", "lost", "fabric", "files"],
)
def test_a_restart_onto_a_card_that_cannot_be_used_stops_nothing(
    story: Story,
    fleet: Fleet,
    place: Place,
    served: Deployment,
    break_it: Callable[[Fleet, Place], None],
    text: str,
    todo: str,
) -> None:
    before = one_server(place, served.port).process.pid
    break_it(fleet, place)
    job = refused(story, served)
    assert text.format(node=place.node.name) in job.summary, told(job)
    assert todo.format(node=place.node.name) in job.hint, told(job)
    assert one_server(place, served.port).process.pid == before
    if break_it is xid:
        stopped = story.run_job(served, JobKind.STOP)
        assert stopped.state == JobState.SUCCEEDED and not place.servers(served.port)
        row = stopped.steps.get(name="verify").checks.get(key="usable")
        assert row.status == "not ok" and "Xid 79" in row.detail


@pytest.mark.slow
def test_a_programs_own_fault_is_nothing_and_the_card_is_shown_as_usable(
    story: Story, fleet: Fleet, place: Place, served: Deployment
) -> None:
    fleet.faults.gpu_xid(place.node, 0, 31)
    fleet.faults.gpu_xid(place.node, 1, 79)
    job = story.run_job(served)
    row = job.steps.get(name="verify").checks.get(key="usable")
    assert (row.status, row.value, row.detail) == ("ok", "usable", ""), told(job)
