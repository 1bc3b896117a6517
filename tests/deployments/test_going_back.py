"""A restart that failed, wherever it can: back by itself, asked about, or left; and a way back that fails too."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.test import Client

from controlpanel.models import AuditEntry
from deployments import services
from deployments.lifecycle import JobState, LaunchState
from deployments.models import Deployment, Job, Launch
from tests.deployments.support import OOM, READY, Story

pytestmark = [pytest.mark.django_db, pytest.mark.jobs]
ClientOf = Callable[[User], Client]
BAD = (200, b'{"choices": [{"text": "the the the the the the"}]}')
GOOD = (200, b'{"choices": [{"text": " Paris, and"}]}')
LOADED = "loading\n" + READY


def exits(story: Story) -> None:
    story.host.log, story.host.exit_code = "ValueError: no such flag\n", 2


def runs_out_of_memory(story: Story) -> None:
    story.host.log, story.host.exit_code = OOM, 137


def answers_badly(story: Story) -> None:
    story.host.pages["/v1/completions"] = BAD


def is_never_ready(story: Story) -> None:
    story.host.log = "loading\n"


BREAKS = pytest.mark.parametrize("breaks", [exits, runs_out_of_memory, answers_badly])


def mend(story: Story) -> None:
    story.host.log, story.host.exit_code = LOADED, None
    story.host.pages["/v1/completions"] = GOOD


def servers(story: Story) -> list[int]:
    """Whoever listens on the port."""
    return [pid for pid, proc in story.host.machine.procs.items() if proc.port == 30000]


def restarted(story: Story, breaks: Callable[[Story], None], *, way_back: bool) -> Story:
    """A restart with the second revision that breaks once it is launched."""
    story.request(way_back=way_back)
    story.approve()
    story.host.before["launch start"] = lambda: breaks(story)
    return story


def goes_back_well(story: Story) -> None:
    story.host.before["launch start"] = lambda: mend(story)


def serves_again(story: Story) -> None:
    job = story.job
    assert job.state == JobState.FAILED, job.summary
    assert "The new revision failed; " in job.summary and "r1 serves again" in job.summary
    live = Deployment.objects.get().live_launch
    assert live is not None and live.revision == job.previous_revision and live.state == LaunchState.SERVING
    assert len(servers(story)) == 1
    assert not job.card_claims.exists() and not job.port_claims.exists()


@BREAKS
def test_ticked_what_was_serving_serves_again_by_itself(serving: Story, breaks: Callable[[Story], None]) -> None:
    restarted(serving, breaks, way_back=True)
    assert serving.work().state == JobState.QUEUED, serving.job.summary
    goes_back_well(serving)
    serving.work_on()
    serves_again(serving)
    assert not serving.job.gates.filter(kind="way back").exists()


@BREAKS
def test_unticked_it_is_asked_and_done_when_somebody_says_so(serving: Story, breaks: Callable[[Story], None]) -> None:
    restarted(serving, breaks, way_back=False)
    assert serving.work().state == JobState.WAITING
    assert serving.gate.title == f"The restart failed. Start {serving.job.previous_revision} again?"
    assert serving.job.card_claims.exists(), "nobody else gets the cards meanwhile"
    goes_back_well(serving)
    serving.answer("back")
    serving.work_on()
    serves_again(serving)


@BREAKS
def test_unticked_it_is_left_when_somebody_says_so(serving: Story, breaks: Callable[[Story], None]) -> None:
    restarted(serving, breaks, way_back=False)
    serving.work()
    why, left = serving.job.summary, servers(serving)
    serving.host.sent.clear()
    serving.answer("as it is")
    assert serving.work_on().state == JobState.FAILED
    assert "approver decided to leave it as it is." in serving.job.summary and why in serving.job.summary
    assert "failed too" not in serving.job.summary
    assert servers(serving) == left and serving.host.sent == ["locks release"], "nothing was stopped or started"
    assert not serving.job.card_claims.exists()


@BREAKS
@pytest.mark.parametrize("ticked", [True, False])
def test_a_way_back_that_fails_too_says_so_and_stops(
    serving: Story, breaks: Callable[[Story], None], ticked: bool
) -> None:
    restarted(serving, breaks, way_back=ticked)
    serving.work()
    if not ticked:
        serving.answer("back")
    mend(serving)
    serving.host.before["launch start"] = lambda: breaks(serving)
    assert serving.work_on().state == JobState.FAILED
    first = serving.job.steps.get(name="check", way_back=False)
    assert first.summary.rstrip(".") in serving.job.summary
    assert f"Starting {serving.job.previous_revision} again failed too:" in serving.job.summary
    assert serving.job.steps.filter(way_back=True).count() == 4, "it is tried once"
    assert len(servers(serving)) <= 1
    assert Launch.objects.filter(job=serving.job).count() == 2
    assert not serving.job.card_claims.exists()


def test_one_that_is_never_ready_is_asked_about_first(serving: Story) -> None:
    restarted(serving, is_never_ready, way_back=True)
    assert serving.work().state == JobState.WAITING and serving.gate.kind == "not ready"
    goes_back_well(serving)
    serving.answer("stop")
    serving.work_on()
    serves_again(serving)


def test_who_has_stopped_one_that_is_never_ready_is_not_asked_twice(serving: Story) -> None:
    restarted(serving, is_never_ready, way_back=False)
    serving.work()
    serving.answer("stop")
    assert serving.work_on().state == JobState.FAILED
    assert serving.job.gates.filter(kind="way back").count() == 0
    assert servers(serving) == [] and "is down" in serving.job.summary


def test_a_start_that_fails_has_nothing_to_go_back_to(idle: Story) -> None:
    from deployments.lifecycle import JobKind

    idle.request(JobKind.START, way_back=False)
    idle.approve()
    exits(idle)
    assert idle.work_on().state == JobState.FAILED and not idle.job.gates.filter(kind="way back").exists()


def test_only_an_approver_starts_it_again_and_an_operator_may_leave_it(serving: Story, operator: User) -> None:
    restarted(serving, exits, way_back=False)
    serving.work()
    who = {"plan_hash": "", "actor": operator, "address": "", "comment": ""}
    with pytest.raises(PermissionDenied):
        services.answer_gate(serving.gate, choice="back", **who)  # type: ignore[arg-type]
    services.answer_gate(serving.gate, choice="as it is", **who)  # type: ignore[arg-type]
    assert AuditEntry.objects.filter(action="answer: Leave it as it is").exists()
    assert serving.work_on().state == JobState.FAILED


def test_an_answer_of_somebody_who_was_switched_off_since_starts_nothing(serving: Story) -> None:
    restarted(serving, exits, way_back=False)
    serving.work()
    serving.answer("back")
    User.objects.filter(username="approver").update(is_active=False)
    serving.host.sent.clear()
    assert serving.work_on().state == JobState.FAILED
    assert "may not decide this any more" in serving.job.summary
    assert serving.host.sent == ["locks release"]


def test_a_cancel_at_the_question_starts_nothing(serving: Story, operator: User) -> None:
    restarted(serving, exits, way_back=False)
    serving.work()
    serving.host.sent.clear()
    services.cancel_job(serving.job, actor=operator, address="")
    assert serving.work_on().state == JobState.CANCELLED
    assert "is down" in serving.job.summary and serving.host.sent == ["locks release"]


def test_a_cancel_as_the_question_comes_up_is_not_lost(serving: Story, operator: User) -> None:
    restarted(serving, exits, way_back=False)
    follow = serving.host.after

    def cancel() -> None:
        follow.clear()
        Job.objects.filter(pk=serving.job.pk).update(cancel_requested_by=operator.username)

    follow["follow"] = cancel
    serving.work()
    assert serving.job.open_gate is None, "nobody is asked about a job that is to end"
    assert serving.work_on().state == JobState.CANCELLED
    assert "launch start" not in serving.host.sent[serving.host.sent.index("launch start") + 1 :]


def test_another_worker_goes_on_after_the_answer(serving: Story) -> None:
    restarted(serving, exits, way_back=False)
    serving.work()
    serving.answer("back")
    goes_back_well(serving)
    assert serving.work(told_to_stop=lambda: True).state == JobState.QUEUED
    serving.work_on()
    serves_again(serving)


def test_the_page_says_why_while_it_asks(serving: Story, client_of: ClientOf, approver: User) -> None:
    restarted(serving, runs_out_of_memory, way_back=False)
    serving.work()
    text = re.sub(r"<[^>]+>", " ", client_of(approver).get(f"/jobs/{serving.job.pk}/").content.decode())
    assert "Why it failed" in text and "The usual fix:" in text
    assert "The restart failed. Start" in text and "Leave it as it is" in text
