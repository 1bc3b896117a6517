"""Whole jobs on a scripted host: what is sent, in which order, and how each job ends."""

from __future__ import annotations

import pytest

from deployments.lifecycle import JobKind, JobState, LaunchState, ServiceState, StepState
from deployments.models import Deployment, Effect, Launch
from tests.deployments.machine import Proc
from tests.deployments.support import OOM, READY, Story
from tests.factories import make_revision

pytestmark = [pytest.mark.django_db, pytest.mark.jobs]


def test_a_clean_restart(serving: Story) -> None:
    story = serving
    story.request()
    assert story.work().state == JobState.WAITING
    assert story.host.sent == ["probe"], "a plan only looks"
    assert story.job.plan is not None and len(story.job.plan["stops"]) == 4
    assert not story.job.touched
    story.answer("approve")
    story.host.sent.clear()
    assert story.work().state == JobState.SUCCEEDED, story.job.summary
    assert story.host.sent == ["probe", "stop TERM", "watch", "launch start", "follow", "probe", "locks release"]
    assert set(story.steps().values()) == {StepState.DONE}
    old, new = Launch.objects.order_by("intended_at")
    assert (old.state, new.state) == (LaunchState.ENDED, LaunchState.SERVING)
    assert (new.pid, new.start_time, new.completion) == (500, 5000, " Paris, and")
    assert new.memory_before == {"GPU-aaaa": 4, "GPU-bbbb": 4}
    story.deployment.refresh_from_db()
    assert story.deployment.state == ServiceState.SERVING
    assert not story.job.card_claims.exists() and story.job.open_gate is None
    assert story.job.ended_at is not None and story.job.owner == ""


def test_what_was_done_is_recorded_before_and_after(serving: Story) -> None:
    serving.request()
    serving.approve()
    serving.work()
    kinds = [(effect.kind, effect.outcome, effect.finished_at is not None) for effect in Effect.objects.all()]
    assert [kind for kind, _, _ in kinds] == ["signal TERM", "launch"]
    assert all(outcome and finished for _, outcome, finished in kinds)
    assert Effect.objects.first().target["processes"] == [[100, 1000]]  # type: ignore[union-attr]


def test_the_log_has_the_servers_own_words_and_its_memory_curve(serving: Story) -> None:
    serving.request()
    serving.approve()
    serving.work()
    assert "fired up and ready to roll" in serving.log()
    assert "Sending SIGTERM to 100" in serving.log()
    numbers = list(serving.job.log.order_by("seq").values_list("seq", flat=True))
    assert numbers == list(range(1, len(numbers) + 1))
    assert {reading.used_mib for reading in serving.job.readings.all()} >= {4, 40_000}


def test_a_stop(serving: Story) -> None:
    serving.request(JobKind.STOP)
    serving.approve()
    assert serving.work().state == JobState.SUCCEEDED
    assert serving.host.sent == ["probe", "stop TERM", "watch", "locks release"]
    serving.deployment.refresh_from_db()
    assert serving.deployment.state == ServiceState.STOPPED
    assert Launch.objects.get().state == LaunchState.ENDED


def test_a_start(idle: Story) -> None:
    idle.request(JobKind.START)
    idle.approve()
    assert idle.work().state == JobState.SUCCEEDED
    assert idle.host.sent == ["probe", "watch", "launch start", "follow", "probe", "locks release"]
    assert Launch.objects.get().state == LaunchState.SERVING


def test_a_card_on_which_the_server_holds_nothing_is_named(idle: Story) -> None:
    first = next(iter(idle.host.machine.cards))
    idle.host.after["follow"] = lambda: idle.host.machine.cards.update({first: 4})
    idle.request(JobKind.START)
    idle.approve()
    assert idle.work().state == JobState.SUCCEEDED
    assert idle.job.steps.get(name="check").summary.endswith("It holds nothing on GPU 0.")
    shown = idle.job.steps.get(name="check").checks.filter(key__startswith="in use").order_by("key")
    assert [check.status for check in shown] == ["not ok", "ok"]


def test_nothing_is_done_without_an_answer(serving: Story) -> None:
    serving.request()
    serving.work()
    serving.work()
    assert serving.job.state == JobState.WAITING
    assert serving.host.sent == ["probe"]


def test_a_plan_that_is_blocked_fails_and_touches_nothing(serving: Story) -> None:
    serving.host.machine.missing_paths.add("/models/qwen-27b")
    serving.request()
    assert serving.work().state == JobState.FAILED
    assert "is not there" in serving.job.summary and "Nothing was touched." in serving.job.summary
    assert serving.job.hint and not serving.job.card_claims.exists()
    assert serving.host.sent == ["probe"]


def test_facts_that_changed_after_the_approval_are_asked_about_again(serving: Story) -> None:
    serving.request()
    serving.approve()
    serving.host.machine.procs[101].start = 9999
    assert serving.work().state == JobState.WAITING
    assert serving.host.sent == ["probe"], "nobody was signalled"
    assert "out of date" in serving.gate.title
    assert "The plan is out of date: the server's processes are others than those of the plan." in serving.log()
    (piece,) = serving.gate.evidence
    (row,) = piece["table"]["rows"]
    assert row[0] == "What serves" and row[1] != row[2]
    assert all("(pid 101, " in cell and "since 20" in cell and "(pid 102, " not in cell for cell in row[1:]), row
    serving.answer("approve")
    assert serving.work().state == JobState.SUCCEEDED


def test_a_profile_that_was_edited_meanwhile_makes_the_plan_stale_once(serving: Story) -> None:
    serving.request()
    serving.approve()
    planned = str(serving.job.revision)
    edited = make_revision(serving.deployment.profile)
    assert serving.work().state == JobState.WAITING
    assert serving.host.sent == ["probe"], "nobody was signalled"
    assert serving.gate.evidence[0]["table"]["rows"] == [["Newer revision", "none", str(edited)]]
    serving.answer("approve")
    make_revision(serving.deployment.profile)  # that it is not the newest has been seen
    assert serving.work().state == JobState.SUCCEEDED
    assert str(serving.job.launches.get().revision) == planned


def test_only_what_is_new_is_marked_so_in_the_second_plan(serving: Story) -> None:
    serving.request()
    serving.approve()
    assert serving.job.plan is not None and not any("is_new" in row for row in serving.job.plan["warnings"])
    serving.host.machine.add(Proc(7, 70, "train", uid=1000, cards=(0,), memory=500))
    assert serving.work().state == JobState.WAITING
    plan = serving.job.plan
    assert [row["text"] for row in plan["warnings"] if row["is_new"]] == [
        "Somebody else holds GPU 0: python (pid 7, uid 1000)."
    ]
    (row,) = serving.gate.evidence[0]["table"]["rows"]
    assert row == ["Others on the cards", "nobody", "python (pid 7, uid 1000, on GPU 0)"]


def test_a_failed_check_goes_back_to_what_served(serving: Story) -> None:
    serving.request()
    serving.approve()
    serving.host.log, serving.host.exit_code = f"loading\n{OOM}bye\n", 1

    def recover() -> None:
        serving.host.exit_code = None
        serving.host.log = "loading\nUvicorn running on x\nThe server is fired up and ready to roll!\n"

    serving.host.after["follow"] = recover
    assert serving.work().state == JobState.QUEUED
    assert serving.job.diagnosis is not None and serving.job.diagnosis["line"] == OOM.strip()
    assert "does not fit; nothing was left over" in serving.job.diagnosis["memory"]
    assert serving.job.diagnosis["log_seq"]
    serving.host.sent.clear()
    assert serving.work_on().state == JobState.FAILED
    assert serving.host.sent == ["probe", "watch", "launch start", "follow", "probe", "locks release"]
    assert "r1 serves again" in serving.job.summary
    assert serving.steps()["check"] == StepState.FAILED and serving.steps()["check back"] == StepState.DONE
    live = serving.deployment.live_launch
    assert live is not None and live.revision is not None and live.revision.number == 1
    assert not serving.job.card_claims.exists()


def test_without_the_way_back_a_failure_is_asked_about(serving: Story) -> None:
    serving.request(way_back=False)
    serving.approve()
    serving.host.log, serving.host.exit_code = OOM, 1
    assert serving.work().state == JobState.WAITING
    assert serving.gate.kind == "way back" and "r1 again?" in serving.gate.title
    assert "is down" in serving.gate.text and serving.job.hint
    assert Launch.objects.get(job=serving.job).exit_code == 1


def test_workers_left_by_a_server_that_died_are_ended_on_the_way_back(serving: Story) -> None:
    serving.request()
    serving.approve()

    def die() -> None:
        machine = serving.host.machine
        del machine.procs[500]
        machine.procs[501].parent = 1
        serving.host.exit_code, serving.host.log = 1, OOM

    serving.host.before["follow"] = die
    assert serving.work().state == JobState.QUEUED
    serving.host.before.clear()
    serving.host.exit_code, serving.host.log = None, "Uvicorn running on x\nThe server is fired up and ready to roll!\n"
    assert serving.work_on().state == JobState.FAILED
    assert "serves again" in serving.job.summary
    assert 501 not in serving.host.machine.procs


def test_a_bad_completion_is_a_failure(serving: Story) -> None:
    serving.request(way_back=False)
    serving.approve()
    serving.host.pages["/v1/completions"] = (200, b'{"choices": [{"text": "the the the the the the"}]}')
    assert serving.work().state == JobState.WAITING
    assert "only repeats" in serving.job.summary


def test_a_log_without_the_ready_line_asks_whether_to_wait(serving: Story) -> None:
    serving.request(way_back=False)
    serving.approve()
    serving.host.log = "loading\n"
    assert serving.work().state == JobState.WAITING
    assert serving.gate.kind == "not ready" and "does not say ready" in serving.gate.text
    serving.host.log += READY
    serving.answer("longer")
    assert serving.work().state == JobState.SUCCEEDED


# --- Our own faults


def test_a_fault_of_ours_is_errored_with_its_traceback(serving: Story) -> None:
    serving.request()
    serving.approve()

    def bug() -> None:
        raise ZeroDivisionError("a fault")

    serving.host.before["watch"] = bug
    assert serving.work().state == JobState.ERRORED
    assert "ZeroDivisionError: a fault" in serving.job.traceback
    assert "fault of the panel itself" in serving.job.summary
    assert not serving.job.card_claims.exists()
    assert serving.steps()["verify"] == StepState.FAILED


# --- What the next start launches


def test_a_chosen_revision_that_serves_is_what_the_next_start_launches(serving: Story) -> None:
    chosen = make_revision(serving.deployment.profile)
    serving.request(revision=chosen)
    serving.approve()
    assert serving.work().state == JobState.SUCCEEDED, serving.job.summary
    serving.deployment.refresh_from_db()
    assert serving.deployment.revision == chosen
    assert f"From now on a start or restart of {serving.deployment} launches {chosen}." in serving.log()


def test_the_same_flags_again_leave_an_edit_waiting(serving: Story) -> None:
    edited = make_revision(serving.deployment.profile)
    same = serving.deployment.live_launch
    assert same is not None
    Deployment.objects.update(revision=edited)
    serving.request(revision=same.revision)
    serving.approve()
    assert serving.work().state == JobState.SUCCEEDED, serving.job.summary
    serving.deployment.refresh_from_db()
    assert serving.deployment.revision == edited


def test_the_way_back_chooses_nothing(serving: Story) -> None:
    chosen = make_revision(serving.deployment.profile)
    serving.request(revision=chosen)
    serving.approve()
    failing = iter([1, None])
    serving.host.after["launch start"] = lambda: setattr(serving.host, "exit_code", next(failing))
    assert serving.work_on().state == JobState.FAILED
    serving.deployment.refresh_from_db()
    assert serving.deployment.revision != chosen
    assert serving.deployment.state == ServiceState.SERVING


def test_a_server_on_another_card_than_its_own_has_not_come_up_as_planned(idle: Story) -> None:
    def stray() -> None:
        idle.host.machine.cards["GPU-others"] = 40_000
        idle.host.machine.procs[500].cards = (0, 1, 2)
        idle.host.machine.procs[500].memory = 40_000

    idle.host.after["follow"] = stray
    idle.request(JobKind.START)
    idle.approve()
    assert idle.work_on().state == JobState.FAILED
    assert "uses GPU-others, which" in idle.job.summary
