"""A fleet with everything that looks after servers: real systemd and supervisord, a docker look-alike, tmux."""

import shutil
from collections.abc import Iterator

import pytest

from deployments.lifecycle import ACTIVE, JobState
from deployments.models import CardClaim, Job, Launch, PortClaim
from lab import cgroups, demo, namespaces
from lab.fleet import L40S, ContainerSpec, Fleet, HostSpec, NodeSpec
from tests.managers.keepers import end_all
from tests.support.fixtures import short_directory
from tests.support.panel import Panel
from tests.support.story import Place, Story

PLAIN, SYSTEMD = {"ssh": "gpu1", "pct": "plain"}, {"ssh": "units", "pct": "inner"}
"""Machines by the way to them; those of the second kind have systemd as PID 1."""


@pytest.fixture(scope="package")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A host and a container of a node without systemd, and, where that is possible, one each with it."""
    if not namespaces.is_inside():
        pytest.fail("Run these tests by `python -m lab enter -- pytest ...`.", pytrace=False)
    possible = not cgroups.why_no_systemd()
    hosts = [HostSpec(name="gpu1", cards=[L40S] * 2)]
    containers = {129: ContainerSpec(name="plain")}
    if possible:
        hosts.append(HostSpec(name="units", cards=[L40S] * 2, systemd=True))
        containers[131] = ContainerSpec(name="inner", systemd=True)
    directory = tmp_path_factory.mktemp("fleet")
    node = NodeSpec(name="pve", cards=[L40S] * 2, containers=containers)
    with Fleet(directory, hosts=hosts, nodes=[node]) as running:
        demo.put_models(running, directory)
        yield running


@pytest.fixture(scope="package")
def panel() -> Iterator[Panel]:
    """The panel of them all, with one worker."""
    with Panel(short_directory("managers")) as panel:
        panel.start("worker")
        yield panel


@pytest.fixture
def dying(panel: Panel, story: Story) -> Iterator[None]:
    """For once the only worker is one that dies when a launch was sent, before anything of it is stored."""
    panel.kill("worker")
    panel.start_worker("dies", at="launch-sent=kill", lease=4.0)
    yield
    if "dies" in panel.processes:
        panel.kill("dies")
    if "other" in panel.processes:
        panel.kill("other")
    panel.start("worker")


@pytest.fixture(scope="package")
def _everywhere(fleet: Fleet, panel: Panel, django_db_blocker: "pytest.FixtureRequest") -> Iterator[Story]:
    with django_db_blocker.unblock(), panel.entered():  # type: ignore[attr-defined]
        story = Story.begin()
        for machine in fleet.hosts:
            story.add_host(machine)
        for container in fleet.node("pve").containers.values():
            story.add_container(container)
        yield story


@pytest.fixture
def story(_everywhere: Story, fleet: Fleet) -> Iterator[Story]:
    """The panel's person; afterwards nothing runs on the machines but themselves."""
    yield _everywhere
    Job.objects.filter(state__in=ACTIVE).update(state=JobState.CANCELLED, lease_until=None, owner="")
    CardClaim.objects.all().delete()
    PortClaim.objects.all().delete()
    Launch.objects.exclude(state="ended").update(state="ended")
    for machine in fleet.machines:
        fleet.faults.gpu_clear(machine)
    for place in _everywhere.places.values():
        if place.machine is not fleet.node("pve"):  # its processes are also those of its containers
            end_all(place)
        for locks in ("/run/lock/relaunch", "/tmp/relaunch-locks"):
            shutil.rmtree(place.machine.seen(locks), ignore_errors=True)


@pytest.fixture(params=["ssh", pytest.param("pct", marks=pytest.mark.slow)])
def plain(request: pytest.FixtureRequest, story: Story) -> Place:
    """A machine without systemd."""
    return story.places[PLAIN[request.param]]


@pytest.fixture(params=["ssh", pytest.param("pct", marks=pytest.mark.slow)])
def with_systemd(request: pytest.FixtureRequest, story: Story) -> Place:
    """A machine whose PID 1 is systemd; skips with the reason where there cannot be one."""
    if why_not := cgroups.why_no_systemd():
        pytest.skip(f"no machine with systemd here: {why_not}")
    return story.places[SYSTEMD[request.param]]
