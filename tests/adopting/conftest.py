"""Servers that people have started in all the ways there are, on a fleet of their own."""

import shutil
from collections.abc import Iterator

import pytest

from lab import cgroups, demo, namespaces
from lab.fleet import L40S, ContainerSpec, Fleet, HostSpec, NodeSpec
from tests.adopting.people import end_all
from tests.support.fixtures import short_directory
from tests.support.panel import Panel
from tests.support.story import Place, Story
from tests.verifying.conftest import forget_everything


@pytest.fixture(scope="package")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A plain host with two cards, a node with a container, and one with systemd and docker where that is possible."""
    if not namespaces.is_inside():
        pytest.fail("Run these tests by `python -m lab enter -- pytest ...`.", pytrace=False)
    hosts = [HostSpec(name="desk", cards=[L40S] * 2)]
    if not cgroups.why_no_systemd():
        hosts.append(HostSpec(name="units", cards=[L40S] * 2, systemd=True))
    directory = tmp_path_factory.mktemp("fleet")
    node = NodeSpec(name="pve", cards=[L40S] * 2, containers={129: ContainerSpec(name="box")})
    with Fleet(directory, hosts=hosts, nodes=[node]) as running:
        demo.put_models(running, directory)
        yield running


@pytest.fixture(scope="package")
def panel(fleet: Fleet) -> Iterator[Panel]:
    with Panel(short_directory("adopting")) as running:
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
        for left in ("/run/lock/relaunch", "/tmp/relaunch-locks", "/root/.relaunch"):
            shutil.rmtree(machine.seen(left), ignore_errors=True)


@pytest.fixture
def desk(story: Story, fleet: Fleet) -> Place:
    """A host without systemd."""
    return story.add_host(fleet.host("desk"))


@pytest.fixture
def units(story: Story, fleet: Fleet) -> Place:
    """A host whose PID 1 is systemd, with docker; skips with the reason where there cannot be one."""
    if why_not := cgroups.why_no_systemd():
        pytest.skip(f"no machine with systemd here: {why_not}")
    return story.add_host(fleet.host("units"))
