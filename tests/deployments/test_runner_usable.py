"""Whether the cards can be used: on the page of a plan, in a job that would stop something, and after the stop."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client

from deployments.lifecycle import JobKind, JobState
from deployments.models import Check
from tests.deployments.support import Story

pytestmark = [pytest.mark.django_db, pytest.mark.jobs]

XID = "[ 5000.000000] NVRM: Xid (PCI:0000:00:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
FALLEN_OFF = (
    "The kernel's log has a fault of GPU 0 (Xid 79, less than 2 minutes before this look): it has fallen off the bus."
)


def row(story: Story) -> Check:
    return story.job.steps.get(name="verify").checks.get(key="usable")


def test_a_card_that_cannot_be_used_ends_the_job_with_what_to_do(serving: Story) -> None:
    serving.host.machine.kernel.append(XID)
    serving.request()
    assert serving.work().state == JobState.FAILED
    assert FALLEN_OFF in serving.job.summary and "Nothing was touched." in serving.job.summary
    assert serving.job.hint.startswith("Reboot ")
    assert serving.host.sent == ["probe"], "nobody was signalled"


def test_a_card_that_breaks_after_the_approval_ends_it_before_the_stop(serving: Story) -> None:
    serving.request()
    serving.approve()
    serving.host.machine.kernel.append(XID)
    assert serving.work().state == JobState.FAILED
    assert FALLEN_OFF in serving.job.summary
    assert serving.host.sent == ["probe"], "nobody was signalled"


def test_a_fault_that_the_old_server_has_outlived_is_no_news_once_it_is_stopped(serving: Story) -> None:
    """Nobody holds the card then, and so nobody shows any more that it works."""
    serving.host.machine.kernel.append("[    5.000000] NVRM: Xid (PCI:0000:00:00): 119, pid=1, name=x, Timeout")
    serving.request()
    serving.approve()
    assert serving.work().state == JobState.SUCCEEDED
    assert (row(serving).status, row(serving).value) == ("ok", "usable")


def test_a_card_that_breaks_in_the_stop_opens_a_gate_before_the_launch(serving: Story) -> None:
    serving.request()
    serving.approve()
    serving.deployment.memory_seconds = 0
    serving.deployment.save()
    serving.host.after["stop TERM"] = lambda: serving.host.machine.kernel.append(XID)
    assert serving.work().state == JobState.WAITING
    assert serving.gate.title == "The cards cannot be used as they are"
    assert serving.gate.evidence[0]["text"].startswith(f"{FALLEN_OFF} Reboot ")
    assert (row(serving).status, row(serving).value) == ("not ok", "not usable")
    assert "launch start" not in serving.host.sent

    serving.host.machine.kernel.clear()
    serving.answer("again")
    assert serving.work().state == JobState.SUCCEEDED
    assert (row(serving).status, row(serving).value, row(serving).detail) == ("ok", "usable", "")


def test_a_stop_shows_it_and_goes_on(serving: Story) -> None:
    serving.host.machine.kernel.append(XID)
    serving.request(JobKind.STOP)
    serving.approve()
    assert serving.work().state == JobState.SUCCEEDED
    assert row(serving).status == "not ok" and FALLEN_OFF in row(serving).detail


def test_a_log_that_may_not_be_read_is_a_note_that_asks_nobody(serving: Story) -> None:
    serving.host.machine.broken["kernel"] = "dmesg: read kernel buffer failed: Operation not permitted\n"
    serving.request()
    serving.approve()
    assert serving.work().state == JobState.SUCCEEDED
    assert row(serving).status == "unknown" and "may not read the kernel's log" in row(serving).detail


def test_the_page_of_a_plan_tells_whether_the_cards_can_be_used(
    serving: Story, client_of: Callable[[User], Client], operator: User
) -> None:
    serving.host.machine.columns = {"gpu_recovery_action": "GPU Reset"}
    serving.request(JobKind.STOP)
    assert serving.work().state == JobState.WAITING
    page = client_of(operator).get(f"/jobs/{serving.job.pk}/").content.decode()
    assert "Can the cards be used" in page
    assert page.count("GPU 1 waits for a reset: the driver says so.") == 2, "as a warning, and in the table"
    assert "nvidia-smi --gpu-reset -i GPU-aaaa" in page


def test_a_server_on_a_card_that_cannot_be_read_is_stopped_and_may_be_left_so(serving: Story) -> None:
    serving.deployment.memory_seconds = serving.deployment.stuck_seconds = serving.deployment.port_seconds = 0
    serving.deployment.save()
    serving.host.machine.cards = dict.fromkeys(serving.host.machine.cards, "[Unknown Error]")
    serving.request(JobKind.STOP)
    assert serving.work().state == JobState.WAITING, serving.job.summary
    assert "GPU 0 cannot be measured" in str((serving.job.plan or {})["warnings"])
    serving.host.before["watch"] = serving.host.before["round"] = lambda: serving.host.machine.cards.update(
        dict.fromkeys(serving.host.machine.cards, "[Unknown Error]")
    )
    serving.answer("approve")
    assert serving.work().state == JobState.WAITING, serving.job.summary
    assert "stop TERM" in serving.host.sent and 100 not in serving.host.machine.procs
    assert serving.gate.title == "Whether the cards are free could not be measured"
    assert [choice["label"] for choice in serving.gate.choices] == ["Look again", "Leave it stopped"]


def test_nothing_is_started_on_a_card_that_cannot_be_read(serving: Story) -> None:
    serving.host.machine.cards = dict.fromkeys(serving.host.machine.cards, "[Unknown Error]")
    serving.request()
    assert serving.work().state == JobState.FAILED
    assert "GPU 0 cannot be measured" in serving.job.summary and not serving.job.touched
