"""Never a second server, and nothing that was not decided: what has changed since a question, or cannot be seen."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone

from deployments import runner
from deployments.lifecycle import JobKind, JobState, LaunchState, ServiceState
from deployments.models import Gate, Job, Launch
from deployments.steps.base import StepContext
from deployments.steps.launch import _is_old
from tests.deployments.machine import BOOT, CARDS, LOOK, SGLANG, Machine, Proc, serving_machine
from tests.deployments.support import Story
from tests.deployments.test_rechecked import held  # noqa: F401
from tests.deployments.test_runner_container import Container, container  # noqa: F401
from tests.deployments.test_watch import seen
from tests.factories import make_deployment, make_launch, make_profile, make_revision

pytestmark = [pytest.mark.django_db, pytest.mark.jobs]
UNREAD = "[Unknown Error]"
LOADING = (
    Proc(300, 700_000, command=SGLANG),
    Proc(301, 700_001, "sglang::schedul", "sglang::scheduler_TP0", parent=300),
)


def in_haste(story: Story) -> Story:
    for name in ("memory_seconds", "stuck_seconds", "port_seconds"):
        setattr(story.deployment, name, 0)
    story.deployment.save()
    return story


def keys(gate: Gate | None) -> list[str]:
    assert gate is not None
    return [choice["key"] for choice in gate.choices]


@pytest.fixture
def blind(serving: Story) -> Story:
    """A restart that has stopped the server, and waits since a card could not be measured."""
    in_haste(serving).request()
    serving.approve()
    cards = {CARDS[0]: 4, CARDS[1]: UNREAD}
    serving.host.after["stop TERM"] = lambda: setattr(serving.host.machine, "cards", cards)
    assert serving.work().state == JobState.WAITING
    serving.host.after.clear()
    serving.host.sent.clear()
    return serving


def forces(story: Story) -> list[str]:
    """Whether each launch was sent with a person's risk, as they are sent."""
    found, launch = [], story.host._launch

    def noted(values: dict[str, str]) -> Any:
        found.append(values["FORCE"])
        return launch(values)

    story.host._launch = noted  # type: ignore[method-assign]
    return found


# --- Where it could not be measured


def test_launch_anyway_where_nothing_could_be_measured_goes_ahead(blind: Story) -> None:
    blind.answer("anyway")
    blind.work()
    assert "launch start" in blind.host.sent


def test_launch_anyway_sees_a_server_that_came_back_though_a_card_cannot_be_read(blind: Story) -> None:
    blind.host.machine.add(*LOADING)
    blind.answer("anyway")
    blind.work()
    assert "launch start" not in blind.host.sent and "anyway" not in keys(blind.gate)


def test_it_is_not_offered_where_the_server_is_back_already(serving: Story) -> None:
    in_haste(serving).request()
    serving.approve()

    def returns() -> None:
        serving.host.machine.cards = {CARDS[0]: 4, CARDS[1]: UNREAD}
        serving.host.machine.add(*LOADING)

    serving.host.after["stop TERM"] = returns
    assert serving.work().state == JobState.WAITING and "anyway" not in keys(serving.gate)


def test_the_node_names_who_is_there_though_the_container_cannot_measure(container: Container) -> None:  # noqa: F811
    story = in_haste(container.story)
    story.host.deaf.clear()
    story.request()
    story.approve()

    def arrives() -> None:
        container.on_node_too()
        trainer = Proc(9001, 650_000, "trainer", "python train.py", cards=(0, 1), memory=30_000, pids=(9001, 77))
        container.node.machine.add(trainer)
        story.host.machine.cards = dict.fromkeys(CARDS, UNREAD)

    story.host.after["stop TERM"] = arrives
    assert story.work().state == JobState.WAITING
    assert "train" in str(story.gate.evidence)


# --- What was not named


@pytest.mark.parametrize("cards", [{CARDS[0]: 4, CARDS[1]: 45_000}, dict.fromkeys(CARDS, UNREAD)])
def test_launch_anyway_is_not_for_another_trouble(held: Story, cards: dict[str, Any]) -> None:  # noqa: F811
    """The question named a process on one card. It is gone, and the other card is full, or none can be read."""
    del held.host.machine.procs[9]
    held.host.machine.cards = cards
    held.answer("anyway")
    assert held.work().state == JobState.WAITING and "launch start" not in held.host.sent


# --- A no is a no


def test_to_leave_it_stopped_counts_however_old_it_is(held: Story) -> None:  # noqa: F811
    gate = held.gate.pk
    held.answer("leave")
    Gate.objects.filter(pk=gate).update(answered_at=timezone.now() - timedelta(days=3))
    held.host.end(9)
    assert held.work().state == JobState.FAILED and "launch start" not in held.host.sent


def test_to_leave_it_stopped_counts_though_the_worker_died_on_it(
    held: Story,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held.answer("leave")
    held.host.end(9)
    with monkeypatch.context() as killed:
        killed.setattr(runner, "_fail", _dies)
        held.work()
    _lapse(held.job)
    assert held.work().state == JobState.FAILED and "launch start" not in held.host.sent


def test_the_risk_that_was_taken_is_not_kept_for_another_launch(
    held: Story,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The worker dies as it takes the risk; asked anew, a person says to look again, and the cards are free."""
    held.answer("anyway")
    with monkeypatch.context() as killed:
        killed.setattr(StepContext, "finish", _dies)
        held.work()
    _lapse(held.job)
    assert held.work().state == JobState.WAITING
    held.answer("again")
    held.host.end(9)
    sent = forces(held)
    held.work()
    assert sent == ["0"]


def _dies(*_: object, **__: object) -> None:
    raise OperationalError("killed here")


def _lapse(job: Job) -> None:
    Job.objects.filter(pk=job.pk).update(lease_until=timezone.now() - timedelta(seconds=1))


# --- Somebody else was quicker


def test_the_way_back_sees_the_old_server_that_something_has_started_again(serving: Story) -> None:
    serving.request()
    serving.approve()
    serving.host.exit_code = 1
    serving.host.log = "error: unknown flag\n"

    def returns() -> None:
        serving.host.exit_code = None
        serving.host.machine.add(*LOADING)

    serving.host.after["follow"] = returns
    serving.work_on()
    assert serving.host.sent.count("launch start") == 1 and "come back" in serving.gate.title


def test_a_start_sees_its_server_that_somebody_has_started_since_its_plan(idle: Story) -> None:
    """It loads: no card, no port; and it has other flags."""
    idle.request(JobKind.START)
    idle.approve()
    idle.host.machine.add(*LOADING)
    idle.work()
    assert "launch start" not in idle.host.sent


def test_a_restart_that_found_nothing_to_stop_sees_it_too(idle: Story) -> None:
    in_haste(idle).request(JobKind.RESTART)
    idle.approve()
    idle.host.before["watch"] = lambda: setattr(idle.host.machine, "cards", {CARDS[0]: 4, CARDS[1]: UNREAD})
    assert idle.work().state == JobState.WAITING
    idle.host.before.clear()
    idle.host.machine.cards = dict.fromkeys(CARDS, 4)
    idle.host.machine.add(*LOADING)
    idle.answer("again")
    idle.work()
    assert "launch start" not in idle.host.sent


@pytest.mark.parametrize("cards", [(), (0,)])
def test_a_start_whose_launch_was_refused_sees_it_too(idle: Story, cards: tuple[int, ...]) -> None:
    in_haste(idle).request(JobKind.START)
    idle.approve()
    refused = [f"unmeasured {CARDS[0]} another nvidia-smi is still running"]
    launch, idle.host._launch = idle.host._launch, lambda values: refused  # type: ignore[method-assign]
    assert idle.work_on().state == JobState.WAITING
    idle.host._launch = launch  # type: ignore[method-assign]
    idle.host.sent.clear()
    scheduler = Proc(301, 700_001, "sglang::schedul", "sglang::scheduler_TP0", parent=300, cards=cards, memory=400)
    idle.host.machine.add(LOADING[0], scheduler)
    idle.host.machine.cards = dict.fromkeys(CARDS, 404 if cards else 4)
    idle.answer("again")
    idle.work()
    assert "launch start" not in idle.host.sent and not {"kill", "anyway"} & set(keys(idle.gate))
    assert idle.gate.title == "Another server was started meanwhile"


def test_a_server_that_loads_for_another_deployment_is_on_the_cards(idle: Story) -> None:
    """Its job was cancelled while it started, so that nobody holds a claim: it imports, and holds no card yet."""
    place = idle.deployment.placement
    revision = make_revision(make_profile(), port=30555, argv=["x", "--port", "30555"])
    other = make_deployment(host=place.host, gpus=place.gpus, revision=revision, name="other")
    row = make_launch(other, pid=300, start_time=400_000, boot_id=BOOT, state=LaunchState.STARTING)
    command = SGLANG.replace("30000", "30555")
    idle.host.machine.add(Proc(300, 400_000, command=command, marker=str(row.pk)))
    in_haste(idle).request(JobKind.START)
    idle.work()
    assert "other" in str(idle.job.plan)
    idle.approve()
    assert idle.work_on().state == JobState.WAITING and "launch start" not in idle.host.sent
    assert "of deployment other" in str(idle.gate.evidence) or "deployment other" in str(idle.gate.evidence)


# --- What cannot be seen, or is old


@pytest.fixture
def hidden(serving: Story, monkeypatch: pytest.MonkeyPatch) -> Story:
    """Its server belongs to another user, and loads; /proc is mounted with hidepid, and the login is nobody's."""
    machine = serving.host.machine
    machine.login, machine.partial = 1000, True
    machine.procs[100].port = None
    for process in machine.procs.values():
        process.cards, process.memory = (), 0
    machine.cards = dict.fromkeys(CARDS, 4)
    monkeypatch.setattr(Machine, "_all_procs", lambda _: [Proc(4_000_000, LOOK, "sh", uid=1000)])
    return serving


@pytest.mark.parametrize("kind", [JobKind.STOP, JobKind.RESTART])
def test_a_server_that_is_hidden_is_not_called_stopped(hidden: Story, kind: JobKind) -> None:
    hidden.request(kind)
    assert hidden.work().state == JobState.FAILED and "hidepid" in hidden.job.summary
    assert Launch.objects.get().state == LaunchState.SERVING


@pytest.mark.parametrize("port", [None, 30000])
def test_a_launch_of_which_nothing_was_known_is_told_by_its_process(port: int | None) -> None:
    deployment = make_deployment(state=ServiceState.UNKNOWN)
    make_launch(deployment, pid=100, start_time=1000, boot_id=BOOT, state=LaunchState.UNKNOWN)
    machine = serving_machine()
    machine.procs[100].port = port
    state, detail = seen(deployment, machine)
    assert state == (ServiceState.SERVING if port else ServiceState.NOT_ANSWERING) and "did not start" not in detail


def test_one_that_has_ended_is_no_crash() -> None:
    """Its job was cancelled out of contact, and may have told it to end."""
    deployment = make_deployment(state=ServiceState.UNKNOWN)
    make_launch(deployment, pid=100, start_time=1000, boot_id=BOOT, state=LaunchState.UNKNOWN)
    machine = serving_machine()
    machine.procs.clear()
    machine.cards = dict.fromkeys(CARDS, 4)
    assert seen(deployment, machine)[0] == ServiceState.STOPPED
    launch = Launch.objects.get()
    assert (launch.state, launch.crashed) == (LaunchState.ENDED, False)


@pytest.mark.parametrize(("minutes", "old"), [(0, False), (-1, True), (50, True)])
def test_a_verdict_is_old_after_ten_seconds_and_where_the_clock_was_set_back(minutes: int, old: bool) -> None:
    assert _is_old({"verified_at": (timezone.now() + timedelta(minutes=minutes)).isoformat()}) is old


def test_a_slow_node_makes_the_container_look_again(
    container: Container,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the container has seen itself is as old as the node's look took."""
    from deployments.steps import verify

    story = container.story
    story.host.deaf.clear()
    story.request()
    story.approve()
    story.host.after["stop TERM"] = container.on_node_too
    monkeypatch.setattr(verify, "SLOW_NODE", timedelta())
    assert story.work_on().state == JobState.SUCCEEDED
    assert story.host.sent.count("watch") == 2
