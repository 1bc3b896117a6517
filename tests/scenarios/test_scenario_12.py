"""A reading that is cut, empty, late or odd is unknown: it is never taken for "clean"."""

import os
from pathlib import Path

import pytest

from deployments.lifecycle import JobState
from deployments.models import Check
from lab.fleet import Fleet
from tests.support.story import Place, Story, log_of, one_server, told
from tests.support.waiting import until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

ODD = {
    "cut": "cut 60",
    "empty": "empty",
    "hanging": "hang 60",
    "odd": "cell * memory.used [N/A]",
    "exit": "exit 9 NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
}
SAYS_WHY = {"exit"}
"""Where the answer is no reading either, but tells what a person must mend."""


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.slow] if kind == "hanging" else []) for kind in ODD]
)
def test_scenario_12_unknown_is_never_free(story: Story, gpu1: Place, clean_fleet: Fleet, kind: str) -> None:
    deployment = story.deploy_standin(
        gpu1, "--stop", "3", cards=(0, 1), memory_seconds=2, stuck_seconds=2, port_seconds=2
    )
    story.start(deployment)

    job = story.begin_job(deployment)
    story.wait_for_log(job, "Sending SIGTERM")
    clean_fleet.faults.gpu(gpu1.node, ODD[kind])
    gate = story.gate(job, "not free")

    assert "Contact lost" not in log_of(job), "a driver that hangs is no lost host"
    assert not gpu1.servers(deployment.port)
    assert len(gpu1.starts(deployment.port)) == 1, "it was launched onto cards that nobody had measured"
    title = "The cards cannot be used as they are" if kind in SAYS_WHY else "could not be measured"
    assert title in gate.title, gate.title
    statuses = Check.objects.filter(step__job=job, key__startswith="memory ").values_list("status", flat=True)
    assert set(statuses) == {"unknown"}, told(job)

    clean_fleet.faults.gpu(gpu1.node, "none")
    lifted = ticks_since_boot()
    # An nvidia-smi that hangs is left behind for up to 12 s, and as long as it runs nothing is known.
    until(lambda: nobody_asks_since(gpu1, lifted), seconds=60, what="the end of each nvidia-smi that hangs")
    story.answer(gate, "again")
    story.succeeded(job)
    one_server(gpu1, deployment.port)


def ticks_since_boot() -> float:
    """Now, on the clock that a process's start is told in."""
    return float(Path("/proc/uptime").read_text().split()[0]) * os.sysconf("SC_CLK_TCK")


def nobody_asks_since(place: Place, ticks: float) -> bool:
    """Whether no nvidia-smi is left that was there at `ticks` already."""
    asking = [process for process in place.machine.processes() if "nvidia-smi" in process.title]
    return all(process.started > ticks for process in asking)


@pytest.mark.parametrize("kind", [kind for kind in ODD if kind != "hanging"])
def test_scenario_12_plan_without_a_reading_stops_nothing(
    story: Story, gpu1: Place, clean_fleet: Fleet, kind: str
) -> None:
    deployment = story.deploy_standin(gpu1, cards=(0, 1))
    story.start(deployment)
    server = one_server(gpu1, deployment.port).process
    clean_fleet.faults.gpu(gpu1.node, ODD[kind])

    job = story.wait_for(story.ask(deployment), JobState.FAILED)

    why = "driver is not loaded" if kind in SAYS_WHY else "cannot be measured"
    assert "Nothing was touched" in job.summary and why in job.summary, told(job)
    assert job.summary.count("Nothing was touched") == 1
    assert one_server(gpu1, deployment.port).process == server
