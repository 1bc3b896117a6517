"""Stopping and verifying on a scripted host: how far a job goes by itself, and what it asks."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from deployments.lifecycle import CheckStatus, JobKind, JobState, ServiceState
from deployments.models import Check, Deployment, Effect, JobReading, Launch
from hosts.transport.base import LinkLost
from tests.deployments.machine import Proc
from tests.deployments.support import Story, raising

pytestmark = [pytest.mark.django_db, pytest.mark.jobs]
ClientOf = Callable[[User], Client]


# --- Stopping


def test_a_server_that_does_not_hear_sigterm_is_killed_by_policy(serving: Story) -> None:
    serving.host.deaf.add("TERM")
    serving.deployment.term_seconds = serving.deployment.kill_seconds = 0
    serving.deployment.save()
    serving.request(JobKind.STOP)
    serving.approve()
    assert serving.work().state == JobState.SUCCEEDED
    assert [kind for kind in serving.host.sent if kind.startswith("stop")] == ["stop TERM", "stop KILL"]


def test_without_the_policy_a_person_confirms_the_kill(serving: Story) -> None:
    serving.host.deaf.add("TERM")
    serving.deployment.kill_own_by_itself = False
    serving.deployment.term_seconds = 0
    serving.deployment.save()
    serving.request(JobKind.STOP)
    serving.approve()
    assert serving.work().state == JobState.WAITING
    assert "stop KILL" not in serving.host.sent
    assert [row[0] for row in serving.gate.evidence[0]["table"]["rows"]] == [100, 101, 102, 103]
    serving.answer("kill")
    assert serving.work().state == JobState.SUCCEEDED
    assert serving.host.sent.count("stop KILL") == 1


def test_a_server_that_ended_while_the_question_was_open_is_not_killed(serving: Story) -> None:
    serving.host.deaf.add("TERM")
    serving.deployment.kill_own_by_itself = False
    serving.deployment.term_seconds = 0
    serving.deployment.save()
    serving.request(JobKind.STOP)
    serving.approve()
    serving.work()
    serving.host.end(100)
    serving.answer("kill")
    assert serving.work().state == JobState.SUCCEEDED
    assert "stop KILL" not in serving.host.sent and "stop watch" in serving.host.sent


def test_what_cannot_be_killed_is_said_plainly(serving: Story) -> None:
    serving.host.deaf |= {"TERM", "KILL"}
    serving.deployment.term_seconds = serving.deployment.kill_seconds = 0
    serving.deployment.save()
    serving.request(JobKind.STOP)
    serving.approve()
    assert serving.work().state == JobState.FAILED
    assert "cannot be killed" in serving.job.summary and "reboot" in serving.job.hint


def test_a_signal_goes_with_the_pid_namespace_in_which_its_numbers_hold(serving: Story) -> None:
    serving.request(JobKind.STOP)
    serving.approve()
    serving.work()
    assert serving.host.spaces == ["pid:[4026531836]"]


def test_what_was_signalled_before_one_that_may_not_be_is_in_the_history(serving: Story) -> None:
    serving.host.deaf |= {"TERM", "KILL"}
    serving.host.denied, serving.host.by_pidfd = {101}, {103}
    Deployment.objects.update(term_seconds=0, kill_seconds=0)
    serving.request(JobKind.STOP)
    serving.approve()
    serving.host.before["stop KILL"] = lambda: serving.host.machine.procs.__delitem__(102)
    assert serving.work().state == JobState.FAILED
    assert "may not signal process 101" in serving.job.summary
    kill = Effect.objects.get(kind="signal KILL")
    assert kill.finished_at is not None and "may not signal process 101" in kill.outcome
    assert kill.result == {
        "sent": [100, 103],
        "by_pidfd": [103],
        "gone": [102],
        "denied": [101],
        "alive": [100, 101, 103],
    }


def test_an_act_whose_answer_is_lost_is_said_to_have_no_known_result(serving: Story) -> None:
    serving.request(JobKind.STOP)
    serving.approve()
    serving.host.after["stop TERM"] = raising(LinkLost("gone"))
    assert serving.work().state == JobState.UNKNOWN
    act = Effect.objects.get()
    assert (act.outcome, act.result) == (
        "result not known",
        {"sent": [], "by_pidfd": [], "gone": [], "denied": [], "alive": None},
    )
    assert "signal TERM: result not known" in serving.job.summary


def test_nobody_is_signalled_whose_boot_is_not_known(serving: Story) -> None:
    """The numbers of processes begin anew with each boot."""
    serving.host.deaf.add("TERM")
    Deployment.objects.update(term_seconds=0, kill_own_by_itself=False)
    serving.request(JobKind.STOP)
    serving.approve()
    serving.work()
    serving.answer("kill")
    step = serving.job.steps.get(name="stop")
    step.data["boot_id"] = ""
    step.save()
    assert serving.work().state == JobState.FAILED
    assert "not known since which boot" in serving.job.summary
    assert "stop KILL" not in serving.host.sent and not Effect.objects.filter(kind="signal KILL")


def test_cards_that_another_panel_has_locked(serving: Story) -> None:
    serving.host.locked_by = "other|3|9|Ben|2026-01-01T00:00:00Z"
    serving.request()
    serving.approve()
    assert serving.work().state == JobState.FAILED
    assert "locked by Ben" in serving.job.summary
    assert 100 in serving.host.machine.procs, "nobody was signalled"


# --- Verifying


def impatient(story: Story) -> None:
    story.deployment.memory_seconds = story.deployment.stuck_seconds = story.deployment.port_seconds = 0
    story.deployment.save()


def test_memory_that_stays_is_a_gate_and_nothing_is_launched(serving: Story) -> None:
    impatient(serving)
    serving.host.leaks = True
    serving.request()
    serving.approve()
    assert serving.work().state == JobState.WAITING
    assert "launch start" not in serving.host.sent
    assert "GPU 0 still holds 40,000 MiB" in serving.gate.evidence[0]["text"]
    assert [choice["key"] for choice in serving.gate.choices] == ["again", "leave", "anyway"]
    serving.host.machine.cards = dict.fromkeys(serving.host.machine.cards, 4)
    serving.answer("again")
    assert serving.work().state == JobState.SUCCEEDED


def test_the_question_says_that_nothing_is_measured_while_it_is_open_and_when_that_was(
    serving: Story, client_of: ClientOf, approver: User
) -> None:
    impatient(serving)
    serving.host.leaks = True
    serving.request()
    serving.approve()
    serving.work()
    assert "nothing is measured while this question is open" in serving.gate.text
    stopped = serving.job.steps.get(name="stop").ended_at
    assert stopped is not None
    down = {"text": f"{serving.deployment} is down since", "at": stopped.isoformat(timespec="seconds")}
    assert down in serving.gate.evidence
    assert f"press “{serving.gate.choices[0]['label']}”" in serving.gate.text
    page = client_of(approver).get(f"/jobs/{serving.job.pk}/").content.decode()
    assert f'Measured <time datetime="{serving.gate.opened_at:%Y-%m-%dT%H:%M:%S}+00:00"' in page
    assert f'is down since <time datetime="{stopped:%Y-%m-%dT%H:%M:%S}+00:00"' in page


def test_a_start_that_cannot_go_on_says_since_when_the_service_is_down(idle: Story) -> None:
    impatient(idle)
    since = timezone.now() - timedelta(hours=2)
    Deployment.objects.update(state=ServiceState.STOPPED, state_since=since)
    idle.host.machine.cards["GPU-aaaa"] = 2_000
    idle.request(JobKind.START)
    idle.approve()
    assert idle.work().state == JobState.WAITING and idle.gate.kind == "not free"
    assert {"text": f"{idle.deployment} is down since", "at": since.isoformat(timespec="seconds")} in idle.gate.evidence


def test_of_a_service_that_may_be_up_it_is_not_said_that_it_is_down(serving: Story) -> None:
    impatient(serving)
    serving.request()
    serving.approve()
    serving.host.after["stop TERM"] = lambda: serving.host.machine.broken.update({"procs": None})
    assert serving.work().state == JobState.WAITING and serving.gate.kind == "not free"
    assert "is down since" not in str(serving.gate.evidence)


def test_memory_that_nobody_holds_is_explained_and_what_a_launch_finds_there_is_said(serving: Story) -> None:
    impatient(serving)
    serving.host.leaks = True
    serving.request()
    serving.approve()
    serving.work()
    assert "No process that can be seen holds that memory" in str(serving.gate.evidence)
    anyway = next(choice for choice in serving.gate.choices if choice["key"] == "anyway")
    said = f"On GPU 0 9,140 MiB are free; {serving.deployment.revision} needs an amount that was never measured there."
    assert said in anyway["detail"], anyway


def test_what_a_launch_needs_is_said_where_it_was_measured_and_fits(serving: Story) -> None:
    serving.request()
    serving.approve()
    assert serving.work().state == JobState.SUCCEEDED
    impatient(serving)
    serving.host.after["stop TERM"] = lambda: serving.host.machine.cards.update({"GPU-aaaa": 2_000})
    serving.request()
    serving.approve()
    assert serving.work().state == JobState.WAITING
    anyway = next(choice for choice in serving.gate.choices if choice["key"] == "anyway")
    assert f"On GPU 0 47,140 MiB are free; {serving.deployment.revision} needs 40,000 MiB there." in anyway["detail"]
    assert "GPU 1" not in anyway["detail"]


@pytest.mark.parametrize("case", ["somebody holds it", "who holds it could not be seen"])
def test_that_nobody_holds_memory_is_said_only_when_that_was_seen(serving: Story, case: str) -> None:
    impatient(serving)
    serving.host.leaks = True
    serving.request()
    serving.approve()
    machine = serving.host.machine

    def come() -> None:
        if case == "somebody holds it":
            machine.add(Proc(9, 90, "trainer", "python train.py", uid=1000, cards=(0,)))
        else:
            machine.broken["fds"] = None

    serving.host.after["stop TERM"] = come
    assert serving.work().state == JobState.WAITING
    assert "still holds" in str(serving.gate.evidence)
    assert "No process that can be seen" not in str(serving.gate.evidence)


def test_memory_that_only_a_known_service_may_hold_names_it(serving: Story) -> None:
    impatient(serving)
    serving.host.leaks = True
    serving.host.machine.add(Proc(9, 90, "nvidia-cuda-mps", "nvidia-cuda-mps-server", cards=(0,)))
    serving.request(JobKind.STOP)
    serving.approve()
    assert serving.work().state == JobState.WAITING
    evidence = str(serving.gate.evidence)
    assert "nvidia-cuda-mps, MPS, which shares a card between programs (pid 9, root) on GPU 0." in evidence
    assert "No process that can be seen" not in evidence
    assert [choice["key"] for choice in serving.gate.choices] == ["again", "leave"]


def test_memory_that_stays_after_a_stop_asks_too_and_offers_no_launch(serving: Story) -> None:
    impatient(serving)
    serving.host.leaks = True
    serving.request(JobKind.STOP)
    serving.approve()
    assert serving.work().state == JobState.WAITING
    assert [choice["key"] for choice in serving.gate.choices] == ["again", "leave"]
    assert "No process that can be seen holds that memory" in str(serving.gate.evidence)


def test_what_is_known_not_to_fit_is_not_launched_anyway(serving: Story) -> None:
    """This revision used 40,000 MiB when it served last, and so much is not free: no risk that somebody could take."""
    serving.request()
    serving.approve()
    assert serving.work().state == JobState.SUCCEEDED
    impatient(serving)
    serving.host.leaks = True
    serving.request()
    serving.approve()
    assert serving.work().state == JobState.WAITING
    keys = {choice["key"]: choice for choice in serving.gate.choices}
    assert "anyway" not in keys
    assert "GPU 0 has 9,140 MiB free" in keys["again"]["detail"] and "needs 40,000 MiB there" in keys["again"]["detail"]


def test_leaving_it_stopped(serving: Story) -> None:
    impatient(serving)
    serving.host.leaks = True
    serving.request()
    serving.approve()
    serving.work()
    serving.answer("leave")
    assert serving.work().state == JobState.FAILED
    assert "approver decided to leave" in serving.job.summary


def test_launching_anyway_is_somebodys_decision_with_a_reason(serving: Story) -> None:
    impatient(serving)
    serving.host.leaks = True
    serving.request()
    serving.approve()
    serving.work()
    serving.answer("anyway", "they know")
    assert serving.work().state == JobState.SUCCEEDED
    assert "approver decided to launch anyway: they know" in serving.log()


@pytest.mark.parametrize(
    ("section", "reason"),
    [
        ("memory", "GPU 0: "),
        ("procs", "Whether the old server's processes live could not be measured."),
        ("listeners", "Whether port 30000 is free could not be measured: "),
    ],
)
def test_what_cannot_be_measured_is_a_gate_and_never_free(serving: Story, section: str, reason: str) -> None:
    impatient(serving)
    serving.request()
    serving.approve()
    serving.host.after["stop TERM"] = lambda: serving.host.machine.broken.update({section: None})
    assert serving.work().state == JobState.WAITING
    assert serving.gate.title == "Whether the cards are free could not be measured"
    assert reason in str(serving.gate.evidence)
    assert "launch start" not in serving.host.sent


def test_a_port_that_is_bound_is_said_on_the_page(serving: Story, client_of: ClientOf, approver: User) -> None:
    serving.deployment.port_seconds = 0
    serving.deployment.save()
    serving.request()
    serving.approve()

    def another_loads() -> None:
        machine = serving.host.machine.add(Proc(900, 9000, "python", "vllm serve m --api-key sk-live-12345", uid=1001))
        machine.broken |= {
            "port.30000": "taken\nsocket 7 2 00000000 1001 4242\n",
            "fds": "/proc/900/fd:\nlrwx------ 1 u u 64 Jan 1 00:00 3 -> socket:[4242]\n",
        }

    serving.host.after["stop TERM"] = another_loads
    assert serving.work().state == JobState.WAITING, serving.job.summary
    assert "launch start" not in serving.host.sent
    page = client_of(approver).get(f"/jobs/{serving.job.pk}/").content.decode()
    assert "has bound every IPv4 address and does not listen: perhaps a server that still loads." in page
    assert "(pid 900, uid 1001) has bound every IPv4 address" in serving.gate.evidence[0]["text"]
    assert "port 30000 (bound, does not listen)" in page and "<td>900</td>" in page and "uid 1001" in page
    (row,) = next(piece["table"]["rows"] for piece in serving.gate.evidence if "table" in piece)
    assert row[4] == "" and row[5]["at"], "it holds no card; since when it runs is known"
    assert "vllm serve m" in page and "sk-live-12345" not in page
    shown = Check.objects.get(step__name="verify", key="port")
    assert (shown.status, shown.value) == (CheckStatus.NOT_OK, "taken") and "pid 900" in shown.detail


def test_where_files_may_not_be_looked_at_memory_decides_and_the_page_says_so(serving: Story) -> None:
    serving.request()
    serving.approve()
    serving.host.after["stop TERM"] = lambda: serving.host.machine.broken.update({"fds": None})
    assert serving.work().state == JobState.SUCCEEDED, serving.job.summary
    shown = Check.objects.get(step__name="verify", key="holders")
    assert (shown.status, shown.value) == (CheckStatus.UNKNOWN, "") and shown.detail


def _shift(monkeypatch: pytest.MonkeyPatch, *, monotonic: bool) -> None:
    """From here on an hour has passed: for the machine's clock, which may be set, or really."""
    now, steady = timezone.now(), time.monotonic
    monkeypatch.setattr(timezone, "now", lambda: now + timedelta(hours=1))
    if monotonic:
        monkeypatch.setattr(time, "monotonic", lambda: steady() + 3600)


@pytest.mark.parametrize(("when", "monotonic"), [("watch", True), ("round", False)])
def test_neither_a_slow_link_nor_a_clock_that_is_set_takes_from_the_limits(
    serving: Story, monkeypatch: pytest.MonkeyPatch, when: str, monotonic: bool
) -> None:
    serving.request()
    serving.approve()
    serving.host.leaks = True
    rounds: list[int] = []

    def released() -> None:
        rounds.append(1)
        if when == "round" and len(rounds) == 2:
            _shift(monkeypatch, monotonic=monotonic)
        if len(rounds) == 5:
            serving.host.machine.cards = dict.fromkeys(serving.host.machine.cards, 4)

    serving.host.before["round"] = released
    if when == "watch":
        serving.host.before["watch"] = lambda: _shift(monkeypatch, monotonic=monotonic)
    assert serving.work().state == JobState.SUCCEEDED, serving.job.summary


def test_a_host_that_answers_slowly_is_told_once(serving: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 10_000))
    real = time.monotonic
    looking: list[int] = []
    serving.host.before["round"] = lambda: looking.append(1)
    monkeypatch.setattr("deployments.steps.verify.time.monotonic", lambda: next(clock) if looking else real())
    serving.host.leaks = True
    serving.deployment.stuck_seconds = 8
    serving.deployment.save()
    serving.request()
    serving.approve()
    assert serving.work().state == JobState.WAITING
    assert serving.log().count("for a look, so the readings come no faster than that.") == 1


def test_a_verify_that_waits_says_for_what_and_until_when_and_the_curve_goes_on(
    serving: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look takes a second here, and nothing changes in eight of them."""
    serving.request()
    serving.approve()
    seen: list[tuple[str, int]] = []

    def a_second_later() -> float:
        step = serving.job.steps.get(name="verify")
        seen.append((step.summary, JobReading.objects.filter(job=serving.job, gpu_uuid="GPU-aaaa").count()))
        return float(len(seen))

    monkeypatch.setattr("deployments.steps.verify.time", SimpleNamespace(monotonic=a_second_later))
    serving.host.leaks = True
    serving.deployment.stuck_seconds = 8
    serving.deployment.save()
    assert serving.work().state == JobState.WAITING
    said = [line for line in serving.log().splitlines() if line.startswith("Waiting for GPU 0")]
    assert len(said) == 1 and re.fullmatch(
        r"Waiting for GPU 0 to release 40,000 MiB and GPU 1 to release 40,000 MiB, until \d\d:\d\d:\d\d UTC at the "
        r"latest; then a person decides.",
        said[0],
    )
    assert [summary for summary, _ in seen] == [""] * 4 + [said[0]] * 5
    assert serving.job.steps.get(name="verify").summary == "", "the question is open, nobody waits for the card"
    assert seen[8][1] - seen[2][1] == 6, "a point of the curve each second"


# --- Through what looks after the server


@pytest.fixture
def unit(serving: Story) -> Story:
    """The server was not started by us; it belongs to a systemd unit."""
    Launch.objects.all().delete()
    serving.host.machine.cgroups = {100: "/system.slice/chat.service"}
    serving.request(JobKind.STOP)
    serving.approve()
    return serving


def test_a_unit_is_asked_to_stop_its_server_and_nobody_is_signalled(unit: Story) -> None:
    asked: list[str] = []

    def systemctl(command: str) -> list[str]:
        asked.append(command)
        unit.host.end(100)
        return ["manager 0"]

    unit.host.through = systemctl
    assert unit.work().state == JobState.SUCCEEDED, unit.job.summary
    assert asked == ["systemctl stop chat.service"]
    act = Effect.objects.get()
    assert act.kind == "stop by its manager"
    assert act.target["processes"] == [[100, 1000], [101, 1001], [102, 1002], [103, 1003]]


def test_a_unit_that_may_not_be_stopped_is_not_killed_behind_its_back(unit: Story) -> None:
    unit.host.through = lambda command: ["manager 4 Access denied"]
    assert unit.work().state == JobState.FAILED
    assert "Access denied" in unit.job.summary and "sudo" in unit.job.hint
    assert "stop KILL" not in unit.host.sent


def test_what_a_manager_leaves_alive_is_killed_by_the_ladder(unit: Story) -> None:
    Deployment.objects.update(term_seconds=0, kill_seconds=0)
    unit.host.through = lambda command: ["manager 0"]
    assert unit.work().state == JobState.SUCCEEDED
    assert [kind for kind in unit.host.sent if kind.startswith("stop")] == ["stop TERM", "stop KILL"]


def test_behind_the_back_of_a_manager_that_does_not_answer_nobody_is_killed(unit: Story) -> None:
    Deployment.objects.update(term_seconds=0, kill_seconds=0)
    assert unit.work().state == JobState.FAILED
    assert "systemd unit chat.service has not answered in 0 s" in unit.job.summary
    assert "stop KILL" not in unit.host.sent and len(unit.host.machine.procs) == 4


@pytest.mark.parametrize(
    ("answered", "words"),
    [(["manager 4 Access denied"], "Access denied"), ([], "has not answered"), (["manager 0"], "")],
)
def test_who_takes_over_knows_what_the_manager_has_answered(unit: Story, answered: list[str], words: str) -> None:
    stopping: list[bool] = []
    unit.host.after["stop TERM"] = lambda: stopping.append(True)
    assert unit.work(told_to_stop=lambda: bool(stopping)).state == JobState.QUEUED
    unit.host.answered = answered
    Deployment.objects.update(term_seconds=0, kill_seconds=0)
    assert unit.work().state == (JobState.FAILED if words else JobState.SUCCEEDED), unit.job.summary
    assert words in unit.job.summary and ("stop KILL" in unit.host.sent) == (not words)


def test_a_manager_has_the_time_for_its_own_kill(unit: Story) -> None:
    Deployment.objects.update(term_seconds=20, kill_seconds=10)

    def systemctl(command: str) -> list[str]:
        unit.host.end(100)
        return ["manager 0"]

    unit.host.through = systemctl
    assert unit.work().state == JobState.SUCCEEDED
    assert "waiting up to 30 s" in unit.log()


# --- Running requests


def test_requests_that_cannot_be_counted_are_said_before_the_approval(serving: Story) -> None:
    serving.host.pages["/metrics"] = (404, b"")
    serving.request()
    serving.work()
    assert serving.job.plan is not None
    assert serving.job.plan["requests"] is None
    assert "--enable-metrics" in serving.job.plan["requests_unknown"]
    assert "not known" in serving.gate.choices[0]["detail"]


def test_the_running_requests_are_counted_anew_for_a_plan_that_is_out_of_date(serving: Story) -> None:
    serving.request()
    serving.approve()
    serving.host.pages["/metrics"] = (200, b"sglang:num_running_reqs 3.0\n")
    serving.deployment.drain_seconds = 0
    serving.deployment.save()
    serving.host.machine.add(Proc(900, 90_000, command="python train.py", cards=(0,)))
    serving.work()
    assert serving.job.plan is not None and serving.job.plan["requests"] == 3
    assert "3 running requests" in serving.gate.choices[0]["detail"]
