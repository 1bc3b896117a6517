"""The state of a deployment between jobs: what was seen, and unknown when nothing was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from deployments import watch
from deployments.lifecycle import GateKind, JobState, LaunchState, ServiceState
from deployments.models import Deployment, Job, Launch
from deployments.watch import DeploymentWatcher
from hosts import links
from hosts.models import Host
from hosts.probe.facts import HostFacts
from tests.deployments.machine import BOOT, CARDS, LOOK, OTHER_BOOT, Machine, Proc, idle_machine, serving_machine
from tests.deployments.support import FakeHost
from tests.factories import make_deployment, make_gate, make_gpu, make_host, make_job, make_launch

pytestmark = pytest.mark.django_db


@pytest.fixture
def serving() -> Deployment:
    deployment = make_deployment(state=ServiceState.UNKNOWN)
    make_launch(deployment, pid=100, start_time=1000, boot_id=BOOT)
    return deployment


def held(deployment: Deployment) -> Host:
    """Its host, as the monitor reads it that has it now."""
    until = timezone.now() + timedelta(seconds=60)
    Host.objects.update(monitor_owner="us", monitor_lease_until=until)
    return Host.objects.get(pk=deployment.placement.host_id)


def seen(deployment: Deployment, machine: Machine) -> tuple[str, str]:
    DeploymentWatcher().saw(held(deployment), machine.facts())
    deployment.refresh_from_db()
    return deployment.state, deployment.state_detail


def _no_port(machine: Machine) -> None:
    machine.procs[100].port = None


def _reused(machine: Machine) -> None:
    machine.procs[100].start = 5


def _zombie(machine: Machine) -> None:
    machine.procs[100].state = "Z"


def _booted(machine: Machine) -> None:
    machine.boot = OTHER_BOOT


@pytest.mark.parametrize(
    ("change", "state", "launch"),
    [
        (lambda machine: None, ServiceState.SERVING, LaunchState.SERVING),
        (_no_port, ServiceState.NOT_ANSWERING, LaunchState.SERVING),
        (lambda machine: machine.procs.clear(), ServiceState.CRASHED, LaunchState.ENDED),
        (_reused, ServiceState.CRASHED, LaunchState.ENDED),
        (_zombie, ServiceState.CRASHED, LaunchState.ENDED),
        (_booted, ServiceState.CRASHED, LaunchState.ENDED),
    ],
)
def test_what_is_seen(
    serving: Deployment, change: Callable[[Machine], Any], state: ServiceState, launch: LaunchState
) -> None:
    machine = serving_machine()
    change(machine)
    assert seen(serving, machine)[0] == state
    assert Launch.objects.get().state == launch


def test_an_end_that_is_not_told_as_a_crash_is_not_kept_either(
    serving: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next look would take it for a stop."""

    def fail(*_: object) -> None:
        raise RuntimeError("the monitor dies here")

    monkeypatch.setattr(watch, "_set", fail)
    with pytest.raises(RuntimeError):
        seen(serving, idle_machine())
    assert Launch.objects.get().state == LaunchState.SERVING
    monkeypatch.undo()
    assert seen(serving, idle_machine())[0] == ServiceState.CRASHED and Launch.objects.get().crashed


def test_a_look_from_before_the_launch_says_nothing_about_it(serving: Deployment) -> None:
    """It may come late, over a link that stood still."""
    Launch.objects.update(start_time=LOOK + 1)
    assert seen(serving, idle_machine()) == (ServiceState.UNKNOWN, "")
    assert Launch.objects.get().state == LaunchState.SERVING
    Launch.objects.update(start_time=LOOK)
    assert seen(serving, idle_machine())[0] == ServiceState.CRASHED


@pytest.mark.parametrize("machine", [idle_machine(), serving_machine()])
@pytest.mark.parametrize("change", [{"monitor_owner": "other"}, {"monitor_lease_until": timezone.now()}])
def test_a_monitor_that_has_lost_the_host_changes_nothing(
    serving: Deployment, machine: Machine, change: dict[str, Any]
) -> None:
    host, watcher = held(serving), DeploymentWatcher()
    Host.objects.update(**change)
    watcher.saw(host, machine.facts())
    watcher.lost(host, "no answer")
    serving.refresh_from_db()
    assert (serving.state, serving.state_detail) == (ServiceState.UNKNOWN, "")
    assert Launch.objects.get().state == LaunchState.SERVING


@pytest.mark.parametrize("section", ["host", "procs", "listeners"])
def test_what_cannot_be_seen_changes_nothing(serving: Deployment, section: str) -> None:
    machine = idle_machine()
    machine.broken[section] = None
    assert seen(serving, machine) == (ServiceState.UNKNOWN, "")
    assert Launch.objects.get().state == LaunchState.SERVING


@pytest.mark.parametrize("replaced", [False, True])
def test_a_job_at_work_is_left_alone(serving: Deployment, replaced: bool) -> None:
    if replaced:
        make_job(make_deployment(), state=JobState.RUNNING, replaces=serving)
    else:
        make_job(serving, state=JobState.RUNNING)
    assert seen(serving, idle_machine())[0] == ServiceState.UNKNOWN
    assert Launch.objects.get().state == LaunchState.SERVING
    DeploymentWatcher().lost(held(serving), "gone")
    serving.refresh_from_db()
    assert serving.state_detail == ""


def waits(deployment: Deployment, kind: GateKind = GateKind.PLAN, **values: Any) -> Job:
    """A job that waits for a person with one question."""
    job = make_job(deployment, state=JobState.WAITING, **values)
    make_gate(job, kind=kind)
    return job


@pytest.mark.parametrize("kind", [GateKind.PLAN, GateKind.WHEN_IDLE])
@pytest.mark.parametrize("replaced", [False, True])
def test_a_server_that_ends_while_a_job_waits_at_its_plan_has_crashed(
    serving: Deployment, kind: GateKind, replaced: bool
) -> None:
    job = waits(make_deployment(), kind, replaces=serving) if replaced else waits(serving, kind)
    serving.crash_starts_per_hour = 3
    serving.save()
    assert seen(serving, serving_machine())[0] == ServiceState.SERVING
    assert seen(serving, idle_machine())[0] == ServiceState.CRASHED
    assert Launch.objects.get().state == LaunchState.ENDED and Launch.objects.get().crashed
    assert seen(serving, idle_machine())[0] == ServiceState.CRASHED
    assert list(Job.objects.all()) == [job]


def test_nothing_is_thought_of_a_start_while_a_job_waits_at_its_plan(
    serving: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    considered: list[Deployment] = []
    monkeypatch.setattr(watch.after_crash, "consider", lambda deployment, host: considered.append(deployment))
    job = waits(serving)
    seen(serving, idle_machine())
    seen(serving, idle_machine())
    assert considered == []
    job.delete()
    seen(serving, idle_machine())
    assert considered == [serving]


def test_a_host_that_is_lost_is_unknown_whatever_waits_at_its_plan(serving: Deployment) -> None:
    waits(serving)
    assert seen(serving, serving_machine())[0] == ServiceState.SERVING
    DeploymentWatcher().lost(held(serving), "no answer")
    serving.refresh_from_db()
    assert serving.state == ServiceState.UNKNOWN and Launch.objects.get().state == LaunchState.SERVING


@pytest.mark.parametrize(
    ("kind", "touched"), [(GateKind.NOT_FREE, True), (GateKind.NOT_FREE, False), (GateKind.PLAN, True)]
)
def test_a_job_that_waits_later_keeps_the_state(serving: Deployment, kind: GateKind, touched: bool) -> None:
    waits(serving, kind, touched=touched)
    assert seen(serving, idle_machine())[0] == ServiceState.UNKNOWN
    assert Launch.objects.get().state == LaunchState.SERVING


def test_a_stop_that_was_planned_before_the_crash_is_a_stop(serving: Deployment) -> None:
    """Also once its host was out of reach in between, when the state alone does not tell any more."""
    job = waits(serving, kind=GateKind.PLAN)
    assert seen(serving, idle_machine())[0] == ServiceState.CRASHED
    Job.objects.filter(pk=job.pk).update(state=JobState.SUCCEEDED, ended_at=timezone.now())
    Deployment.objects.update(state=ServiceState.UNKNOWN)
    assert seen(serving, idle_machine())[0] == ServiceState.STOPPED


def test_a_plan_that_was_rejected_leaves_the_crash_a_crash(serving: Deployment) -> None:
    job = waits(serving)
    assert seen(serving, idle_machine())[0] == ServiceState.CRASHED
    Job.objects.filter(pk=job.pk).update(state=JobState.REJECTED, ended_at=timezone.now())
    Deployment.objects.update(state=ServiceState.UNKNOWN)
    assert seen(serving, idle_machine())[0] == ServiceState.CRASHED


def test_a_host_that_is_lost_is_unknown_and_nothing_has_ended(serving: Deployment) -> None:
    DeploymentWatcher().lost(held(serving), "no answer")
    serving.refresh_from_db()
    assert serving.state == ServiceState.UNKNOWN and "no answer" in serving.state_detail
    assert Launch.objects.get().state == LaunchState.SERVING


def test_a_launch_that_a_cancelled_job_left_starting_is_watched_too(serving: Deployment) -> None:
    Launch.objects.update(state=LaunchState.STARTING)
    assert seen(serving, serving_machine()) == (ServiceState.SERVING, "")
    assert seen(serving, idle_machine())[0] == ServiceState.CRASHED
    assert Launch.objects.get().state == LaunchState.ENDED


@pytest.mark.parametrize(
    ("before", "machine", "after"),
    [
        (ServiceState.SERVING, idle_machine(), ServiceState.STOPPED),
        (ServiceState.CRASHED, idle_machine(), ServiceState.CRASHED),
        (ServiceState.STOPPED, idle_machine().add(Proc(7, 70, port=30000)), ServiceState.UNKNOWN),
    ],
)
def test_without_a_launch(before: ServiceState, machine: Machine, after: ServiceState) -> None:
    assert seen(make_deployment(state=before), machine)[0] == after


LATE = Proc(7, 70, "llama-server", "llama-server --port 30000", uid=1000)


@pytest.fixture
def stopped() -> Deployment:
    """It has both cards of the machine."""
    host = make_host()
    gpus = [make_gpu(host, uuid=uuid, index=index, baseline_mib=4) for index, uuid in enumerate(CARDS)]
    return make_deployment(host=host, gpus=gpus, state=ServiceState.STOPPED)


def busy(*procs: Proc) -> Machine:
    machine = idle_machine().add(*procs)
    machine.cards |= {"GPU-bbbb": 9000}
    return machine


def test_another_server_on_the_port_is_named(stopped: Deployment) -> None:
    state, detail = seen(stopped, idle_machine().add(replace(LATE, port=30000)))
    assert state == ServiceState.UNKNOWN
    words = "Another server serves on its port 30000: llama-server --port 30000 (pid 7, uid 1000). Relaunch did not"
    assert detail.startswith(words)


def test_another_one_on_the_port_of_a_launch_that_lives_is_no_answer_of_it(stopped: Deployment) -> None:
    launch = make_launch(stopped, pid=100, start_time=1000, boot_id=BOOT)
    machine = serving_machine()
    machine.procs[100].port = None
    state, detail = seen(stopped, machine.add(replace(LATE, port=30000)))
    assert state == ServiceState.NOT_ANSWERING and "(pid 7, uid 1000)" in detail
    for own in ({"log": str(launch.pk), "uid": 0}, {"comm": "docker-proxy"}):
        machine.procs[7] = replace(LATE, port=30000, **own)  # type: ignore[arg-type]
        assert seen(stopped, machine) == (ServiceState.SERVING, "")


def test_who_holds_the_cards_meanwhile_is_named(stopped: Deployment) -> None:
    state, detail = seen(stopped, busy(replace(LATE, cards=(1,))))
    words = "Somebody else is on its cards: llama-server --port 30000 (pid 7, uid 1000) holds GPU 1."
    assert (state, detail) == (ServiceState.STOPPED, words)
    make_launch(stopped, pid=100, start_time=1000, boot_id=BOOT)
    state, detail = seen(stopped, serving_machine().add(replace(LATE, cards=(1,))))
    assert (state, detail) == (ServiceState.SERVING, words)


def test_who_may_hold_them_is_no_news(stopped: Deployment) -> None:
    partner = make_deployment(host=stopped.placement.host)
    launch = make_launch(partner)
    machine = busy(replace(LATE, uid=0, cards=(1,), log=str(launch.pk)))
    assert f"of deployment {partner}" in seen(stopped, machine)[1]
    stopped.shares_with.add(partner)
    assert seen(stopped, machine) == (ServiceState.STOPPED, "")


def short(machine: Machine) -> HostFacts:
    """What the monitor reads each second."""
    facts = machine.facts()
    return HostFacts(facts.measured_at, facts.host, facts.gpus, processes=facts.processes, listeners=facts.listeners)


def test_the_host_is_asked_who_it_is_only_when_something_is_newly_in_use(
    stopped: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeHost(idle_machine())
    monkeypatch.setattr(links, "borrow", fake.borrow)
    watcher, host = DeploymentWatcher(), held(stopped)
    watcher.saw(host, short(fake.machine))
    assert fake.sent == []
    fake.machine = busy(replace(LATE, cards=(1,)))
    for _ in range(2):
        watcher.saw(host, short(fake.machine))
    assert fake.sent == ["probe"]
    stopped.refresh_from_db()
    assert "llama-server" in stopped.state_detail
    fake.machine = idle_machine()
    watcher._asked_at = 0.0
    watcher.saw(host, short(fake.machine))
    stopped.refresh_from_db()
    assert (fake.sent, stopped.state_detail) == (["probe"], "")


def test_a_host_that_does_not_answer_that_names_nobody(stopped: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeHost(idle_machine(), reachable=False)
    monkeypatch.setattr(links, "borrow", fake.borrow)
    DeploymentWatcher().saw(held(stopped), short(idle_machine().add(replace(LATE, port=30000))))
    stopped.refresh_from_db()
    assert stopped.state_detail == "Something that Relaunch did not start listens on port 30000."


def test_the_time_of_a_state_is_that_of_its_change(serving: Deployment) -> None:
    seen(serving, serving_machine())
    since = serving.state_since
    seen(serving, serving_machine())
    assert serving.state_since == since


def test_ports_to_watch(serving: Deployment) -> None:
    watcher = DeploymentWatcher()
    assert watcher.ports(serving.placement.host) == [30000]
    assert watcher.ports(make_deployment().placement.host) == [], "asked from the database every two seconds"


def test_what_listens_there_for_another_deployment_is_not_its_own_server(serving: Deployment) -> None:
    other = make_deployment(host=serving.placement.host, revision=serving.revision, state=ServiceState.UNKNOWN)
    DeploymentWatcher().saw(held(serving), serving_machine().facts())
    serving.refresh_from_db()
    other.refresh_from_db()
    assert (serving.state, other.state) == (ServiceState.SERVING, ServiceState.STOPPED)
    assert not other.found


def test_a_crash_stays_one_when_contact_was_lost_meanwhile(serving: Deployment) -> None:
    gone = idle_machine()
    assert seen(serving, gone)[0] == ServiceState.CRASHED
    DeploymentWatcher().lost(held(serving), "no answer")
    assert seen(serving, gone)[0] == ServiceState.CRASHED
    DeploymentWatcher().lost(held(serving), "no answer")
    make_job(serving, state="succeeded")
    assert seen(serving, gone)[0] == ServiceState.STOPPED


def test_a_server_that_is_hidden_from_the_login_has_not_crashed() -> None:
    """/proc is mounted with hidepid, and the server is another user's: what cannot be seen is unknown."""
    deployment = make_deployment(state=ServiceState.SERVING)
    make_launch(deployment, pid=100, start_time=1000, boot_id=BOOT)
    machine = serving_machine()
    machine.login, machine.procs = 1000, {}
    machine.broken = {"procs": machine._stat(Proc(4_000_000, LOOK, "sh"))}
    DeploymentWatcher().saw(held(deployment), machine.facts())
    deployment.refresh_from_db()
    assert (deployment.state, Launch.objects.get().state) == (ServiceState.UNKNOWN, LaunchState.SERVING)
    assert "hidepid" in deployment.state_detail
