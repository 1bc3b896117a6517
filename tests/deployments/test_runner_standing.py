"""Standing approvals at odd moments of a job: revoked, late, or asked for where they would mean something else."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from deployments import services
from deployments.lifecycle import JobKind, JobState
from deployments.models import Deployment, Gate, Job, StandingApproval
from tests.deployments.machine import CARDS, Proc
from tests.deployments.support import OOM, READY, Story
from tests.deployments.test_by_itself import leased  # noqa: F401 (a fixture)
from tests.deployments.test_when_idle import look_again

pytestmark = [pytest.mark.django_db, pytest.mark.jobs]

HOOKS = {"take out": {"how": "command", "command": "o"}, "put back": {"how": "command", "command": "b"}}


def approve_later(story: Story, approver: User) -> None:
    gate = story.gate
    services.approve_when_idle(gate, begins=0, ends=12, plan_hash=gate.plan_hash, actor=approver, address="")


def restarted_when_idle(story: Story, approver: User, **wanted: Any) -> None:
    story.request(**wanted)
    assert story.work().state == JobState.WAITING
    approve_later(story, approver)
    assert story.work().state == JobState.WAITING
    look_again(story)


def lease_of(story: Story, operator: User, approver: User) -> StandingApproval:
    place = story.deployment.placement
    wanted = {"gpu_uuids": place.gpu_uuids, "hours": 4, "reason": "flags"}
    lease = services.ask_for_lease(place.host, actor=operator, address="", **wanted)
    services.give_lease(lease, actor=approver, address="")
    return lease


def says(story: Story, log: str, code: int | None) -> None:
    story.host.before["launch start"] = lambda: (
        setattr(story.host, "log", log),
        setattr(story.host, "exit_code", code),
    )


def test_to_revoke_a_used_approval_answers_no_other_question(serving: Story, approver: User) -> None:
    says(serving, OOM, 1)
    restarted_when_idle(serving, approver, way_back=False)
    assert serving.job.state == JobState.WAITING and serving.gate.kind == "way back", serving.job.summary
    says(serving, READY, None)
    serving.host.sent.clear()
    services.revoke_standing(StandingApproval.objects.get(), actor=approver, address="")
    serving.job.refresh_from_db()
    assert serving.job.state == JobState.WAITING and serving.job.open_gate is not None
    serving.answer("back")
    assert "launch start" in (serving.work_on(), serving.host.sent)[1], serving.job.summary


def test_a_worker_that_comes_before_the_answer_starts_nothing(serving: Story, approver: User) -> None:
    says(serving, OOM, 1)
    restarted_when_idle(serving, approver, way_back=False)
    Job.objects.update(state=JobState.QUEUED)
    says(serving, READY, None)
    serving.host.sent.clear()
    serving.work_on()
    assert "launch start" not in serving.host.sent


def test_later_is_for_the_first_question_alone(leased: Story, approver: User) -> None:  # noqa: F811
    leased.host.pages["/metrics"] = (200, b"sglang:num_running_reqs 3.0\n")
    Deployment.objects.update(drain_seconds=0)
    looks = []

    def somebody_comes() -> None:
        looks.append(1)
        if len(looks) == 2:
            leased.host.machine.add(Proc(7, 70, "train", uid=1000, cards=(0,), memory=500))

    leased.host.before["probe"] = somebody_comes
    leased.request()
    assert leased.work_on().state == JobState.WAITING and leased.gate.step.name != "plan", leased.job.summary
    with pytest.raises(services.Refused, match="cannot wait"):
        approve_later(leased, approver)


@pytest.mark.parametrize("how", ["expired", "revoked"])
def test_a_router_that_was_told_makes_no_approval_last_for_ever(
    serving: Story, operator: User, approver: User, how: str
) -> None:
    Deployment.objects.update(hooks=HOOKS)
    lease = lease_of(serving, operator, approver) if how == "revoked" else None
    serving.host.hooks["o"] = ([], 3)
    serving.request()
    if lease is None:
        serving.approve()
    assert serving.work_on().state == JobState.WAITING and serving.gate.kind == "router", serving.job.summary
    if lease is None:
        Gate.objects.filter(kind="plan").update(expires_at=timezone.now() - timedelta(days=3))
    else:
        services.revoke_standing(lease, actor=approver, address="")
    serving.host.hooks.clear()
    serving.host.sent.clear()
    services.answer_gate(serving.gate, choice="again", comment="", plan_hash="", actor=operator, address="")
    serving.work_on()
    assert "stop TERM" not in serving.host.sent, serving.job.summary


def test_a_start_that_the_host_refused_is_not_sent_again_after_its_lease_was_revoked(
    idle: Story, operator: User, approver: User
) -> None:
    Deployment.objects.update(clean_start_by_itself=False, memory_seconds=0, stuck_seconds=0, port_seconds=0)
    lease = lease_of(idle, operator, approver)
    real = idle.host._launch

    def not_free(values: dict[str, str]) -> list[str]:
        idle.host._launch = real  # type: ignore[method-assign]
        idle.host.machine.cards[CARDS[0]] = 9000
        return [f"notfree {CARDS[0]} 9000 68"]

    idle.host._launch = not_free  # type: ignore[method-assign]
    idle.request(JobKind.START)
    assert idle.work_on().state == JobState.WAITING and idle.gate.kind == "not free", idle.job.summary
    services.revoke_standing(lease, actor=approver, address="")
    idle.host.machine.cards[CARDS[0]] = 4
    idle.host.sent.clear()
    services.answer_gate(idle.gate, choice="again", comment="", plan_hash="", actor=operator, address="")
    idle.work_on()
    assert "launch start" not in idle.host.sent and "does not count any more" in idle.job.summary
