"""Answers to a waiting job: one counts, in time, for this plan, by somebody who may."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.utils import timezone

from controlpanel import audit
from controlpanel.models import AuditEntry
from deployments import services
from deployments.lifecycle import JobState, StepState
from deployments.models import Deployment, Gate, Job
from deployments.services import Refused
from tests.deployments.test_claim import together
from tests.factories import make_deployment, make_gate

Ask = Callable[..., Job]
pytestmark = pytest.mark.django_db
HASH = "a" * 64
KILL = {"key": "kill", "label": "Kill", "action": "confirm_kill", "danger": True, "needs_reason": True}
AGAIN = {"key": "again", "label": "Look again", "action": "ask"}
ANYWAY = {"key": "anyway", "label": "Launch anyway", "action": "approve", "needs_reason": True}


def waiting(ask: Ask, **values: Any) -> Gate:
    job = ask(make_deployment())
    Job.objects.filter(pk=job.pk).update(state=JobState.WAITING)
    return make_gate(Job.objects.get(pk=job.pk), **values)


def answer(gate: Gate, actor: User, choice: str = "approve", comment: str = "", plan_hash: str = HASH) -> None:
    services.answer_gate(gate, choice=choice, comment=comment, plan_hash=plan_hash, actor=actor, address="")


def unchanged(gate: Gate) -> bool:
    gate.refresh_from_db()
    gate.job.refresh_from_db()
    return gate.answered_at is None and gate.job.state == JobState.WAITING and not answers()


def answers() -> list[str]:
    return list(AuditEntry.objects.filter(action__startswith="answer").values_list("action", flat=True))


def test_an_approval_sends_the_job_on(ask: Ask, approver: User) -> None:
    gate = waiting(ask)
    answer(gate, approver, comment="fine")
    gate.refresh_from_db()
    assert (gate.answer, gate.answered_by_name, gate.comment, gate.used_at) == ("approve", "approver", "fine", None)
    assert (gate.job.state, gate.job.approved_by_name) == (JobState.QUEUED, "approver")
    assert gate.job.ring_at is not None and gate.job.card_claims.exists()
    assert answers() == ["answer: Approve and restart"]


@pytest.mark.parametrize("who", ["operator", "approver"])
def test_a_plan_is_discarded_by_who_asked_or_who_may_approve(
    request: pytest.FixtureRequest, ask: Ask, who: str
) -> None:
    gate = waiting(ask)
    answer(gate, request.getfixturevalue(who), "discard")
    gate.job.refresh_from_db()
    assert gate.job.state == JobState.REJECTED and gate.job.ended_at is not None
    assert not gate.job.card_claims.exists() and not gate.job.port_claims.exists()
    assert set(gate.job.steps.values_list("state", flat=True)) == {StepState.SKIPPED}
    assert gate.job.approved_by_name == ""


@pytest.mark.django_db(transaction=True)
def test_of_two_approvers_at_once_one_answers(ask: Ask, person: Callable[..., User]) -> None:
    gate = waiting(ask)
    people = [person(f"approver-{n}", "approver") for n in range(4)]

    def click(number: int) -> bool:
        try:
            answer(Gate.objects.get(pk=gate.pk), people[number])
        except Refused as refused:
            assert "not open any more" in refused.message
            return False
        return True

    won = together(click, 4)
    assert won.count(True) == 1
    gate.refresh_from_db()
    assert gate.answered_by_name == f"approver-{won.index(True)}"
    assert answers() == ["answer: Approve and restart"]


def test_an_approval_of_another_plan(ask: Ask, approver: User) -> None:
    gate = waiting(ask)
    for hash_ in ("", "b" * 64):
        with pytest.raises(Refused, match="plan has changed"):
            answer(gate, approver, plan_hash=hash_)
    assert unchanged(gate)


def test_an_approval_that_comes_too_late(ask: Ask, approver: User) -> None:
    gate = waiting(ask, expires_at=timezone.now() - timedelta(seconds=1))
    with pytest.raises(Refused, match="not open any more"):
        answer(gate, approver)
    assert unchanged(gate)


def test_a_gate_without_an_end_stays_open(ask: Ask, approver: User) -> None:
    gate = waiting(ask, expires_at=None)
    answer(gate, approver)
    gate.job.refresh_from_db()
    assert gate.job.state == JobState.QUEUED


def test_a_job_that_does_not_wait_any_more(ask: Ask, approver: User) -> None:
    gate = waiting(ask)
    Job.objects.filter(pk=gate.job_id).update(state=JobState.CANCELLED)
    with pytest.raises(Refused, match="not open any more"):
        answer(gate, approver)
    gate.refresh_from_db()
    assert gate.answered_at is None


def test_a_choice_that_is_not_offered(ask: Ask, approver: User) -> None:
    gate = waiting(ask)
    with pytest.raises(Refused, match="'kill' is not one"):
        answer(gate, approver, "kill")
    assert unchanged(gate)


@pytest.mark.parametrize("choice", ["approve", "kill", "anyway"])
@pytest.mark.parametrize("lets", [True, False])
def test_the_policy_says_whether_the_requester_may(
    ask: Ask, person: Callable[..., User], choice: str, lets: bool
) -> None:
    both = person("both", "operator", "approver")
    gate = waiting(ask, choices=[{"key": "approve", "label": "Approve", "action": "approve"}, KILL, ANYWAY])
    Job.objects.filter(pk=gate.job_id).update(requested_by=both)
    Deployment.objects.filter(pk=gate.job.deployment_id).update(requester_may_approve=lets)
    gate = Gate.objects.get(pk=gate.pk)
    if lets:
        answer(gate, both, choice, comment="urgent")
        assert len(answers()) == 1
        return
    with pytest.raises(PermissionDenied, match="Somebody else"):
        answer(gate, both, choice, comment="urgent")
    assert unchanged(gate)


def test_without_a_deployment_there_is_no_policy_and_no_means_no(ask: Ask, person: Callable[..., User]) -> None:
    both = person("both", "operator", "approver")
    gate = waiting(ask)
    Job.objects.filter(pk=gate.job_id).update(requested_by=both, deployment=None)
    with pytest.raises(PermissionDenied):
        answer(Gate.objects.get(pk=gate.pk), both)


@pytest.mark.parametrize("comment", ["", "   "])
@pytest.mark.parametrize("choice", ["kill", "anyway"])
def test_what_needs_a_reason(ask: Ask, approver: User, choice: str, comment: str) -> None:
    gate = waiting(ask, choices=[AGAIN, KILL, ANYWAY], plan_hash="", kind="not free")
    with pytest.raises(Refused, match="needs a reason"):
        answer(gate, approver, choice, comment, plan_hash="")
    assert unchanged(gate)
    answer(gate, approver, choice, "it hangs", plan_hash="")
    assert answers() == [f"answer: {KILL['label'] if choice == 'kill' else ANYWAY['label']}"]
    gate.job.refresh_from_db()
    assert gate.job.approved_by_name == "", "that was another question"


@pytest.mark.parametrize(
    ("who", "choice"),
    [
        ("viewer", "again"),
        ("viewer", "kill"),
        ("operator", "kill"),
        ("operator", "anyway"),
        ("administrator_only", "again"),
    ],
)
def test_who_may_not_answer(
    request: pytest.FixtureRequest, ask: Ask, person: Callable[..., User], who: str, choice: str
) -> None:
    actor = person("x", "administrator") if who == "administrator_only" else request.getfixturevalue(who)
    gate = waiting(ask, choices=[AGAIN, KILL, ANYWAY], plan_hash="")
    with pytest.raises(PermissionDenied):
        answer(gate, actor, choice, "why", plan_hash="")
    assert unchanged(gate)


def test_no_audit_entry_no_answer(ask: Ask, approver: User, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = waiting(ask)

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no audit entry")

    monkeypatch.setattr(audit, "record", fail)
    with pytest.raises(RuntimeError):
        answer(gate, approver)
    assert unchanged(gate)


def test_cancelling_answers_the_open_question(ask: Ask, operator: User, approver: User) -> None:
    gate = waiting(ask)
    services.cancel_job(gate.job, actor=operator, address="")
    gate.refresh_from_db()
    assert (gate.answer, gate.answered_by_name) == ("cancelled", "operator")
    with pytest.raises(Refused):
        answer(gate, approver)
