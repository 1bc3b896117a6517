"""From launched to ready, on a scripted host: what is asked, what is shown, and what a slow start is."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from deployments import http
from deployments.lifecycle import CheckStatus, JobKind, JobState, LaunchState, StepState
from deployments.models import Check, Job, Launch
from deployments.steps import answering, following
from deployments.steps.base import StepContext
from hosts.transport.base import LinkLost
from tests.deployments.machine import Proc
from tests.deployments.support import OOM, READY, Story, raising
from tests.factories import make_launch, make_revision

pytestmark = [pytest.mark.django_db, pytest.mark.jobs]
ClientOf = Callable[[User], Client]
NOT_FOUND = (404, b'{"detail": "Not Found"}')


def starts(story: Story, **values: Any) -> Story:
    """The job up to its launch."""
    story.request(JobKind.START, **values)
    story.approve()
    return story


def shown(story: Story) -> Check:
    return Check.objects.get(step__job=story.job, key="completion")


# --- Its first answer


def test_a_server_for_chats_only_is_asked_in_a_chat(idle: Story) -> None:
    starts(idle)
    idle.host.pages["/v1/completions"] = NOT_FOUND
    idle.host.pages["/v1/chat/completions"] = (200, b'{"choices": [{"message": {"content": "It is Paris."}}]}')
    assert idle.work().state == JobState.SUCCEEDED, idle.job.summary
    assert Launch.objects.get().completion == "It is Paris."
    assert (shown(idle).status, shown(idle).source) == (CheckStatus.OK, "/v1/chat/completions")


def pieces(*words: str) -> bytes:
    said = (json.dumps({"choices": [{"index": 0, "text": word}]}) for word in words)
    return "".join(f"data: {each}\n\n" for each in (*said, "[DONE]")).encode()


def test_its_answer_is_shown_while_it_comes(
    idle: Story, client_of: ClientOf, operator: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "SHOW_EVERY", 0.0)
    seen: list[str] = []
    remembered = StepContext.remember

    def look(ctx: StepContext, **facts: Any) -> None:
        remembered(ctx, **facts)
        if "answering" in facts:
            seen.append(client_of(operator).get(f"/jobs/{idle.job.pk}/part/outcome/").content.decode())

    monkeypatch.setattr(StepContext, "remember", look)
    starts(idle)
    idle.host.pages["/v1/completions"] = (200, pieces(" Paris,", "\n<b>", " and"))
    assert idle.work().state == JobState.SUCCEEDED, idle.job.summary
    assert seen and "Its first answer, as it comes" in seen[0] and "Paris,<br>&lt;b&gt; and" in seen[0]
    assert Launch.objects.get().completion == " Paris,\n<b> and"
    assert "Asked by /v1/completions, it answered: Paris, <b> and\n" in "".join(
        idle.job.log.values_list("text", flat=True)
    )
    page = client_of(operator).get(f"/jobs/{idle.job.pk}/part/outcome/").content.decode()
    assert "as it comes" not in page and "Its first answer" in page


def test_of_an_answer_that_stops_in_the_middle_what_came_is_shown(idle: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, heard: Callable[[bytes], None], **__: object) -> http.HttpAnswer:
        heard(pieces(" Par")[:-14])
        raise http.NoAnswer("No answer in time.")

    starts(idle)
    monkeypatch.setattr(answering.http, "ask", broken)
    assert idle.work().state == JobState.FAILED
    assert shown(idle).detail == "No answer in time. It said:  Par"


def test_a_server_that_can_be_asked_in_no_way_fails_with_what_it_said(idle: Story) -> None:
    starts(idle)
    idle.host.pages["/v1/completions"] = NOT_FOUND
    idle.host.pages["/v1/chat/completions"] = (400, b"no chat template")
    assert idle.work().state == JobState.FAILED
    assert "/v1/completions: it was answered with status 404" in shown(idle).detail
    assert "status 400 (no chat template)" in shown(idle).detail


def test_a_server_of_vectors_is_asked_for_one(idle: Story) -> None:
    embeds = make_revision(
        idle.deployment.profile, argv=["/opt/python", "-m", "sglang.launch_server", "--is-embedding"]
    )
    starts(idle, revision=embeds)
    idle.host.pages["/v1/embeddings"] = (200, json.dumps({"data": [{"embedding": [0.5] * 1024}]}).encode())
    assert idle.work().state == JobState.SUCCEEDED, idle.job.summary
    assert Launch.objects.get().completion == "A vector of 1,024 numbers."


def test_a_server_that_wants_a_key_is_up_and_whether_it_answers_is_not_known(idle: Story) -> None:
    starts(idle)
    idle.host.pages["/v1/completions"] = (401, b'{"error": "Unauthorized"}')
    assert idle.work().state == JobState.SUCCEEDED, idle.job.summary
    assert shown(idle).status == CheckStatus.UNKNOWN
    assert "API key" in shown(idle).detail
    assert "Whether it answers is not known" in idle.job.steps.get(name="check").summary


@pytest.mark.parametrize(
    ("body", "why"),
    [(b"<html>It works!</html>", "not JSON. It said: <html>It works!"), (b'{"choices": [{"text": ""}]}', "empty")],
)
def test_an_answer_that_is_none_is_shown(idle: Story, body: bytes, why: str) -> None:
    starts(idle)
    idle.host.pages["/v1/completions"] = (200, body)
    assert idle.work().state == JobState.FAILED
    assert shown(idle).status == CheckStatus.NOT_OK and why in shown(idle).detail
    assert "does not answer as it should" in idle.job.summary


def test_of_a_server_that_crashed_at_its_first_question_the_crash_is_said(idle: Story) -> None:
    starts(idle)
    idle.host.pages["/v1/completions"] = (500, b"Internal Server Error")

    def crash() -> None:
        idle.host.log, idle.host.exit_code = idle.host.log + OOM, 137

    idle.host.after["follow"] = crash
    assert idle.work().state == JobState.FAILED
    assert "ran out of memory" in idle.job.summary and "does not answer" not in idle.job.summary
    assert idle.job.diagnosis is not None and idle.job.diagnosis["line"] == OOM.strip()


# --- Slow starts


def waits(story: Story, log: str = "loading\n") -> Story:
    """A start that is not ready at its limit."""
    starts(story)
    story.host.log = log
    assert story.work().state == JobState.WAITING, story.job.summary
    assert story.gate.kind == "not ready"
    return story


def test_a_quiet_log_is_never_a_failure_however_often_it_is_asked(idle: Story) -> None:
    waits(idle)
    for _ in range(3):
        idle.answer("longer")
        assert idle.work().state == JobState.WAITING
    assert Launch.objects.get().state == LaunchState.STARTING
    assert [step.state for step in idle.job.steps.filter(state="failed")] == []
    idle.host.log += READY
    idle.answer("longer")
    assert idle.work().state == JobState.SUCCEEDED, idle.job.summary


def test_the_question_says_what_the_log_last_said_and_what_is_usual(idle: Story) -> None:
    began = timezone.now() - timedelta(days=1)
    for seconds in (240, 230, 900):
        row = make_launch(idle.deployment, state="ended", started_at=began)
        Launch.objects.filter(pk=row.pk).update(ready_at=began + timedelta(seconds=seconds))
    bar = "Loading safetensors checkpoint shards:  41% Completed | 7/17 [00:01<00:02]"
    waits(idle, f"[2026-01-01 00:00:00 TP0] Load weight begin. avail mem=46 GB\n{bar}\n")
    text = " ".join(piece["text"] for piece in idle.gate.evidence)
    assert "as far as: loading the weights, 7 of 17." in text
    assert f"Its log last said: “{bar}”" in text
    assert "usually 4 min" in text
    assert idle.gate.choices[0]["label"] == "Wait another 8 min"
    said = next(piece for piece in idle.gate.evidence if "last said" in piece["text"])
    assert said["at"] == idle.job.log.filter(source="server").latest("seq").at.isoformat(timespec="seconds")


def test_without_earlier_starts_nothing_is_said_to_be_usual(idle: Story) -> None:
    waits(idle, "")
    text = " ".join(piece["text"] for piece in idle.gate.evidence)
    assert "Its log is empty so far" in text and "nothing is known to be usual" in text
    assert idle.gate.choices[0]["label"] == "Wait another 30 min"


def test_another_server_on_its_port_is_named(idle: Story) -> None:
    starts(idle)
    idle.host.listens = "other"
    old = Proc(900, 9000, "python", "vllm serve m", uid=1001, user="ben", port=30000)
    idle.host.after["follow"] = lambda: idle.host.machine.procs.update(
        {500: replace(idle.host.machine.procs[500], port=None), 900: old}
    )
    assert idle.work().state == JobState.WAITING, idle.job.summary
    assert "another process listens on the port" in idle.gate.text
    assert "(pid 900" in idle.gate.evidence[-1]["text"], idle.gate.evidence


def test_stopping_it_ends_what_was_launched_and_nothing_else_is_started(idle: Story) -> None:
    waits(idle)
    idle.host.sent.clear()
    idle.answer("stop")
    assert idle.work_on().state == JobState.FAILED
    assert "stop TERM" in idle.host.sent and "launch start" not in idle.host.sent
    assert 500 not in idle.host.machine.procs
    assert Launch.objects.get().state == LaunchState.ENDED
    assert "was stopped; it is down" in idle.job.summary
    assert idle.steps()["stop back"] == StepState.DONE and not idle.job.card_claims.exists()


def test_stopping_it_starts_again_what_was_serving(serving: Story) -> None:
    serving.request()
    serving.approve()
    serving.host.log = "loading\n"
    assert serving.work().state == JobState.WAITING
    stop = next(choice for choice in serving.gate.choices if choice["key"] == "stop")
    assert "is started again" in stop["detail"] and stop["danger"]
    serving.host.log = "loading\n" + READY
    serving.answer("stop")
    assert serving.work_on().state == JobState.FAILED
    assert "r1 serves again" in serving.job.summary
    assert 500 not in serving.host.machine.procs and 510 in serving.host.machine.procs


def test_leaving_it_touches_nothing_and_goes_nowhere_back(serving: Story) -> None:
    serving.request()
    serving.approve()
    serving.host.log = "loading\n"
    serving.work()
    serving.host.sent.clear()
    serving.answer("leave")
    assert serving.work_on().state == JobState.FAILED
    assert serving.host.sent == ["locks release"]
    assert 500 in serving.host.machine.procs
    assert "may still come up" in serving.job.summary
    assert serving.deployment.live_launch is not None


def test_what_ended_while_the_question_was_open_is_diagnosed(idle: Story) -> None:
    waits(idle)
    idle.host.log, idle.host.exit_code = idle.host.log + OOM, 1
    idle.answer("longer")
    assert idle.work().state == JobState.FAILED
    assert idle.job.diagnosis is not None and idle.job.diagnosis["line"] == OOM.strip()


# --- A ready line that lies


def test_a_ready_line_for_anothers_server_is_said_to_lie(idle: Story) -> None:
    starts(idle)
    taken = (
        "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 30000): address already in use\n"
    )
    idle.host.log = f"loading\n{taken}The server is fired up and ready to roll!\n"
    idle.host.listens, idle.host.exit_code = "other", 3
    assert idle.work().state == JobState.FAILED
    assert "Port 30000 is already taken" in idle.job.summary
    assert idle.job.diagnosis is not None
    assert "answered by the other server on its port" in idle.job.diagnosis["notes"][0]


# --- How far it is


def test_the_page_shows_how_far_a_start_is_and_what_is_usual(
    idle: Story, client_of: ClientOf, operator: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "SHOW_SECONDS", 0.0)
    began = timezone.now() - timedelta(days=1)
    row = make_launch(idle.deployment, state="ended", started_at=began)
    Launch.objects.filter(pk=row.pk).update(ready_at=began + timedelta(seconds=245))
    waits(idle, "Loading safetensors checkpoint shards:  41% Completed | 7/17 [00:01<00:02]\n")
    assert "start-bar" not in client_of(operator).get(f"/jobs/{idle.job.pk}/").content.decode()
    Job.objects.update(state=JobState.RUNNING)
    page = client_of(operator).get(f"/jobs/{idle.job.pk}/").content.decode()
    Job.objects.update(state=JobState.WAITING)
    assert "Starting: loading the weights" in page and "7 of 17" in page
    assert '<progress class="start-bar" max="17" value="7"' in page
    assert "usually" in page and "4 min 5 s" in page and "data-since=" in page
    idle.host.log += READY
    idle.answer("longer")
    assert idle.work().state == JobState.SUCCEEDED
    assert "start-bar" not in client_of(operator).get(f"/jobs/{idle.job.pk}/").content.decode()


def test_without_a_word_of_the_log_the_page_says_only_for_how_long(
    idle: Story, client_of: ClientOf, operator: User
) -> None:
    waits(idle, "")
    Job.objects.update(state=JobState.RUNNING)
    page = client_of(operator).get(f"/jobs/{idle.job.pk}/").content.decode()
    assert "How long it usually takes is not known yet" in page and "start-bar" not in page


# --- How long it was where


@pytest.fixture
def _seconds_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """One with each look at the clock."""
    clock = itertools.count()
    monkeypatch.setattr(following, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))


@pytest.mark.usefixtures("_seconds_pass")
def test_the_time_of_each_stage_is_kept_and_shown(idle: Story, client_of: ClientOf, viewer: User) -> None:
    starts(idle)
    assert idle.work().state == JobState.SUCCEEDED, idle.job.summary
    phases = Launch.objects.get().timings["phases"]
    assert phases and all(seconds > 0 for _, seconds in phases)
    page = client_of(viewer).get(f"/jobs/{idle.job.pk}/").content.decode()
    assert f"{phases[0][0]} {int(phases[0][1])}" in page


@pytest.mark.usefixtures("_seconds_pass")
def test_of_a_start_that_was_lost_from_sight_it_is_not_known(idle: Story) -> None:
    starts(idle)
    idle.host.after["follow"] = raising(LinkLost("The connection broke."))
    while idle.work().state not in (JobState.SUCCEEDED, JobState.FAILED):
        Job.objects.update(ring_at=timezone.now())
    assert idle.job.state == JobState.SUCCEEDED, idle.job.summary
    assert Launch.objects.get().timings == {}
