"""A login that is not root: what it may not see is unknown, what it may not do goes by sudo, its home is its own."""

from pathlib import Path

import pytest

from deployments.lifecycle import JobKind, JobState
from deployments.models import Check, Deployment, Effect, Job
from hosts import testing
from hosts.models import Host, HostTest
from lab import ledger, tree
from lab.fleet import Fleet
from lab.processes import Process
from tests.support.story import HASTE, Place, Story, launch_of, one_server, sglang, told
from tests.support.waiting import until

pytestmark = [
    pytest.mark.lab,
    pytest.mark.timeout(240),
    pytest.mark.skipif("tree.one_user_only()", reason="there is no second login where the lab has one user id only"),
]
assert tree.LOGIN == "llm"
IMPATIENT = {"memory_seconds": 3, "stuck_seconds": 5}


@pytest.fixture
def desk(story: Story, fleet: Fleet) -> Place:
    """Reached as the plain login, without sudo."""
    fleet.host("desk").allow_sudo()
    return story.add_host(fleet.host("desk"), user="llm")


def with_sudo(place: Place) -> None:
    Host.objects.filter(pk=place.host.pk).update(sudo=True)
    place.host.refresh_from_db()


def lives(place: Place, server: Process) -> bool:
    """Still the very same process."""
    return (server.pid, server.started) in {(process.pid, process.started) for process in place.machine.processes()}


def owner(place: Place, process: Process) -> int:
    return Path(f"/proc/{process.lab_pid}").stat().st_uid


def holders_check(job: Job) -> Check:
    return Check.objects.get(step__job=job, step__name="verify", key="holders")


def test_memory_at_its_baseline_is_free_though_nobody_can_be_seen(story: Story, desk: Place, fleet: Fleet) -> None:
    """Root's process on another card is no reason for a question."""
    fleet.faults.gpu_hold(desk.node, 1, 3000)
    deployment = story.deploy_standin(desk, cards=(0,))
    story.start(deployment)
    job = story.run_job(deployment)
    assert [gate.kind for gate in job.gates.all()] == ["plan"], told(job)
    check = holders_check(job)
    assert check.status == "unknown" and "may not see the files of other users" in check.detail
    assert "Memory alone says so" in job.steps.get(name="verify").summary
    assert owner(desk, one_server(desk, deployment.port).process) == tree.LOGIN_ID
    assert launch_of(job).directory.startswith("/home/llm/.relaunch/")


@pytest.mark.slow
def test_memory_that_somebody_unseen_holds_is_not_free(story: Story, desk: Place, fleet: Fleet) -> None:
    fleet.faults.gpu_hold(desk.node, 0, 3000)
    deployment = story.deploy_standin(desk, cards=(0,), **IMPATIENT)
    job = story.begin_job(deployment, JobKind.START)
    gate = story.gate(job, "not free")
    assert "GPU 0 still holds 3,000 MiB" in str(gate.evidence), told(job)
    assert not desk.starts(deployment.port)
    assert "kill" not in [choice["key"] for choice in gate.choices], "nobody was seen who could be killed"


@pytest.mark.slow
def test_with_sudo_everybody_is_seen(story: Story, desk: Place, fleet: Fleet) -> None:
    desk.node.allow_sudo("llm")
    with_sudo(desk)
    fleet.faults.gpu_hold(desk.node, 0, 3000)
    deployment = story.deploy_standin(desk, cards=(0,), **IMPATIENT)
    job = story.begin_job(deployment, JobKind.START)
    gate = story.gate(job, "not free")
    assert "holds GPU 0" in str(gate.evidence), told(job)

    story.answer(gate, "kill", comment="Its owner has agreed.")
    story.succeeded(job)

    assert Effect.objects.get(job=job, kind="kill strangers").outcome == "all gone"
    assert owner(desk, one_server(desk, deployment.port).process) == tree.LOGIN_ID, "the server is the login's"
    assert launch_of(job).directory.startswith("/home/llm/.relaunch/")
    assert holders_check(job).status == "ok"
    below_home = desk.machine.exec(["find", "/home/llm/.relaunch", "-uid", "0"], timeout=20).stdout
    assert below_home == b"", "what root leaves in the login's home the login cannot change"
    assert desk.machine.exec(["test", "-e", "/root/.relaunch"], timeout=20).returncode == 1


def roots_server(story: Story, desk: Place) -> tuple[Deployment, Process]:
    """A server of the deployment's engine that root has started by hand."""
    deployment = story.deploy_sglang(desk, cards=(0,))
    argv = [word.replace("{port}", str(deployment.port)) for word in sglang(cards=1)]
    command = f"exec setsid -f {' '.join(argv)} > /dev/null 2>&1"
    desk.machine.exec(["sh", "-c", command], timeout=30, env={**HASTE, "CUDA_VISIBLE_DEVICES": "0"})
    until(lambda: ledger.listeners(desk.machine, deployment.port), seconds=60, what="root's server")
    return deployment, one_server(desk, deployment.port).process


def test_a_server_of_another_user_is_stopped_by_sudo(story: Story, desk: Place) -> None:
    desk.node.allow_sudo("llm")
    with_sudo(desk)
    deployment, server = roots_server(story, desk)
    assert owner(desk, server) == 0
    story.run_job(deployment, JobKind.STOP)
    assert not desk.servers(deployment.port)


@pytest.mark.slow
def test_a_server_of_another_user_without_sudo_is_named_and_left(story: Story, desk: Place) -> None:
    deployment, server = roots_server(story, desk)
    job = story.ask(deployment, JobKind.STOP)
    story.wait_for(job, JobState.FAILED)
    assert lives(desk, server)
    assert "this login may not see who" in job.summary, told(job)


@pytest.mark.slow
def test_a_password_is_asked_for(story: Story, desk: Place) -> None:
    """Ticked, but not allowed on the host: a sentence says what to write there."""
    with_sudo(desk)
    deployment = story.deploy_standin(desk, cards=(0,))
    job = story.ask(deployment, JobKind.START)
    story.wait_for(job, JobState.FAILED)
    assert "sudo asks for a password" in job.summary and "NOPASSWD: ALL" in job.hint, told(job)

    test = HostTest.objects.create(host=desk.host)
    testing.run_test(test.pk)
    test.refresh_from_db()
    found = {finding["label"]: finding for finding in test.findings}
    assert found["Root by sudo"]["status"] == "not ok" and "/etc/sudoers.d" in found["Root by sudo"]["hint"]
    assert found["Cards"]["status"] == "ok", "the rest was looked at all the same"

    desk.node.allow_sudo("llm")
    story.start(deployment)


@pytest.mark.slow
def test_a_password_that_is_wanted_meanwhile_stops_nobody_else(story: Story, desk: Place) -> None:
    """The right is taken away after the plan: nobody is signalled, nothing is started, and the page says why."""
    desk.node.allow_sudo("llm")
    with_sudo(desk)
    deployment, server = roots_server(story, desk)
    job = story.ask(deployment, JobKind.STOP)
    gate = story.gate(job, "plan")
    desk.node.allow_sudo()
    story.answer(gate, "approve")
    until(lambda: "sudo asks for a password" in summary(job), seconds=60, what="why it does not go on")
    assert lives(desk, server)


def summary(job: Job) -> str:
    job.refresh_from_db()
    return job.summary
