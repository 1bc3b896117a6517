"""A benchmark as a job, on a scripted host: whom it asks, what it keeps, and what it leaves alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from controlpanel.models import AuditEntry
from deployments import runner, services, sweeper
from deployments.benchmark.load import Load
from deployments.benchmark.wanted import Wanted
from deployments.lifecycle import JobState, LaunchState
from deployments.models import Benchmark, Check, Effect, Job
from deployments.steps import base
from hosts.transport.base import ByteTunnel, ConnectRefused
from tests.deployments.support import Story

pytestmark = [pytest.mark.django_db, pytest.mark.jobs]

ANSWER = {"text": "a", "meta_info": {"completion_tokens": 16, "spec_accept_length": 3.0}}


def metrics(*, running: int = 0, tokens: int = 1000) -> tuple[int, bytes]:
    return (200, f"sglang:num_running_reqs {running}.0\nsglang:generation_tokens_total {tokens}.0\n".encode())


@pytest.fixture
def measured(serving: Story, operator: User) -> Story:
    """The deployment serves, and somebody has asked for one and two at once."""
    serving.host.pages |= {"/generate": (200, json.dumps(ANSWER).encode()), "/metrics": metrics()}
    serving.job = request(serving, operator)
    return serving


def request(story: Story, actor: User, at_once: tuple[int, ...] = (1, 2), **more: Any) -> Job:
    usual = {"wanted": Wanted(at_once, 16), "reason": "", "request_key": uuid4(), "address": ""}
    return services.request_benchmark(story.deployment, actor=actor, **(usual | more))


def test_it_needs_no_approval_and_touches_nothing(measured: Story) -> None:
    assert measured.work().state == JobState.SUCCEEDED, measured.job.summary
    assert not measured.job.touched and not Effect.objects.exists()
    assert measured.host.sent == [], "no script was sent to the host"
    launch = measured.deployment.launches.get()
    found = Benchmark.objects.get()
    assert (found.launch, found.revision, found.job) == (launch, launch.revision, measured.job)
    assert [level.at_once for level in found.figures] == [1, 2]
    assert [level.answered for level in found.figures] == [3, 4]
    assert [level.tokens for level in found.figures] == [48, 64]
    assert found.tokens == 16 and [card["label"] for card in found.cards] == ["GPU 0", "GPU 1"]
    assert "acceptance length 3.00" in measured.job.summary
    assert launch.state == LaunchState.SERVING
    asked = AuditEntry.objects.get(action="ask for benchmark")
    assert asked.detail["at_once"] == [1, 2]


def test_its_version_is_that_of_the_launch(measured: Story) -> None:
    measured.deployment.launches.update(effective={"version": "0.5.9"})
    measured.work()
    assert Benchmark.objects.get().engine_version == "0.5.9"


@pytest.mark.parametrize(
    ("running", "title"),
    [
        (3, "3 requests of users run now. Measure beside them?"),
        (1, "1 request of users runs now. Measure beside it?"),
    ],
)
def test_beside_users_it_asks_first(measured: Story, running: int, title: str) -> None:
    measured.host.pages["/metrics"] = metrics(running=running)
    assert measured.work().state == JobState.WAITING
    assert measured.gate.title == title
    assert Check.objects.get(step__job=measured.job, key="traffic").status == "not ok"
    assert {choice["action"] for choice in measured.gate.choices} == {"ask"}, "an operator decides"
    measured.answer("anyway")
    assert measured.work().state == JobState.SUCCEEDED, measured.job.summary


def test_an_operator_may_answer(measured: Story, operator: User) -> None:
    measured.host.pages["/metrics"] = metrics(running=3)
    measured.work()
    services.answer_gate(measured.gate, choice="anyway", comment="", plan_hash="", actor=operator, address="")
    assert measured.work().state == JobState.SUCCEEDED


def test_it_asks_when_users_cannot_be_counted(measured: Story) -> None:
    measured.host.pages["/metrics"] = (404, b"")
    assert measured.work().state == JobState.WAITING
    assert measured.gate.title.startswith("Whether users are served now is not known.")
    assert "--enable-metrics" in measured.gate.text
    measured.answer("anyway")
    assert measured.work().state == JobState.SUCCEEDED
    assert [level.beside for level in Benchmark.objects.get().figures] == [None, None]


def test_look_again_looks_again(measured: Story) -> None:
    measured.host.pages["/metrics"] = metrics(running=3)
    measured.work()
    measured.answer("again")
    assert measured.work().state == JobState.WAITING, "they still run"
    measured.host.pages["/metrics"] = metrics()
    measured.answer("again")
    assert measured.work().state == JobState.SUCCEEDED


def test_who_decides_against_it_ends_the_job_and_nothing_is_kept(measured: Story) -> None:
    measured.host.pages["/metrics"] = metrics(running=3)
    measured.work()
    measured.answer("leave")
    assert measured.work().state == JobState.FAILED
    assert "decided not to measure now" in measured.job.summary and "Nothing was touched." in measured.job.summary
    assert not Benchmark.objects.exists()


def test_a_question_that_nobody_answers_lets_go_of_the_cards(measured: Story, rung: list[int]) -> None:
    measured.host.pages["/metrics"] = metrics(running=3)
    measured.work()
    measured.job.gates.update(expires_at=timezone.now() - timedelta(seconds=1))
    sweeper.sweep()
    measured.job.refresh_from_db()
    assert measured.job.state == JobState.EXPIRED and not measured.job.card_claims.exists()


def test_tokens_for_others_are_told(measured: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Load.run

    def with_others(load: Load, tick: Callable[[], None]) -> Any:
        found = run(load, tick)
        measured.host.pages["/metrics"] = metrics(tokens=1000 + 48 + 500)
        return found

    monkeypatch.setattr(Load, "run", with_others)
    measured.job.steps.update(data={"at_once": [1], "tokens": 16})

    def reset() -> None:
        measured.host.pages["/metrics"] = metrics()

    monkeypatch.setattr("deployments.steps.benchmark.requests_at", lambda at_once: reset() or 3)
    assert measured.work().state == JobState.SUCCEEDED, measured.job.summary
    (level,) = Benchmark.objects.get().figures
    assert level.beside == 500 and level.disturbed
    assert "500 tokens were made for others" in Check.objects.get(step__job=measured.job, key="level-1").detail


def test_a_cancel_ends_it_at_once_and_nothing_is_kept(
    measured: Story, operator: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "RENEW_SECONDS", 0.0)  # a tick looks each time
    run = Load.run

    def cancelled(load: Load, tick: Callable[[], None]) -> Any:
        services.cancel_job(measured.job, actor=operator, address="")
        return run(load, tick)

    monkeypatch.setattr(Load, "run", cancelled)
    assert measured.work().state == JobState.CANCELLED, measured.job.summary
    assert "Nothing was touched." in measured.job.summary
    assert not Benchmark.objects.exists()


def test_a_server_that_does_not_answer_fails_the_job_with_what_it_said(measured: Story) -> None:
    measured.host.pages["/generate"] = (401, b'{"error": "Unauthorized"}')
    assert measured.work().state == JobState.FAILED
    assert "status 401" in measured.job.summary and "Unauthorized" in measured.job.summary
    assert not Benchmark.objects.exists()


def test_a_port_without_a_server(measured: Story) -> None:
    measured.host.pages["/metrics"] = metrics()

    def refuse(host: str, port: int) -> ByteTunnel:
        raise ConnectRefused("nothing listens")

    answered = measured.host.transport.ports[30000]
    asked = iter([answered])
    measured.host.transport.ports[30000] = lambda host, port: next(asked, refuse)(host, port)
    assert measured.work().state == JobState.FAILED
    assert "Nothing accepts connections on port 30000" in measured.job.summary


def test_a_server_that_breaks_under_load_is_told_with_what_was_measured(
    measured: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_at_two(at_once: int) -> int:
        if at_once == 2:
            measured.host.pages["/generate"] = (500, b"CUDA out of memory")
        return 3

    monkeypatch.setattr("deployments.steps.benchmark.requests_at", break_at_two)
    assert measured.work().state == JobState.FAILED
    assert "With 2 at once none of 3 requests was answered" in measured.job.summary
    assert "CUDA out of memory" in measured.job.summary
    assert [level.answered for level in Benchmark.objects.get().figures] == [3, 0]


def test_another_worker_goes_on_with_the_level_that_is_missing(
    measured: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deployments.steps import benchmark as step

    levels: list[int] = []
    measure = step._measure

    def told_to_stop_at_two(*args: Any, at_once: int, **more: Any) -> Any:
        levels.append(at_once)
        if levels == [1, 2]:
            raise runner.HandBack
        return measure(*args, at_once=at_once, **more)

    monkeypatch.setattr(step, "_measure", told_to_stop_at_two)
    measured.host.pages["/metrics"] = metrics(running=3)
    measured.work()
    measured.answer("anyway")
    assert measured.work().state == JobState.QUEUED
    assert measured.work().state == JobState.SUCCEEDED, measured.job.summary
    assert levels == [1, 2, 2] and measured.job.gates.count() == 1, "who has agreed is not asked again"
    assert [level.at_once for level in Benchmark.objects.get().figures] == [1, 2]


def test_what_no_longer_serves_is_not_measured(measured: Story) -> None:
    measured.deployment.launches.update(state=LaunchState.ENDED)
    assert measured.work().state == JobState.FAILED
    assert "does not serve with" in measured.job.summary


def test_a_key_of_the_server_is_in_nothing_that_is_stored(measured: Story, operator: User) -> None:
    said = {"error": {"message": "wrong key sk-abcdefghijklmnopqrstuvwxyz0123456789"}}
    measured.host.pages["/generate"] = (401, json.dumps(said).encode())
    measured.work()
    text = measured.job.summary + measured.log() + repr(list(Check.objects.values_list("detail", flat=True)))
    assert "sk-abcdef" not in text
