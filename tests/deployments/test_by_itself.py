"""What is approved without asking: a start on clean cards, and what a lease covers; anything else asks a person."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from controlpanel.models import AuditEntry
from deployments.lifecycle import JobKind, JobState
from deployments.models import Deployment
from tests.deployments.machine import CARDS, OTHER_BOOT, Proc
from tests.deployments.support import Story

pytestmark = [pytest.mark.django_db, pytest.mark.jobs]
STRANGER = Proc(7, 70, "train", uid=1000, cards=(0,), memory=500)


@pytest.fixture
def trusting(idle: Story) -> Story:
    """Its policy: a start on clean cards needs no approver."""
    Deployment.objects.update(clean_start_by_itself=True)
    return idle


def test_a_start_on_clean_cards_needs_no_approver(trusting: Story) -> None:
    trusting.request(JobKind.START)
    assert trusting.work().state == JobState.SUCCEEDED, trusting.job.summary
    assert trusting.job.approved_by_name == "policy (clean cards)"
    gate = trusting.job.gates.get()
    assert (gate.answer, gate.answered_by, gate.standing) == ("approve", trusting.job.requested_by, None)
    assert gate.plan_hash and gate.used_at is not None and gate.comment.endswith("needs no approver.")
    entry = AuditEntry.objects.get(action="approve without asking")
    assert (entry.actor_name, entry.detail["plan"]) == ("panel", gate.plan_hash)
    assert trusting.job.plan is not None and trusting.steps()["plan"] == "done"


@pytest.mark.parametrize("why", ["stranger", "full", "policy", "role"])
def test_else_an_approver_decides(trusting: Story, why: str) -> None:
    trusting.request(JobKind.START)
    if why == "stranger":
        trusting.host.machine.add(STRANGER)
    elif why == "full":
        trusting.host.machine.cards[CARDS[0]] = 9000
    elif why == "policy":
        Deployment.objects.update(clean_start_by_itself=False)
    else:
        User.objects.get(username="operator").groups.clear()
    assert trusting.work().state == JobState.WAITING
    assert trusting.gate.kind == "plan" and trusting.gate.choices[0]["action"] == "approve"
    said = "An approver decides, for the plan is not clean: " in trusting.log()
    assert said == (why in ("stranger", "full")) and trusting.host.sent == ["probe"]


def test_a_restart_always_asks(serving: Story) -> None:
    Deployment.objects.update(clean_start_by_itself=True)
    serving.request()
    assert serving.work().state == JobState.WAITING


@pytest.mark.parametrize("clean", [True, False])
def test_what_has_changed_by_the_verify_is_looked_at_again(trusting: Story, clean: bool) -> None:
    def change() -> None:
        trusting.host.machine.boot = OTHER_BOOT
        if not clean:
            trusting.host.machine.add(STRANGER)
        trusting.host.after.pop("probe")

    trusting.host.after["probe"] = change
    trusting.request(JobKind.START)
    job = trusting.work()
    assert "The plan is out of date: the host has booted meanwhile" in trusting.log()
    if clean:
        assert job.state == JobState.SUCCEEDED and job.gates.count() == 2
    else:
        assert job.state == JobState.WAITING and trusting.gate.title.startswith("The plan is out of date.")
        assert not any(sent.startswith("launch") for sent in trusting.host.sent)


def test_what_a_person_has_approved_is_asked_anew_when_it_has_changed(trusting: Story) -> None:
    trusting.host.machine.add(STRANGER)
    trusting.request(JobKind.START)
    trusting.approve()
    trusting.host.machine.boot = OTHER_BOOT
    trusting.host.end(7)
    assert trusting.work().state == JobState.WAITING and "out of date" in trusting.gate.title


def test_a_policy_that_was_taken_back_meanwhile_counts(trusting: Story) -> None:
    trusting.host.after["probe"] = lambda: User.objects.get(username="operator").groups.clear()
    trusting.request(JobKind.START)
    assert trusting.work().state == JobState.WAITING
    assert not any(sent.startswith("launch") for sent in trusting.host.sent)


def test_it_is_too_old_after_the_time_of_an_approval(trusting: Story) -> None:
    def later() -> None:
        trusting.job.gates.update(expires_at=timezone.now() - timedelta(seconds=1))

    trusting.host.before["probe"] = later
    trusting.request(JobKind.START)
    assert trusting.work().state == JobState.SUCCEEDED
    assert trusting.job.gates.count() == 2, "it was looked at and approved anew"
