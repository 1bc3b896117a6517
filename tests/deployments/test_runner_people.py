"""People who cancel, who approve and who decide about strangers: nothing beyond what they said."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from deployments import services
from deployments.lifecycle import JobKind, JobState, LaunchState, StepState
from deployments.models import Deployment, Gate, Launch
from deployments.steps import base
from hosts.models import Host
from hosts.transport.base import LinkLost
from tests.deployments.machine import Proc
from tests.deployments.support import Story, raising

pytestmark = [pytest.mark.django_db, pytest.mark.jobs]
LOST = LinkLost("The link broke.")


def cancel(story: Story) -> None:
    services.cancel_job(story.job, actor=User.objects.get(username="operator"), address="")


# --- Cancelling


@pytest.mark.parametrize("kind", ["stop TERM", "watch"])
def test_cancelling_while_a_step_works(serving: Story, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(base, "RENEW_SECONDS", 0.0)
    serving.request()
    serving.approve()
    serving.host.after[kind] = lambda: cancel(serving)
    assert serving.work().state == JobState.CANCELLED
    assert "launch start" not in serving.host.sent and "locks release" in serving.host.sent
    left = "was told to end and may be down." if kind == "stop TERM" else "is down."
    assert serving.job.summary == f"Cancelled by operator. {serving.deployment} {left}"
    assert not serving.job.card_claims.exists()
    assert StepState.PENDING not in serving.steps().values() and StepState.RUNNING not in serving.steps().values()


def test_cancelling_at_a_gate_after_something_was_done(serving: Story) -> None:
    serving.host.deaf.add("TERM")
    serving.deployment.kill_own_by_itself = False
    serving.deployment.term_seconds = 0
    serving.deployment.save()
    serving.request()
    serving.approve()
    serving.work()
    cancel(serving)
    assert serving.work().state == JobState.CANCELLED
    assert "stop KILL" not in serving.host.sent
    assert not Gate.objects.filter(answered_at=None).exists()


def test_cancelling_as_a_question_comes_up_asks_nobody(serving: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    serving.host.deaf.add("TERM")
    serving.deployment.kill_own_by_itself = False
    serving.deployment.term_seconds = 0
    serving.deployment.save()
    serving.request()
    serving.approve()
    ask = base.StepContext.ask

    def ask_late(ctx: base.StepContext, kind: str, **more: Any) -> base.GateOpened:
        opened = ask(ctx, kind, **more)
        cancel(serving)
        return opened

    monkeypatch.setattr(base.StepContext, "ask", ask_late)
    assert serving.work().state == JobState.QUEUED, "or nobody would end it"
    assert not Gate.objects.filter(answered_at=None).exists()
    assert serving.work().state == JobState.CANCELLED
    assert "stop KILL" not in serving.host.sent and not serving.job.card_claims.exists()


@pytest.mark.parametrize("arrived", [True, False])
def test_cancelling_a_launch_whose_answer_was_lost_settles_it_first(idle: Story, arrived: bool) -> None:
    idle.request(JobKind.START)
    idle.approve()
    (idle.host.after if arrived else idle.host.before)["launch start"] = raising(LOST)
    assert idle.work().state == JobState.UNKNOWN
    assert Launch.objects.get().state == LaunchState.INTENDED
    cancel(idle)
    idle.host.reachable = False
    assert idle.work().state == JobState.UNKNOWN, "what it became of is not known"
    assert idle.job.card_claims.exists()
    idle.host.reachable = True
    assert idle.work().state == JobState.CANCELLED
    launch = Launch.objects.get()
    assert launch.state == (LaunchState.STARTING if arrived else LaunchState.ABANDONED)
    assert launch.pid == (500 if arrived else None)
    left = f"was starting with {launch.revision} and may still come up." if arrived else "is down."
    assert idle.job.summary == f"Cancelled by operator. {idle.deployment} {left}"


def test_a_launch_that_never_says_who_it_is_stays_unknown(idle: Story) -> None:
    idle.request(JobKind.START)
    idle.approve()
    idle.host.before["launch start"] = lambda: idle.host.launches.update({str(Launch.objects.get().pk): ""})
    assert idle.work().state == JobState.UNKNOWN
    assert "does not say what became of launch" in idle.job.summary
    assert idle.work().state == JobState.UNKNOWN


def test_a_launch_that_ended_before_it_said_who_it_is_has_failed(idle: Story) -> None:
    idle.request(JobKind.START)
    idle.approve()
    idle.host.before["launch start"] = lambda: idle.host.launches.update({str(Launch.objects.get().pk): "exit 125"})
    assert idle.work().state == JobState.FAILED
    assert Launch.objects.get().state == LaunchState.FAILED


def test_why_a_unit_was_not_started_is_told(idle: Story) -> None:
    idle.request(JobKind.START)
    idle.approve()
    said = "exit 125\nwhy chat was not started: Unit is masked."
    idle.host.before["launch start"] = lambda: idle.host.launches.update({str(Launch.objects.get().pk): said})
    assert idle.work().state == JobState.FAILED
    assert "chat was not started: Unit is masked." in idle.job.summary
    launch = Launch.objects.get()
    assert launch.state == LaunchState.FAILED and "Unit is masked" in launch.end_reason


# --- Approvals


def test_an_approval_that_nobody_used_in_time_is_asked_for_again(serving: Story) -> None:
    serving.request()
    serving.approve()
    Gate.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert serving.work().state == JobState.WAITING
    assert serving.host.sent == ["probe"]
    assert Gate.objects.count() == 2


def test_an_approval_that_was_used_but_touched_nothing_runs_out_too(serving: Story) -> None:
    serving.request()
    serving.approve()
    Gate.objects.update(expires_at=timezone.now() - timedelta(seconds=1), used_at=timezone.now())
    assert serving.work().state == JobState.WAITING
    assert serving.host.sent == ["probe"]


@pytest.mark.parametrize("lost", ["role", "account"])
def test_an_approval_of_somebody_who_may_not_approve_any_more_does_not_count(serving: Story, lost: str) -> None:
    serving.request()
    serving.approve()
    approver = User.objects.get(username=Gate.objects.get().answered_by_name)
    if lost == "role":
        approver.groups.clear()
    else:
        User.objects.filter(pk=approver.pk).update(is_active=False)
    assert serving.work().state == JobState.WAITING
    assert serving.host.sent == ["probe"] and "may not decide this any more" in serving.log()


def test_an_approval_is_used_once(serving: Story) -> None:
    serving.request()
    serving.approve()
    serving.work()
    assert Gate.objects.get().used_at is not None


def test_a_stranger_that_comes_before_the_launch_is_seen(serving: Story, client_of: Callable[[User], Client]) -> None:
    serving.request()
    serving.approve()
    serving.deployment.memory_seconds = 0
    serving.deployment.save()
    stranger = Proc(9, 90, "trainer", "python train.py", uid=1000, cards=(0,), memory=1_500)
    serving.host.after["stop TERM"] = lambda: serving.host.machine.add(stranger) and None
    assert serving.work().state == JobState.WAITING
    (row,) = serving.gate.evidence[2]["table"]["rows"]
    assert row[:5] == ["9", "uid 1000", "python train.py", "GPU 0", "1,500 MiB"]
    age = timezone.now() - datetime.fromisoformat(row[5]["at"])
    assert abs(age.total_seconds() - 4999) < 60, "it started 0.9 s after the boot, 5000 s ago"
    page = client_of(User.objects.get(username="approver")).get(f"/jobs/{serving.job.pk}/").content.decode()
    assert "<td>1,500 MiB</td>" in page and f'<td><time datetime="{row[5]["at"]}"' in page
    assert "kill" in [choice["key"] for choice in serving.gate.choices]
    assert 9 in serving.host.machine.procs
    serving.answer("kill")
    serving.host.sent.clear()
    assert serving.work().state == JobState.SUCCEEDED
    assert serving.host.sent[0] == "stop KILL" and 9 not in serving.host.machine.procs


def test_a_stranger_with_another_start_time_is_not_killed(serving: Story) -> None:
    serving.request()
    serving.approve()
    serving.deployment.memory_seconds = 0
    serving.deployment.save()
    stranger = Proc(9, 90, "trainer", cards=(0,))
    serving.host.after["stop TERM"] = lambda: serving.host.machine.add(stranger) and None
    serving.work()
    serving.host.machine.procs[9].start = 91
    serving.answer("kill")
    assert serving.work().state == JobState.WAITING
    assert 9 in serving.host.machine.procs


def two_strangers(story: Story, *, before_the_second_look: Callable[[], None]) -> None:
    """A restart, up to the question about two strangers that came while the server ended."""
    story.request()
    story.approve()
    story.deployment.memory_seconds = 0
    story.deployment.save()

    def come() -> None:
        story.host.machine.add(Proc(9, 90, "trainer", cards=(0,)), Proc(12, 120, "editor", cards=(1,)))
        story.host.before["probe"] = before_the_second_look

    story.host.after["stop TERM"] = come
    assert story.work().state == JobState.WAITING and story.gate.kind == "not free", story.job.summary


def test_who_closes_the_card_before_the_question_is_asked_is_not_killed_by_its_answer(serving: Story) -> None:
    two_strangers(serving, before_the_second_look=lambda: setattr(serving.host.machine.procs[12], "cards", ()))
    rows = [evidence["table"]["rows"] for evidence in serving.gate.evidence if "table" in evidence]
    assert [row[0] for row in rows[0]] == ["9"]
    kill = next(choice for choice in serving.gate.choices if choice["key"] == "kill")
    assert "exactly process 9, only if it is still the same process. Its work is lost." in kill["detail"]
    again = next(choice for choice in serving.gate.choices if choice["key"] == "again")
    assert again["label"] == "Look again" and "Ask whoever it belongs to first" in again["detail"]
    assert "The panel tells nobody." in again["detail"], "the button does not ask the owner"
    serving.answer("kill")
    serving.work()
    assert 9 not in serving.host.machine.procs and 12 in serving.host.machine.procs


def test_the_kill_names_each_process_though_others_are_shown_too(serving: Story) -> None:
    two_strangers(serving, before_the_second_look=lambda: setattr(serving.host.machine.procs[12], "port", 30000))
    kill = next(choice for choice in serving.gate.choices if choice["key"] == "kill")
    assert "exactly processes 9, 12, each only if it is still the same process. Their work is lost." in kill["detail"]
    rows = [row for evidence in serving.gate.evidence for row in evidence.get("table", {}).get("rows", [])]
    assert [row[0] for row in rows] == ["9", "12", "12"]


def test_nobody_is_killed_where_the_boot_is_not_known(serving: Story) -> None:
    serving.host.before["watch"] = lambda: serving.host.machine.broken.update({"host": None})
    two_strangers(serving, before_the_second_look=lambda: None)
    assert [choice["key"] for choice in serving.gate.choices] == ["again", "leave", "anyway"]
    assert "did not tell which boot it is in" in str(serving.gate.evidence)


def test_a_kill_that_was_offered_without_a_boot_is_not_done(serving: Story) -> None:
    """As an older version of the panel could ask."""
    two_strangers(serving, before_the_second_look=lambda: None)
    step = serving.job.steps.get(name="verify")
    step.data |= {"strangers_boot": ""}
    step.save()
    serving.answer("kill")
    assert serving.work().state == JobState.WAITING
    assert {9, 12} <= serving.host.machine.procs.keys() and "Nobody was signalled." in serving.log()


def test_a_confirmed_kill_says_in_which_pid_namespace_its_numbers_hold(serving: Story) -> None:
    """A container that was started again since may have the same numbers, in the same boot."""
    two_strangers(serving, before_the_second_look=lambda: None)
    serving.host.spaces.clear()
    serving.answer("kill")
    serving.work()
    assert serving.host.spaces == ["pid:[4026531836]"]


# --- Answers that are used long after they were given


@pytest.fixture
def held(idle: Story) -> Story:
    """A start that was approved, and that waits since somebody else holds a card."""
    idle.request(JobKind.START)
    idle.approve()
    idle.deployment.memory_seconds = 0
    idle.deployment.save()
    arrives = Proc(9, 90, "trainer", "python train.py", uid=1000, cards=(0,))
    idle.host.before["watch"] = lambda: idle.host.machine.add(arrives) and None
    assert idle.work().state == JobState.WAITING and idle.gate.kind == "not free"
    idle.host.before.clear()
    del idle.host.machine.procs[9]
    idle.host.sent.clear()
    return idle


def test_cards_that_are_free_again_need_no_second_approval(idle: Story) -> None:
    """A start beside somebody who holds a card and then leaves: that it would wait for them was approved."""
    idle.host.machine.add(Proc(9, 90, "sleep", "sleep 1000", uid=1000, cards=(0,)))
    idle.deployment.memory_seconds = 0
    idle.deployment.save()
    idle.request(JobKind.START)
    idle.approve()
    assert idle.work().state == JobState.WAITING and idle.gate.kind == "not free"
    del idle.host.machine.procs[9]
    idle.answer("again")
    assert idle.work().state == JobState.SUCCEEDED, idle.job.summary
    assert "sleep (pid 9) no longer holds GPU 0." in idle.log()


def test_who_comes_after_the_approval_needs_another_one(idle: Story) -> None:
    idle.host.machine.add(Proc(9, 90, "sleep", "sleep 1000", uid=1000, cards=(0,)))
    idle.request(JobKind.START)
    idle.approve()
    del idle.host.machine.procs[9]
    idle.host.machine.add(Proc(12, 120, "trainer", "python train.py", uid=1000, cards=(0,)))
    assert idle.work().state == JobState.WAITING
    assert idle.gate.kind == "plan" and "Others on the cards" in str(idle.gate.evidence)


def long_ago(**where: str) -> None:
    past = timezone.now() - timedelta(days=3)
    Gate.objects.filter(**where).update(answered_at=past, expires_at=past)


def test_looking_again_starts_nothing_on_an_approval_that_has_run_out(held: Story) -> None:
    long_ago(kind="plan")
    held.answer("again")
    assert held.work().state == JobState.WAITING
    assert held.gate.kind == "plan" and "launch start" not in held.host.sent


def test_looking_again_starts_nothing_on_the_approval_of_somebody_who_may_not_any_more(held: Story) -> None:
    held.answer("again")
    User.objects.filter(username="approver").update(is_active=False)
    assert held.work().state == JobState.WAITING
    assert held.gate.kind == "plan" and "launch start" not in held.host.sent


def test_launching_anyway_is_not_done_days_after_it_was_said(held: Story) -> None:
    held.host.machine.add(Proc(8, 80, "trainer", "python train.py", uid=1000, cards=(0,)))
    held.answer("anyway")
    Gate.objects.filter(kind="not free").update(answered_at=timezone.now() - timedelta(days=3))
    assert held.work().state == JobState.WAITING
    assert "launch start" not in held.host.sent


def test_a_confirmed_kill_is_not_done_by_the_word_of_somebody_who_may_not_any_more(serving: Story) -> None:
    serving.host.deaf.add("TERM")
    serving.deployment.kill_own_by_itself = False
    serving.deployment.term_seconds = 0
    serving.deployment.save()
    serving.request(JobKind.STOP)
    serving.approve()
    serving.work()
    serving.answer("kill")
    User.objects.filter(username="approver").update(is_active=False)
    assert serving.work().state == JobState.WAITING
    assert "stop KILL" not in serving.host.sent


@pytest.mark.slow
def test_that_an_answer_is_too_old_is_said_once(serving: Story) -> None:
    """The ladder asks for it at each of its turns, of which there are many while it waits."""
    serving.host.deaf.add("TERM")
    serving.deployment.kill_own_by_itself = False
    serving.deployment.term_seconds = 0
    serving.deployment.save()
    serving.request(JobKind.STOP)
    serving.approve()
    serving.work()
    serving.answer("kill")
    long_ago(kind="kill")
    Deployment.objects.update(term_seconds=1)
    turns = serving.host.sent.count("stop watch")
    assert serving.work().state == JobState.WAITING
    assert serving.host.sent.count("stop watch") > turns + 1, "it took one turn only"
    assert serving.log().count("too old to be used") == 1


def test_a_host_that_has_become_look_only_is_left_alone(serving: Story) -> None:
    serving.request()
    serving.approve()
    Host.objects.update(look_only=True)
    assert serving.work().state == JobState.FAILED
    assert "look-only" in serving.job.summary and "stop TERM" not in serving.host.sent


def test_another_person_of_the_same_name_has_approved_nothing(serving: Story, person: Callable[..., User]) -> None:
    serving.request()
    serving.approve()
    User.objects.filter(username="approver").update(username="somebody", is_active=False)
    person("approver", "approver")
    assert serving.work().state == JobState.WAITING
    assert "stop TERM" not in serving.host.sent
