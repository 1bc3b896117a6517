"""A host with one 80 GB card, a node with one for two containers, and a host with two cards for a plain login."""

from collections.abc import Iterator

import pytest

from lab import demo, namespaces
from lab.fleet import H100, L40S, ContainerSpec, Fleet, HostSpec, NodeSpec
from tests.support.fixtures import end_all, short_directory
from tests.support.panel import Panel
from tests.support.story import Story


@pytest.fixture(scope="package")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    if not namespaces.is_inside():
        pytest.fail(
            "These tests need the simulated fleet: run them by `python -m lab enter -- pytest ...`.", pytrace=False
        )
    containers = {129: ContainerSpec(name="chat-box"), 131: ContainerSpec(name="small-box")}
    directory = tmp_path_factory.mktemp("fleet")
    with Fleet(
        directory,
        hosts=[HostSpec(name="gpu1", cards=[H100]), HostSpec(name="desk", cards=[L40S] * 2)],
        nodes=[NodeSpec(name="pve", cards=[H100], containers=containers)],
    ) as running:
        demo.put_models(running, directory)
        yield running


@pytest.fixture(scope="package")
def panel(fleet: Fleet) -> Iterator[Panel]:
    with Panel(short_directory("verifying")) as running:
        running.start("worker")
        running.start("monitor")
        yield running


@pytest.fixture
def story(panel: Panel, fleet: Fleet, django_db_blocker: "pytest.FixtureRequest") -> Iterator[Story]:
    """The panel's person, without hosts; what a test has started ends with it."""
    with django_db_blocker.unblock(), panel.entered():  # type: ignore[attr-defined]
        yield Story.begin()
        forget_everything()
    for machine in fleet.machines:
        end_all(machine)
        fleet.faults.gpu_clear(machine)


def forget_everything() -> None:
    """The next test adds the same machines again, perhaps with another login."""
    from deployments.models import Deployment, Job
    from hosts.models import Host

    for job in Job.objects.all():
        Job.let_go(job.pk)
    Job.objects.all().delete()
    Deployment.objects.all().delete()
    Host.objects.exclude(via=None).delete()
    Host.objects.all().delete()
