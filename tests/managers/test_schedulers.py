"""What belongs to a cluster's scheduler is shown and never touched."""

import shlex

import pytest

from deployments.lifecycle import JobKind, JobState
from tests.managers.keepers import (
    adopted,
    assert_untouched,
    env,
    evidence_of,
    lives,
    run,
    serve,
    signalled,
    wait_for_server,
)
from tests.support.story import Place, Story, told
from tests.support.waiting import until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]


def as_slurm_job(place: Place, command: str) -> None:
    """Below a process that is called slurmstepd."""
    run(
        place,
        f"cp /bin/sh /tmp/slurmstepd; setsid -f /tmp/slurmstepd -c {shlex.quote(f'{command}; :')} > /dev/null 2>&1",
    )


def test_a_job_of_slurm_is_not_stopped(story: Story, plain: Place) -> None:
    deployment = adopted(story, plain)
    as_slurm_job(plain, f"{env()} {serve(plain, deployment)}")
    server = wait_for_server(plain, deployment)

    job = story.wait_for(story.ask(deployment, JobKind.STOP), JobState.FAILED)

    assert "is a job of Slurm" in job.summary and "Nothing was touched" in job.summary, told(job)
    assert_untouched(plain, deployment, job)
    assert lives(plain, server)


@pytest.mark.slow
def test_a_pod_of_kubernetes_is_not_stopped(story: Story, with_systemd: Place) -> None:
    deployment = adopted(story, with_systemd)
    group = "/sys/fs/cgroup/kubepods.slice/kubepods-pod1.slice"
    inside = f"mkdir -p {group}; echo 0 > {group}/cgroup.procs; exec {env()} {serve(with_systemd, deployment)}"
    run(with_systemd, f"setsid -f sh -c {shlex.quote(inside)} > /dev/null 2>&1")
    server = wait_for_server(with_systemd, deployment)

    job = story.wait_for(story.ask(deployment, JobKind.STOP), JobState.FAILED)

    assert "is a job of Kubernetes" in job.summary, told(job)
    assert lives(with_systemd, server)


@pytest.mark.slow
def test_a_schedulers_job_on_the_cards_is_named_and_no_kill_is_offered(story: Story) -> None:
    place = story.places["gpu1"]
    deployment = story.deploy_standin(place, cards=(0, 1), memory_seconds=2, stuck_seconds=4)
    story.start(deployment)
    as_slurm_job(place, "gpu-hold --gpu 1 --mib 3000 -- sleep 86399")
    until(lambda: any("86399" in each.title for each in place.machine.processes()), seconds=10, what="the job")
    job_of_slurm = next(each for each in place.machine.processes() if each.cmdline == ("sleep", "86399"))

    job = story.begin_job(deployment)
    gate = story.gate(job, "not free")

    assert f"Process {job_of_slurm.pid} is a job of Slurm" in evidence_of(gate), evidence_of(gate)
    assert "kill" not in [choice["key"] for choice in gate.choices]
    assert lives(place, job_of_slurm) and job_of_slurm.pid not in signalled(job)


@pytest.mark.slow
def test_a_node_of_a_scheduler_is_told_before_any_launch(story: Story, plain: Place) -> None:
    deployment = story.deploy_standin(plain, cards=(0,))
    run(plain, "cp /bin/sleep /tmp/slurmd; setsid -f /tmp/slurmd 86400 > /dev/null 2>&1")

    plan = story.gate(story.ask(deployment, JobKind.START), "plan").job.plan

    assert plan is not None
    assert any("is a node of Slurm" in warning["text"] for warning in plan["warnings"]), plan["warnings"]
