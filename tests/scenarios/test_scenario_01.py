"""Eight cards of a container, workers with names of their own that ignore SIGTERM."""

import os
import signal

import pytest

from deployments.lifecycle import JobKind
from deployments.models import Check, Deployment, Effect, Job, JobReading
from tests.support.story import Place, Story, launch_of, one_server, told
from tests.support.waiting import until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

ALL = tuple(range(8))
STUBBORN = {"SGLANG_LAB_MODE": "ignore-sigterm,orphan-worker,late-release"}


def deploy(story: Story, place: Place, **policy: object) -> Deployment:
    """A large model over all eight cards, whose workers do not listen to SIGTERM and release late."""
    env = {**STUBBORN, "SGLANG_LAB_HINTS": '{"release_seconds": 20}'}  # a tenth of that, see HASTE
    return story.deploy_sglang(place, cards=ALL, model="qwen-397b", env=env, term_seconds=1, **policy)


def assert_all_were_free(job: Job, deployment: Deployment) -> None:
    """Each of the eight cards was measured at its baseline, by verify and once more by the launch itself."""
    uuids = set(deployment.placement.gpu_uuids)
    assert len(uuids) == 8
    memory = {check.key.split()[1]: check for check in Check.objects.filter(step__job=job, key__startswith="memory ")}
    assert {uuid for uuid, check in memory.items() if check.status == "ok"} == uuids
    launch = launch_of(job)
    assert launch.memory_before == dict.fromkeys(uuids, 0)
    for uuid in uuids:
        curve = JobReading.objects.filter(job=job, gpu_uuid=uuid, at__lt=launch.intended_at).order_by("id")
        used = list(curve.values_list("used_mib", flat=True))
        assert used[-1] == 0, used


def test_scenario_01_workers_that_ignore_sigterm(story: Story, ct129: Place) -> None:
    deployment = deploy(story, ct129)
    story.start(deployment)
    before = one_server(ct129, deployment.port).process

    job = story.run_job(deployment)

    signals = list(Effect.objects.filter(job=job, kind__startswith="signal").values_list("kind", flat=True))
    assert signals == ["signal TERM", "signal KILL"], told(job)
    recorded = Effect.objects.get(job=job, kind="signal KILL").target["processes"]
    assert len(recorded) >= 10, told(job)  # the server, eight schedulers, a detokenizer
    after = one_server(ct129, deployment.port).process
    assert after.own_pid != before.own_pid
    assert_all_were_free(job, deployment)


def test_scenario_01_policy_asks_before_sigkill(story: Story, ct129: Place) -> None:
    deployment = deploy(story, ct129, kill_own_by_itself=False)
    story.start(deployment)
    server = one_server(ct129, deployment.port).process

    job = story.begin_job(deployment)
    gate = story.gate(job, "kill")

    named = {int(row[0]): row[1] for row in gate.evidence[0]["table"]["rows"]}
    assert server.own_pid in named and len(named) >= 10, gate.evidence
    assert any("sglang::schedul" in name for name in named.values()), named
    assert one_server(ct129, deployment.port).process == server, "somebody killed it without being asked"

    story.answer(gate, "kill")
    story.succeeded(job)
    assert one_server(ct129, deployment.port).process.own_pid != server.own_pid
    assert_all_were_free(job, deployment)


def test_scenario_01_worker_left_by_a_dead_parent(story: Story, ct129: Place) -> None:
    """The parent died, the port is free, and a worker with another name still holds the last card."""
    deployment = deploy(story, ct129)
    story.start(deployment)
    launch = deployment.live_launch
    os.kill(one_server(ct129, deployment.port).process.lab_pid, signal.SIGKILL)
    until(lambda: not ct129.servers(deployment.port), seconds=20, what="end of the parent")
    assert launch is not None

    def found_ended() -> bool:
        launch.refresh_from_db()
        return launch.state == "ended"

    until(found_ended, seconds=60, what="the monitor sees the crash")
    orphans = [process for process in ct129.machine.processes() if "scheduler" in process.title]
    assert orphans, "the lab's orphan worker is gone, so this test shows nothing"

    job = story.ask(deployment, JobKind.RESTART)
    gate = story.gate(job, "plan")
    job.refresh_from_db()
    assert {process.own_pid for process in orphans} <= {row["pid"] for row in (job.plan or {})["stops"]}
    story.answer(gate, "approve")
    story.succeeded(job)
    left = {process.own_pid for process in ct129.machine.processes()}
    assert not left & {process.own_pid for process in orphans}
    assert_all_were_free(job, deployment)
