"""What looks after a server: asked first, confirmed where it cannot be asked, and what it brings back is named."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import OperationalError

from deployments.lifecycle import JobKind, JobState
from deployments.models import Effect, Job, Launch
from deployments.steps import verify
from hosts.transport.base import LinkLost
from tests.deployments.machine import OTHER_BOOT, SGLANG, Proc
from tests.deployments.support import Story, raising

pytestmark = [pytest.mark.django_db, pytest.mark.jobs]


@pytest.fixture
def adopted(serving: Story) -> Story:
    """A server that we did not start, of which a shell is the parent."""
    Launch.objects.all().delete()
    serving.host.machine.add(Proc(50, 50, "bash"))
    serving.host.machine.procs[100].parent = 50
    serving.host.told["waiting"] = ["command while true; do serve; done"]
    for name in ("memory_seconds", "stuck_seconds", "port_seconds"):
        setattr(serving.deployment, name, 0)
    serving.deployment.save()
    return serving


def to_the_gate(story: Story, kind: JobKind = JobKind.STOP) -> Story:
    story.request(kind)
    story.approve()
    assert story.work().state == JobState.WAITING and story.gate.kind == "manager", story.job.summary
    return story


def test_a_shell_that_may_be_a_loop_is_asked_about_before_any_signal(
    adopted: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "RETURN_SECONDS", 0.0)  # the scripted host looks a few times only
    story = to_the_gate(adopted)
    assert "bash (pid 50) may start the server again" in story.gate.title
    assert "Only the server itself is told to end. The shell bash (pid 50) is not, nor" in story.gate.text
    stop = next(choice for choice in story.gate.choices if choice["key"] == "stop")
    assert "in the first seconds after its end" in stop["detail"]
    assert "while true" in str(story.gate.evidence)
    assert not Effect.objects.exists()
    story.answer("stop")
    assert story.work().state == JobState.SUCCEEDED, story.job.summary
    assert [effect.target["processes"] for effect in Effect.objects.all()] == [[[100, 1000]]]
    assert 50 in story.host.machine.procs


def test_the_wrapper_of_another_panels_launch_is_not_asked_about_but_its_panel_warned_of(adopted: Story) -> None:
    directory = "/root/.relaunch/theirs/7/launches/65d33ad4-ded1-46d1-a7f5-a92fbb0766f0"
    adopted.host.told["waiting"] = [f"command sh {directory}/run {directory} "]
    adopted.request(JobKind.STOP)
    adopted.approve()
    assert adopted.work().state == JobState.SUCCEEDED, adopted.job.summary
    texts = [row["text"] for row in (adopted.job.plan or {})["warnings"] if row["asks"]]
    assert texts == ["The server was launched by another Relaunch panel, or for a deployment that is no longer here."]


@pytest.mark.parametrize(
    ("more", "title"), [((), "also ends 1 other process."), ((61,), "also ends 2 other processes.")]
)
def test_who_else_ends_with_the_unit_is_asked_about(serving: Story, more: tuple[int, ...], title: str) -> None:
    Launch.objects.all().delete()
    serving.host.machine.cgroups = {100: "/system.slice/chat.service"}
    serving.host.machine.add(*(Proc(pid, pid, "rsync") for pid in (60, *more)))
    serving.host.told["unit"] = [f"member {pid}" for pid in (60, *more, 100)]
    to_the_gate(serving)
    assert title in serving.gate.title and not Effect.objects.exists()


def test_the_server_is_left_where_somebody_says_so(adopted: Story) -> None:
    story = to_the_gate(adopted)
    story.answer("leave")
    assert story.work().state == JobState.FAILED
    assert "Nothing was touched" in story.job.summary and not Effect.objects.exists()


def test_the_confirmation_is_for_what_was_shown(adopted: Story) -> None:
    """Between the question and the answer another shell has become the parent: both are asked anew."""
    story = to_the_gate(adopted)
    story.answer("stop")
    story.host.machine.add(Proc(51, 51, "bash"))
    story.host.machine.procs[100].parent = 51
    assert story.work().state == JobState.WAITING and story.gate.kind == "plan"
    story.answer("approve")
    assert story.work().state == JobState.WAITING and story.gate.kind == "manager"
    assert "pid 51" in story.gate.title and not Effect.objects.exists()


def test_what_the_loop_brings_back_is_named_and_not_killed(adopted: Story) -> None:
    story = to_the_gate(adopted)

    def again() -> None:
        story.host.machine.add(Proc(700, 600_000, command=SGLANG, port=30000, parent=50))

    story.host.after["stop TERM"] = again
    story.answer("stop")
    assert story.work().state == JobState.WAITING and story.gate.kind == "not free", story.job.summary
    assert story.gate.title == "The server has come back by itself"
    assert [choice["key"] for choice in story.gate.choices] == ["again", "leave"], "never a second server beside it"
    assert "as pid 700" in str(story.gate.evidence) and "bash (pid 50) has started it again" in str(story.gate.evidence)
    assert "kill" not in [choice["key"] for choice in story.gate.choices]


def test_one_that_still_loads_is_seen_before_it_reaches_the_cards_or_the_port(adopted: Story) -> None:
    story = to_the_gate(adopted)

    def again() -> None:
        story.host.machine.add(Proc(700, 600_000, command=SGLANG, parent=50))

    story.host.after["stop TERM"] = again
    story.answer("stop")
    assert story.work().state == JobState.WAITING, story.job.summary
    assert story.gate.title == "The server has come back by itself"


def test_a_loop_that_takes_its_time_is_waited_for(adopted: Story) -> None:
    story = to_the_gate(adopted)
    rounds: list[int] = []

    def later() -> None:
        rounds.append(1)
        if len(rounds) == 6:  # free for long by then
            story.host.machine.add(Proc(700, 600_000, command=SGLANG, parent=50))

    story.host.before["round"] = later
    story.answer("stop")
    assert story.work().state == JobState.WAITING, story.job.summary
    assert story.gate.title == "The server has come back by itself"


def test_a_server_that_is_gone_is_gone_whatever_its_manager_says(serving: Story) -> None:
    Launch.objects.all().delete()
    serving.host.machine.cgroups = {100: "/system.slice/chat.service"}
    serving.request(JobKind.STOP)
    serving.approve()

    def canceled(command: str) -> list[str]:
        serving.host.end(100)
        return ["manager 1 Job for chat.service canceled."]

    serving.host.through = canceled
    assert serving.work().state == JobState.SUCCEEDED, serving.job.summary


def test_a_manager_whose_answer_was_lost_is_not_asked_again_for_another_server(serving: Story) -> None:
    """The unit has stopped, and a person has started it again, before the next worker looks."""
    Launch.objects.all().delete()
    serving.host.machine.cgroups = {100: "/system.slice/chat.service"}
    for name in ("memory_seconds", "stuck_seconds", "port_seconds"):
        setattr(serving.deployment, name, 0)
    serving.deployment.save()
    serving.request(JobKind.STOP)
    serving.approve()
    asked: list[str] = []

    def stops(command: str) -> list[str]:
        asked.append(command)
        serving.host.end(100)
        serving.host.machine.add(Proc(700, 600_000, command=SGLANG, port=30000))
        return ["manager 0"]

    serving.host.through = stops
    serving.host.after["stop TERM"] = raising(LinkLost("The link broke."))
    assert serving.work().state == JobState.UNKNOWN
    serving.work()
    assert asked == ["systemctl stop chat.service"] and 700 in serving.host.machine.procs
    assert serving.job.state == JobState.WAITING and serving.gate.kind == "not free", serving.job.summary


def test_the_managers_command_is_kept_as_it_is_carried_out(serving: Story) -> None:
    """Whatever its unit is called: here as a secret of a known shape would be."""
    Launch.objects.all().delete()
    unit = "hf_abcdefghijklmnopqrstuvwxyz012345.service"
    serving.host.machine.cgroups = {100: f"/system.slice/{unit}"}
    serving.request(JobKind.STOP)
    serving.approve()
    commands: list[str] = []
    serving.host.through = lambda command: [commands.append(command) or serving.host.end(100) or "manager 0"]  # type: ignore[func-returns-value]
    assert serving.work().state == JobState.SUCCEEDED, serving.job.summary
    assert commands == [f"systemctl stop {unit}"]


def test_a_schedulers_job_is_named_among_those_in_the_way_and_not_killed(serving: Story) -> None:
    serving.deployment.memory_seconds = serving.deployment.stuck_seconds = 0
    serving.deployment.save()
    serving.request()
    serving.approve()
    slurm = Proc(800, 600_000, "train", "python train.py", cards=(0,))
    other = Proc(801, 600_001, "train", "python mine.py", cards=(1,))
    serving.host.machine.cgroups[800] = "/slurm/uid_0/job_7/step_0"

    def arrive() -> None:
        serving.host.machine.add(slurm, other)

    serving.host.after["stop TERM"] = arrive
    assert serving.work().state == JobState.WAITING and serving.gate.kind == "not free", serving.job.summary
    assert "Process 800 is a job of Slurm" in str(serving.gate.evidence)
    kill = next(choice for choice in serving.gate.choices if choice["key"] == "kill")
    assert "exactly process 801" in kill["detail"]
    assert serving.job.steps.get(name="verify").data["strangers"] == [[801, 600_001]]


def test_who_may_be_a_schedulers_job_is_not_killed(serving: Story) -> None:
    """The host does not say in which control group it is, asked twice: that is no reason to call it nobody's job."""
    serving.deployment.memory_seconds = serving.deployment.stuck_seconds = 0
    serving.deployment.save()
    serving.request()
    serving.approve()

    def arrive() -> None:
        serving.host.machine.add(Proc(800, 600_000, "train", "python train.py", cards=(0,)))
        serving.host.machine.broken |= {"pids": None, "commands": None}

    serving.host.after["stop TERM"] = arrive
    assert serving.work().state == JobState.WAITING and serving.gate.kind == "not free", serving.job.summary
    assert "Whether process 800 is a job of a scheduler could not be seen" in str(serving.gate.evidence)
    assert [choice["key"] for choice in serving.gate.choices] == ["again", "leave", "anyway"]


def test_who_was_not_asked_about_at_first_is_asked_about_before_the_question(serving: Story) -> None:
    """The first answer has room for so many processes only."""
    serving.deployment.memory_seconds = serving.deployment.stuck_seconds = 0
    serving.deployment.save()
    serving.request()
    serving.approve()

    def arrive() -> None:
        serving.host.machine.add(Proc(800, 600_000, "train", "python train.py", cards=(0,)))
        serving.host.machine.broken |= {"pids": None}
        serving.host.after["probe"] = lambda: serving.host.machine.broken.clear()

    serving.host.after["stop TERM"] = arrive
    assert serving.work().state == JobState.WAITING and serving.gate.kind == "not free", serving.job.summary
    assert "kill" in [choice["key"] for choice in serving.gate.choices]


def test_another_server_that_was_started_meanwhile_is_not_called_ours(adopted: Story) -> None:
    story = to_the_gate(adopted)

    def start() -> None:
        other = SGLANG.replace("--tp 2", "--tp 1")
        story.host.machine.add(Proc(700, 600_000, command=other, port=30000, cards=(0,)))

    story.host.after["stop TERM"] = start
    story.answer("stop")
    assert story.work().state == JobState.WAITING and story.gate.title == "Another server was started meanwhile"
    assert "A server of this engine was started meanwhile as pid 700" in str(story.gate.evidence)


def left_behind(story: Story, **values: Any) -> None:
    """As its server ends, a worker that was forked after the approval stays behind."""
    for name in ("memory_seconds", "stuck_seconds", "port_seconds"):
        setattr(story.deployment, name, 0)
    story.deployment.save()
    story.request(JobKind.STOP)
    story.approve()
    worker = Proc(700, 600_000, "sglang::schedul", SGLANG, **values)
    story.host.after["stop TERM"] = lambda: setattr(story.host, "machine", story.host.machine.add(worker))
    assert story.work().state == JobState.WAITING and story.gate.kind == "not free", story.job.summary


def signalled(story: Story) -> list[Any]:
    return [effect.target["processes"] for effect in Effect.objects.order_by("pk")]


@pytest.mark.parametrize("holds", [{"cards": (0,), "memory": 900}, {"port": 30000}, {}])
def test_what_the_old_server_left_behind_is_named_and_killed_only_when_a_person_says_so(
    serving: Story, holds: dict[str, Any]
) -> None:
    launch = str(Launch.objects.get().pk)
    left_behind(serving, log=launch, **holds)
    assert serving.gate.title == "Something is left over from the old server"
    assert "Process 700" in str(serving.gate.evidence) and "got no signal" in str(serving.gate.evidence)
    keys = [choice["key"] for choice in serving.gate.choices]
    assert "kill_left" in keys and "kill" not in keys, "a kill of its own"
    assert next(choice for choice in serving.gate.choices if choice["key"] == "kill_left")["needs_reason"]
    assert "come back" not in str(serving.gate.evidence)
    assert signalled(serving) == [[[100, 1000]]]
    serving.answer("kill_left")
    assert serving.work().state == JobState.SUCCEEDED, serving.job.summary
    assert signalled(serving) == [[[100, 1000]], [[700, 600_000]]]


def test_a_stranger_beside_what_is_left_behind_has_a_question_of_his_own(serving: Story) -> None:
    serving.host.machine.add(Proc(800, 80, "train", "python mine.py", cards=(1,)))
    left_behind(serving, log=str(Launch.objects.get().pk), cards=(0,))
    details = {choice["key"]: choice.get("detail", "") for choice in serving.gate.choices}
    assert "exactly process 800" in details["kill"] and "exactly process 700" in details["kill_left"]
    serving.answer("kill_left")
    serving.work()
    assert 800 in serving.host.machine.procs and 700 not in serving.host.machine.procs


def test_nothing_is_left_over_from_a_server_of_an_earlier_boot(serving: Story) -> None:
    left_behind(serving, log=str(Launch.objects.get().pk), cards=(0,))
    stop = serving.job.steps.get(name="stop")
    stop.data["boot_id"] = OTHER_BOOT
    stop.save()
    serving.answer("again")
    serving.work()
    assert "left over" not in str(serving.gate.evidence) and "kill_left" not in str(serving.gate.choices)


def test_a_confirmation_counts_for_what_was_shown_whoever_dies(serving: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """One agreed to end rsync; another process came; the worker dies as it is about to ask about both."""
    Launch.objects.all().delete()
    serving.host.machine.cgroups = {100: "/system.slice/chat.service"}
    serving.host.machine.add(Proc(60, 60, "rsync"))
    serving.host.told["unit"] = ["member 60", "member 100"]
    to_the_gate(serving)
    serving.answer("stop")
    serving.host.machine.add(Proc(61, 61, "training"))
    serving.host.told["unit"] = ["member 60", "member 61", "member 100"]
    assert serving.work().state == JobState.WAITING and serving.gate.kind == "plan"
    serving.answer("approve")

    def dies(*_: object) -> None:
        raise OperationalError("the worker is gone")

    with monkeypatch.context() as patched:
        patched.setattr("deployments.runner._wait", dies)
        serving.work()
    Job.objects.update(lease_until=None, owner="")
    assert serving.work().state == JobState.WAITING and serving.gate.kind == "manager"
    assert "61" in str(serving.gate.evidence) and 61 in serving.host.machine.procs


PROXY = Proc(60, 60, "docker-proxy", "/usr/bin/docker-proxy -proto tcp -host-port 30000", port=30000)


def test_the_container_behind_dockers_own_listener_is_named_before_anything_is_stopped(idle: Story) -> None:
    idle.host.machine.add(PROXY)
    idle.host.told["published"] = ["published embedder (0123456789ab)"]
    idle.request(JobKind.START)
    assert idle.work().state == JobState.FAILED
    assert "It passes the port on to the container embedder (0123456789ab)." in idle.job.summary


@pytest.mark.parametrize("told", [["published embedder (0123456789ab)"], []])
def test_the_container_behind_dockers_own_listener_is_named_at_the_question(serving: Story, told: list[str]) -> None:
    serving.deployment.port_seconds = 0
    serving.deployment.save()
    serving.host.told["published"] = told
    serving.request()
    serving.approve()
    serving.host.after["stop TERM"] = lambda: setattr(serving.host, "machine", serving.host.machine.add(PROXY))
    assert serving.work().state == JobState.WAITING, serving.job.summary
    assert "docker-proxy" in str(serving.gate.evidence)
    assert ("docker's, for the container embedder (0123456789ab)" in str(serving.gate.evidence)) == bool(told)
