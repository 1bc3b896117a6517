"""A job reads the model's files once, before it touches anything, and its plan says whether the model fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from deployments import services
from deployments.lifecycle import JobKind, JobState
from deployments.models import ModelOnHost, Revision
from deployments.services import Refused
from hosts.transport.base import CommandTimeout, LinkLost
from tests.deployments.fit import models
from tests.deployments.machine import CARDS
from tests.deployments.support import OOM, Story
from tests.factories import make_launch

ClientOf = Callable[[User], Client]
pytestmark = [pytest.mark.django_db, pytest.mark.jobs]


def readings(story: Story) -> int:
    return sum(b"tell_sizes()" in call.stdin for call in story.host.transport.calls)


def planned(story: Story, kind: JobKind = JobKind.RESTART) -> dict[str, Any]:
    story.request(kind)
    assert story.work().state == JobState.WAITING, story.job.summary
    assert story.job.plan is not None
    found: dict[str, Any] = story.job.plan["fit"]
    return found


def test_the_files_are_read_once_for_a_job_and_kept(serving: Story) -> None:
    serving.host.model = models.QWEN3_8B
    found = planned(serving)
    assert found["word"] == "Too close to say" and found["tables"]["rows"][0]["in_use"]
    row = ModelOnHost.objects.get()
    assert (row.path, row.problem) == ("/models/qwen-27b", "") and row.read_at is not None
    assert row.found is not None and row.found.sizes == {"model.safetensors": 20_000_000_000}
    serving.answer("approve")
    assert serving.work_on().state == JobState.SUCCEEDED
    assert readings(serving) == 1, "at the later steps it is known"
    planned(serving)
    assert readings(serving) == 2 and ModelOnHost.objects.count() == 1, "another job looks again"


def test_what_is_not_there_or_cannot_be_read_in_time_is_unknown_and_stands_in_nobodys_way(serving: Story) -> None:
    found = planned(serving)
    assert found["word"] == "Not known" and "There is no model at /models/qwen-27b" in found["reason"]
    assert ModelOnHost.objects.get().problem == found["reason"]
    serving.answer("discard")
    serving.work_on()
    asks = lambda call: b"tell_sizes()" in call.stdin  # noqa: E731
    serving.host.transport.on(asks, reply=CommandTimeout("The host did not tell of the model within 15 s."))
    assert planned(serving)["reason"] == "The host did not tell of the model within 15 s."
    serving.answer("discard")
    serving.work_on()
    serving.host.transport.on(asks, reply=LinkLost("The connection broke."))
    serving.request()
    assert serving.work().state == JobState.FAILED and not serving.job.touched


def test_what_was_known_stays_when_a_reading_finds_nothing(serving: Story) -> None:
    serving.host.model = models.QWEN3_8B
    planned(serving)
    serving.answer("discard")
    serving.work_on()
    serving.host.model = None
    assert planned(serving)["word"] == "Not known"
    row = ModelOnHost.objects.get()
    assert row.found is not None and "There is no model" in row.problem


def test_a_stop_reads_nothing(serving: Story) -> None:
    serving.host.model = models.QWEN3_8B
    assert planned(serving, JobKind.STOP) is None and readings(serving) == 0


def test_what_this_revision_took_here_when_it_served_is_shown_as_measured(idle: Story) -> None:
    facts = [{"label": "KV cache", "value": "327,310 tokens, K 2.50 GiB, V 2.50 GiB", "source": "its log"}]
    used = dict.fromkeys(CARDS, 40_000)
    usual = {"state": "ended", "ended_at": timezone.now(), "effective": {"facts": facts}}
    make_launch(idle.deployment, memory_used=used, **usual)
    make_launch(idle.deployment, memory_used={CARDS[0]: 1}, **usual)
    make_launch(idle.deployment, memory_used=used, ready_at=None, **usual)
    found = planned(idle, JobKind.START)
    assert found["word"] == "It fits" and "327,310 tokens" in found["served"]["text"]


@pytest.mark.parametrize(("kept", "offered"), [(40_000, False), (4_000, True)])
def test_what_surely_cannot_start_in_what_is_free_is_not_launched_anyway(
    serving: Story, kept: int, offered: bool
) -> None:
    """It never served there, so nothing was measured: the files that were read for the plan tell."""
    serving.deployment.memory_seconds = serving.deployment.stuck_seconds = 0
    serving.deployment.save()
    serving.deployment.launches.update(ready_at=None)
    serving.host.model = models.QWEN35_9B
    serving.host.leaks = True
    serving.request()
    serving.approve()
    serving.host.after["stop TERM"] = lambda: serving.host.machine.cards.update(dict.fromkeys(CARDS, kept))
    assert serving.work_on().state == JobState.WAITING, serving.log()
    choices = {choice["key"]: choice for choice in serving.gate.choices}
    assert ("anyway" in choices) is offered
    said = f"is not offered: {serving.deployment.revision} does not fit in the memory that is free:" in str(choices)
    assert said is not offered, choices


def failed_start(story: Story, log: str = OOM) -> dict[str, Any]:
    """A start of a model of 20 GB a card that ends for want of memory."""
    story.host.model = models.QWEN3_8B
    story.host.log, story.host.exit_code = log, 1
    story.request(JobKind.START)
    story.approve()
    assert story.work_on().state == JobState.FAILED
    assert story.job.diagnosis is not None
    found: dict[str, Any] = story.job.diagnosis
    return found


def test_after_a_failure_for_want_of_memory_on_clean_cards_it_is_said_what_the_plan_said_and_what_would_fit(
    idle: Story, client_of: ClientOf, approver: User
) -> None:
    found = failed_start(idle)
    assert "baseline before the start: the model does not fit; nothing was left over" in found["memory"]
    assert found["fit"]["text"].startswith("The plan had said that it is too close to say. The 12.0% outside")
    assert found["fit"]["changes"]
    page = client_of(approver).get(idle.job.get_absolute_url()).content.decode()
    assert found["fit"]["changes"][0]["flags"] in page and "would make it fit" in page


def test_another_failure_says_nothing_of_it(idle: Story) -> None:
    assert failed_start(idle, "ValueError: Model architectures ['X'] are not supported for now.\n")["fit"] is None


def test_where_others_held_memory_nothing_is_said_of_fitting(idle: Story) -> None:
    idle.host.before["launch start"] = lambda: idle.host.machine.cards.update(dict.fromkeys(CARDS, 30_000))
    found = failed_start(idle)
    assert found["fit"] is None and "something else held memory" in found["memory"]


def test_a_plan_that_is_known_to_fail_is_approved_with_a_reason_only(
    serving: Story, client_of: ClientOf, approver: User
) -> None:
    serving.deployment.launches.update(ready_at=None)
    serving.host.model = models.QWEN35_9B
    revision = serving.deployment.revision
    Revision.objects.update(argv=[*revision.argv, "--mem-fraction-static", "0.1"])
    assert planned(serving)["word"] == "It does not fit"
    choice = serving.gate.choices[0]
    assert choice["label"] == "Approve and restart although it does not fit"
    assert choice["danger"] and choice["needs_reason"]
    page = client_of(approver).get(f"/jobs/{serving.job.pk}/part/gate/").content.decode()
    assert "although it does not fit" in page and "Needs a reason." in page and "Approve when idle" not in page
    with pytest.raises(Refused, match="needs a reason"):
        serving.answer("approve", comment=" ")
    later = {"begins": 0, "ends": 12, "plan_hash": serving.gate.plan_hash, "actor": approver, "address": ""}
    with pytest.raises(Refused, match="known to fail"):
        services.approve_when_idle(serving.gate, **later)
    serving.answer("approve", comment="A test of the alarm.")
    assert serving.job.gates.get(kind="plan").comment == "A test of the alarm."
