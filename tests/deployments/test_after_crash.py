"""A server that has crashed comes back by its policy: the monitor sees it, an ordinary start job does it, once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.utils import timezone

from controlpanel.models import AuditEntry
from deployments import after_crash, services
from deployments.lifecycle import JobKind, JobState, LaunchState, ServiceState, StandingKind
from deployments.models import Deployment, Job, Launch, StandingApproval
from deployments.watch import DeploymentWatcher
from hosts.models import Host
from tests.deployments.machine import CARDS, OTHER_BOOT, Proc
from tests.deployments.support import OOM, Story
from tests.factories import make_job

pytestmark = pytest.mark.django_db


@pytest.fixture
def down(serving: Story, approver: User) -> Story:
    """A server that has served, with a policy and an approval for it; it is gone, and nobody has looked yet."""
    Deployment.objects.update(crash_starts_per_hour=2)
    serving.deployment.refresh_from_db()
    services.allow_after_crash(serving.deployment, days=30, reason="nights", actor=approver, address="")
    serving.host.end(100)
    return serving


def look(story: Story) -> None:
    """The monitor reads the host, as one that has just begun."""
    Host.objects.update(monitor_owner="us", monitor_lease_until=timezone.now() + timedelta(seconds=60))
    DeploymentWatcher().saw(Host.objects.get(pk=story.deployment.placement.host_id), story.host.machine.facts())
    story.deployment.refresh_from_db()


def settle(seconds: float = 10.0) -> None:
    """The end was found so long ago."""
    earlier = timezone.now() - timedelta(seconds=seconds)
    Launch.objects.filter(crashed=True).update(ended_at=earlier)
    StandingApproval.objects.update(given_at=earlier - timedelta(hours=1))


def crash(story: Story) -> None:
    """It is found, and nothing else has happened since; then it is looked at once more."""
    look(story)
    settle()
    look(story)


def job_of(story: Story) -> Job:
    story.job = Job.objects.get()
    return story.job


def test_it_is_asked_for_once_under_the_approval(
    down: Story, rung: list[int], django_capture_on_commit_callbacks: Any
) -> None:
    look(down)
    assert (down.deployment.state, Job.objects.count()) == (ServiceState.CRASHED, 0), "somebody may start it at once"
    settle()
    with django_capture_on_commit_callbacks(execute=True):
        look(down)
        look(down)
    job = job_of(down)
    standing = StandingApproval.objects.get()
    assert (job.kind, job.standing, job.requested_by_name, job.requested_by) == ("start", standing, "panel", None)
    assert job.revision == Launch.objects.get().revision and rung == [job.pk]
    assert job.reason.startswith("It ended outside a job: its process is gone. Its policy starts it again, by the")
    entry = AuditEntry.objects.get(action="ask for start")
    assert (entry.actor_name, entry.detail["standing approval"]) == ("panel", standing.pk)


@pytest.mark.jobs
def test_it_serves_again_and_the_job_says_on_whose_word(down: Story) -> None:
    crash(down)
    job_of(down)
    assert down.work_on().state == JobState.SUCCEEDED, down.job.summary
    assert down.job.approved_by_name == "approver"
    gate = down.job.gates.get()
    assert (gate.answer, gate.standing, gate.plan_hash) == ("approve", StandingApproval.objects.get(), gate.plan_hash)
    assert "By the standing approval" in down.log()
    assert AuditEntry.objects.get(action="approve without asking").actor_name == "panel"
    assert Launch.objects.filter(state=LaunchState.SERVING).count() == 1


@pytest.mark.jobs
def test_after_a_boot(down: Story) -> None:
    down.host.machine.boot = OTHER_BOOT
    crash(down)
    assert "the host has booted" in job_of(down).reason
    assert down.work_on().state == JobState.SUCCEEDED, down.job.summary


@pytest.mark.jobs
def test_dirty_cards_leave_it_down_and_it_is_tried_again_a_minute_later(down: Story) -> None:
    down.host.machine.add(Proc(7, 70, "train", uid=1000, cards=(0,), memory=9000)).cards[CARDS[0]] = 9000
    crash(down)
    job = job_of(down)
    assert down.work_on().state == JobState.FAILED
    assert "Not started again. Somebody else holds GPU 0: python" in down.job.summary
    assert "Nothing was touched." in down.job.summary
    assert not job.gates.exists() and not job.card_claims.exists()
    look(down)
    assert Job.objects.count() == 1
    Job.objects.update(ended_at=timezone.now() - timedelta(seconds=61))
    down.host.end(7)
    look(down)
    down.job = Job.objects.first()  # type: ignore[assignment]
    assert down.job != job and down.work_on().state == JobState.SUCCEEDED


@pytest.mark.jobs
@pytest.mark.parametrize("moment", ["plan", "verify", "launch"])
def test_a_revoked_approval_starts_nothing_at_whatever_moment(down: Story, approver: User, moment: str) -> None:
    crash(down)
    job_of(down)

    def revoke() -> None:
        is_approved = down.job.gates.exists()
        for each in StandingApproval.in_force():
            if is_approved or moment == "plan":
                services.revoke_standing(each, actor=approver, address="")

    down.host.before["watch" if moment == "launch" else "probe"] = revoke
    assert down.work_on().state == JobState.FAILED
    assert down.job.steps.get(state="failed").name == moment
    assert "approver has revoked it" in down.job.summary and "Nothing was touched." in down.job.summary
    assert not any(sent.startswith("launch") for sent in down.host.sent)


@pytest.mark.jobs
def test_one_that_does_not_come_up_is_no_loop(down: Story) -> None:
    down.host.log, down.host.exit_code = OOM, 1
    crash(down)
    job_of(down)
    assert down.work_on().state == JobState.FAILED
    for _ in range(3):
        settle(1000)
        Job.objects.update(ended_at=timezone.now() - timedelta(seconds=1000))
        look(down)
    assert Job.objects.count() == 1


def _policy_off() -> None:
    Deployment.objects.update(crash_starts_per_hour=0)


def _never_ready() -> None:
    Launch.objects.update(ready_at=None)


def _never_given() -> None:
    StandingApproval.objects.all().delete()


def _given_since() -> None:
    StandingApproval.objects.update(given_at=timezone.now())


def _run_out() -> None:
    StandingApproval.objects.update(expires_at=timezone.now())


def _lost_role() -> None:
    User.objects.get(username="approver").groups.set(Group.objects.filter(name="viewer"))


def _often() -> None:
    deployment = Deployment.objects.get()
    for _ in range(2):
        make_job(deployment, state=JobState.SUCCEEDED, kind=JobKind.START, standing=StandingApproval.objects.get())
    Job.objects.update(created_at=timezone.now() - timedelta(minutes=59))


def _asked_for() -> None:
    make_job(Deployment.objects.get(), state=JobState.REJECTED, kind=JobKind.START, requested_by_name="olga")


def _cancelled() -> None:
    standing = StandingApproval.objects.get()
    make_job(Deployment.objects.get(), state=JobState.CANCELLED, standing=standing, cancel_requested_by="olga")


def _look_only() -> None:
    Host.objects.update(look_only=True)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_policy_off, ""),
        (_never_ready, "had never become ready"),
        (_never_given, "no approver has allowed it"),
        (_given_since, "the approval was given after it had ended"),
        (_run_out, "it has run out"),
        (_lost_role, "approver, who gave it, may not approve any more"),
        (_often, "2 times within an hour"),
        (_asked_for, "olga has asked for a start since"),
        (_cancelled, "olga has cancelled job"),
        (_look_only, "is look-only"),
    ],
)
def test_it_is_left_down_and_the_page_says_why(down: Story, change: Any, why: str) -> None:
    look(down)
    settle()
    change()
    before = Job.objects.count()
    look(down)
    assert Job.objects.count() == before
    said = "It ended outside a job: its process is gone."
    detail = down.deployment.state_detail
    assert detail == said if not why else detail.startswith(said) and why in detail
    assert down.deployment.state == ServiceState.CRASHED


def test_tries_of_an_hour_ago_count_no_more(down: Story) -> None:
    look(down)
    settle()
    _often()
    Job.objects.update(created_at=timezone.now() - timedelta(minutes=61))
    look(down)
    assert Job.objects.filter(state=JobState.QUEUED).count() == 1


def test_the_lesser_of_policy_and_approval_counts(down: Story) -> None:
    Deployment.objects.update(crash_starts_per_hour=5)
    look(down)
    settle()
    _often()
    look(down)
    assert not Job.objects.filter(state=JobState.QUEUED).exists()


def test_a_stop_by_a_job_is_no_crash(down: Story) -> None:
    Launch.objects.update(state=LaunchState.ENDED, ended_at=timezone.now())
    crash(down)
    assert (down.deployment.state, Job.objects.count()) == (ServiceState.STOPPED, 0)


def test_a_monitor_that_has_lost_the_host_starts_nothing(down: Story) -> None:
    look(down)
    settle()
    host = Host.objects.get(pk=down.deployment.placement.host_id)
    Host.objects.update(monitor_owner="other")
    after_crash.consider(Deployment.objects.get(), host)
    assert not Job.objects.exists()


def test_another_job_on_its_cards_comes_first(down: Story, ask: Any) -> None:
    look(down)
    settle()
    other = Deployment.objects.get()
    other.pk, other.name = None, "other"
    other.save()
    place = down.deployment.placement
    other.placements.create(host=place.host, gpu_uuids=place.gpu_uuids)
    ask(other, kind=JobKind.START)
    look(down)
    assert not Job.objects.filter(deployment=down.deployment).exists()
    assert StandingApproval.objects.filter(kind=StandingKind.AFTER_CRASH).count() == 1
