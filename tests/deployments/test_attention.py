"""What a person is told wherever they are: only what they may decide, and what failed lately."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from deployments.attention import attention
from deployments.models import Gate, Job, StandingApproval
from deployments.streams import AttentionStream
from tests.factories import make_choice, make_deployment, make_gate, make_job

pytestmark = pytest.mark.django_db


def waiting(**values: object) -> Gate:
    return make_gate(make_job(make_deployment(), at_step=0, state="waiting", **values))


def keys(user: User) -> list[str]:
    return [item["key"] for item in attention(user)]


def test_only_who_may_decide_is_waited_for(viewer: User, operator: User, approver: User) -> None:
    plan = waiting()
    assert (keys(viewer), keys(operator), keys(approver)) == ([], [], [f"gate-{plan.pk}"])
    again = waiting()
    Gate.objects.filter(pk=again.pk).update(choices=[make_choice("look")])
    assert keys(operator) == [f"gate-{again.pk}"]


def test_the_policy_decides_whether_the_requester_is_waited_for(approver: User) -> None:
    gate = waiting(requested_by=approver)
    assert keys(approver) == []
    deployment = gate.job.deployment
    assert deployment is not None
    deployment.requester_may_approve = True
    deployment.save()
    assert keys(approver) == [f"gate-{gate.pk}"]


def test_a_lease_that_is_asked_for_waits_for_approvers_other_than_its_holder(
    approver: User, operator: User, administrator: User
) -> None:
    lease = StandingApproval.objects.create(kind="tuning", holder=administrator, holder_name="ana", reason="flags")
    assert attention(approver) == [
        {
            "key": f"lease-{lease.pk}",
            "path": "/",
            "at": lease.asked_at.isoformat(),
            "title": "A tuning lease waits for you",
            "kind": "waiting",
            "deployment": "",
            "about": [],
            "text": "ana: flags",
        }
    ]
    assert (keys(operator), keys(administrator)) == ([], [])


def test_what_failed_is_told_for_a_day_unless_something_is_under_way(viewer: User) -> None:
    deployment = make_deployment(name="chat")
    job = make_job(deployment, state="failed", ended_at=timezone.now())
    told = {"kind": "failed", "deployment": "chat", "about": ["chat"], "title": "chat failed", "text": "Restart failed"}
    where = {"key": f"job-{job.pk}", "path": f"/jobs/{job.pk}/", "at": job.ended_at.isoformat()}
    assert attention(viewer) == [where | told]
    Job.objects.update(ended_at=timezone.now() - timedelta(days=2))
    assert attention(viewer) == []
    Job.objects.update(ended_at=timezone.now())
    make_job(deployment)
    assert attention(viewer) == []


def test_the_stream_tells_all_of_it_when_any_changes(approver: User, stranger: User) -> None:
    stream = AttentionStream()
    assert stream.authorise(approver, "") and not stream.authorise(stranger, "")
    first = stream.read("", None, approver)
    assert first.items == [{"all": []}], "a page that said something must take it back"
    assert stream.read("", first.cursor, approver).items == []
    gate = waiting()
    second = stream.read("", first.cursor, approver)
    assert [item["key"] for item in second.items[0]["all"]] == [f"gate-{gate.pk}"]
    Gate.objects.update(answered_at=timezone.now())
    assert stream.read("", second.cursor, approver).items == [{"all": []}]
