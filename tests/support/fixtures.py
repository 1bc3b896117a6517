"""The fleet of the lab-wide suites. Import what a directory needs into its conftest.py.

One fleet lives at a time in a lab, so it belongs to the directory (scope ``package``) and ends with it.
"""

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployments.lifecycle import ACTIVE, JobState
from deployments.models import CardClaim, Job, Launch, PortClaim
from lab import demo, namespaces
from lab.fleet import L40S, RTX_PRO, ContainerSpec, Fleet, HostSpec, NodeSpec
from lab.host import Host

MONITOR = "[machine monitor]"
"""What keeps a container alive on its node."""


@pytest.fixture(scope="package")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two plain hosts of two cards, and a node of eight whose container 129 sees all of them; models on all."""
    if not namespaces.is_inside():
        pytest.fail(
            "These tests need the simulated fleet: run them by `python -m lab enter -- pytest ...`.", pytrace=False
        )
    directory = tmp_path_factory.mktemp("fleet")
    containers = {129: ContainerSpec(name="llm-gpu"), 130: ContainerSpec(name="other", cards=(), running=False)}
    hosts = [HostSpec(name="gpu1", cards=[L40S] * 2), HostSpec(name="gpu2", cards=[L40S] * 2)]
    nodes = [NodeSpec(name="pve", cards=[RTX_PRO] * 8, containers=containers)]
    with Fleet(directory, hosts=hosts, nodes=nodes) as running:
        demo.put_models(running, directory)
        yield running


@pytest.fixture
def clean_fleet(fleet: Fleet) -> Iterator[Fleet]:
    """The fleet, given back as it was: no faults, no servers, no strangers, no locks."""
    yield fleet
    for machine in fleet.machines:
        fleet.faults.link_up(machine)
        fleet.faults.sshd_thaw(machine)
        fleet.faults.gpu(machine, "none")
        end_all(machine)
        fleet.faults.gpu_clear(machine)
        for locks in ("/run/lock/relaunch", "/tmp/relaunch-locks"):
            shutil.rmtree(machine.seen(locks), ignore_errors=True)


def end_all(machine: Host) -> None:
    """Kill what runs on a machine besides itself, its containers and their sshd."""
    for process in machine.processes():
        is_machine = process.own_pid == 1 or process.title == MONITOR or process.title.startswith("sshd")
        if not is_machine:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.lab_pid, signal.SIGKILL)


def end_jobs() -> None:
    """What a test has left of jobs and launches in the panel that is entered, ended by force."""
    Job.objects.filter(state__in=ACTIVE).update(state=JobState.CANCELLED, lease_until=None, owner="")
    CardClaim.objects.all().delete()
    PortClaim.objects.all().delete()
    Launch.objects.exclude(state="ended").update(state="ended")


def short_directory(name: str) -> Path:
    """A new directory below the run's own, short enough for sockets."""
    return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=os.environ["RELAUNCH_DATA_DIR"]))
