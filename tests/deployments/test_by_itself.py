"""What is approved without asking: a start on clean cards, and what a lease covers; anything else asks a person."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group, User
from django.utils import timezone

from controlpanel.models import AuditEntry
from deployments import services
from deployments.lifecycle import JobKind, JobState
from deployments.models import Deployment, StandingApproval
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


# --- A tuning lease


@pytest.fixture
def leased(serving: Story, operator: User, approver: User) -> Story:
    """The operator has a lease of its two cards."""
    place = serving.deployment.placement
    asked = {"gpu_uuids": place.gpu_uuids, "hours": 4, "reason": "flags", "actor": operator, "address": ""}
    lease = services.ask_for_lease(place.host, **asked)
    services.give_lease(lease, actor=approver, address="")
    return serving


def test_a_restart_within_a_lease_goes_through_and_is_verified_and_told(leased: Story) -> None:
    leased.request()
    assert leased.work().state == JobState.SUCCEEDED, leased.job.summary
    assert leased.steps() == dict.fromkeys(("plan", "drain", "stop", "verify", "launch", "check"), "done")
    lease, gate = StandingApproval.objects.get(), leased.job.gates.get()
    assert (gate.standing, gate.answered_by_name, leased.job.approved_by_name) == (lease, "approver", "approver")
    assert f"By the standing approval {lease.pk} that approver has given" in leased.log()
    assert leased.job.plan is not None and leased.job.plan["requests"] == 0
    assert AuditEntry.objects.filter(action="approve without asking").count() == 1


def _fewer_cards() -> None:
    StandingApproval.objects.update(gpu_uuids=[CARDS[0]])


def _other_holder() -> None:
    StandingApproval.objects.update(holder=User.objects.get(username="approver"))


def _production() -> None:
    Deployment.objects.update(production=True)


def _run_out() -> None:
    StandingApproval.objects.update(expires_at=timezone.now())


def _revoked() -> None:
    lease = StandingApproval.objects.get()
    services.revoke_standing(lease, actor=User.objects.get(username="operator"), address="")


def _not_given() -> None:
    StandingApproval.objects.update(given_at=None, expires_at=None)


def _to_oneself() -> None:
    operator = User.objects.get(username="operator")
    operator.groups.add(Group.objects.get(name="approver"))
    StandingApproval.objects.update(given_by=operator)


def _giver_lost_role() -> None:
    User.objects.get(username="approver").groups.clear()


@pytest.mark.parametrize(
    "change",
    [_fewer_cards, _other_holder, _production, _run_out, _revoked, _not_given, _to_oneself, _giver_lost_role],
)
def test_outside_of_it_a_person_is_asked(leased: Story, change: Callable[[], None]) -> None:
    change()
    leased.request()
    assert leased.work().state == JobState.WAITING
    assert leased.host.sent == ["probe"]


def test_a_plan_that_is_not_clean_is_asked_about(leased: Story) -> None:
    leased.host.machine.add(STRANGER)
    leased.request()
    assert leased.work().state == JobState.WAITING and "Somebody else holds GPU 0" in leased.log()


def test_a_stop_is_asked_about(leased: Story) -> None:
    leased.request(JobKind.STOP)
    assert leased.work().state == JobState.WAITING


def test_revoked_before_the_stop_it_asks(leased: Story) -> None:
    leased.host.before["probe"] = lambda: _revoked_once() if leased.job.gates.exists() else None
    leased.request()
    assert leased.work().state == JobState.WAITING
    assert leased.job.gates.filter(answer="approve").exists() and "stop TERM" not in leased.host.sent


def _revoked_once() -> None:
    if StandingApproval.in_force().exists():
        _revoked()


def test_revoked_after_the_stop_the_restart_is_carried_to_its_end(leased: Story) -> None:
    leased.host.after["stop TERM"] = _revoked_once
    leased.request()
    assert leased.work().state == JobState.SUCCEEDED, leased.job.summary
