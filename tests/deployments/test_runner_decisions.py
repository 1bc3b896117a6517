"""Decisions of people that come at an odd moment: for other facts, too late, or after a boot that was agreed to."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from deployments import services, sweeper
from deployments.lifecycle import JobKind, JobState
from deployments.models import Gate, Job
from tests.deployments.machine import Proc
from tests.deployments.support import Story
from tests.factories import make_deployment, make_gate, make_job

pytestmark = [pytest.mark.django_db, pytest.mark.jobs]

OTHER_BOOT = "99999999-2222-3333-4444-555555555555"


@pytest.fixture
def hasty(idle: Story) -> Story:
    """Nothing is waited for before a question."""
    patience = {"memory_seconds": 0, "stuck_seconds": 0, "port_seconds": 0}
    type(idle.deployment).objects.filter(pk=idle.deployment.pk).update(**patience)
    idle.deployment.refresh_from_db()
    return idle


def comes(story: Story, pid: int, card: int, mib: int) -> None:
    """Somebody's process takes memory of a card."""
    machine = story.host.machine
    machine.add(Proc(pid, pid * 10, "python", "python train.py", uid=1001, cards=(card,), memory=mib))
    uuid = list(machine.cards)[card]
    machine.cards = {**machine.cards, uuid: mib + 4}


def test_launch_anyway_does_not_count_for_what_came_after_it(hasty: Story) -> None:
    comes(hasty, 6000, 0, 700)
    hasty.request(JobKind.START)
    hasty.approve()
    assert hasty.work().state == JobState.WAITING and hasty.gate.kind == "not free", hasty.job.summary
    hasty.answer("anyway")
    comes(hasty, 6100, 1, 30_000)
    assert hasty.work().state == JobState.WAITING and hasty.gate.kind == "plan", hasty.job.summary
    hasty.answer("approve")
    assert hasty.work().state == JobState.WAITING, hasty.job.summary
    assert hasty.gate.kind == "not free" and "GPU 1" in str(hasty.gate.evidence)


def test_an_approval_that_nobody_gave_in_time_is_no_cancel_even_after_a_launch_was_tried(hasty: Story) -> None:
    hasty.request(JobKind.START)
    hasty.approve()

    def not_free(values: dict[str, str]) -> list[str]:
        if values["MODE_LAUNCH"] == "abandon":
            return ["abandoned"]
        comes(hasty, 6000, 0, 700)
        return [f"notfree {next(iter(hasty.host.machine.cards))} 704 68"]

    hasty.host._launch = not_free  # type: ignore[method-assign]
    assert hasty.work().state == JobState.WAITING and hasty.job.touched, hasty.job.summary
    Gate.objects.filter(pk=hasty.gate.pk).update(expires_at=timezone.now() - timedelta(minutes=1))
    sweeper.sweep()
    assert hasty.work().state == JobState.EXPIRED, hasty.job.summary
    assert hasty.job.summary.startswith("Nobody approved in time. ") and hasty.job.hint


def test_a_cancelled_job_leaves_no_question_open_that_had_expired(operator: User) -> None:
    gate = make_gate(make_job(make_deployment(), at_step=0, state="waiting", requested_by=operator))
    Gate.objects.filter(pk=gate.pk).update(expires_at=timezone.now() - timedelta(minutes=1))
    services.cancel_job(gate.job, actor=operator, address="")
    assert Job.objects.get().state == JobState.CANCELLED and not Gate.objects.filter(answered_at=None).exists()


def test_a_card_that_is_listed_twice_is_not_called_free(serving: Story) -> None:
    patience = {"memory_seconds": 0, "stuck_seconds": 0, "port_seconds": 0}
    type(serving.deployment).objects.filter(pk=serving.deployment.pk).update(**patience)
    serving.request(JobKind.STOP)
    serving.approve()

    def lists_it_twice() -> None:
        first, second = serving.host.machine.cards
        rows = ((0, first, 4), (1, second, 4), (2, first, 40_004))
        head = "index, uuid, pci.bus_id, memory.total [MiB], memory.used [MiB], memory.free [MiB], name\n"
        lines = (f"{at}, {uuid}, 0000:0{at}:00.0, 49140, {mib}, {49140 - mib}, L40S\n" for at, uuid, mib in rows)
        serving.host.machine.broken["memory"] = serving.host.machine.broken["gpus"] = head + "".join(lines)

    serving.host.after["stop TERM"] = lists_it_twice
    assert serving.work().state == JobState.WAITING, serving.job.summary
    assert serving.gate.title == "Whether the cards are free could not be measured"
    assert "twice" in str(serving.gate.evidence)


def test_without_the_process_table_there_is_no_launch_anyway(serving: Story) -> None:
    patience: dict[str, Any] = {"memory_seconds": 0, "stuck_seconds": 0, "port_seconds": 0}
    type(serving.deployment).objects.filter(pk=serving.deployment.pk).update(**patience)
    serving.request()
    serving.approve()
    serving.host.after["stop TERM"] = lambda: serving.host.machine.broken.update({"procs": ""})
    assert serving.work().state == JobState.WAITING, serving.job.summary
    assert "anyway" not in [choice["key"] for choice in serving.gate.choices]
