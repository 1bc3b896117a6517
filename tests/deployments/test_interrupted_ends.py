"""Workers that die at the worst moment, and people who decide then: no end may turn into another."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from deployments import runner, services, sweeper
from deployments.lifecycle import EffectKind, JobKind, JobState, LaunchState
from deployments.models import Job, Launch
from tests.deployments.machine import SGLANG, Proc
from tests.deployments.support import Story

pytestmark = [pytest.mark.django_db, pytest.mark.jobs]


class Died(BaseException):
    """A worker that is killed catches nothing."""


def signals(story: Story) -> list[str]:
    return [kind for kind in story.host.sent if kind.startswith(("stop", "watch stop"))]


def lapse() -> None:
    Job.objects.update(lease_until=timezone.now() - timedelta(seconds=1))


def test_a_failed_check_stays_failed_when_the_worker_loses_the_job_while_it_ends_it(serving: Story) -> None:
    serving.request(way_back=False)
    serving.approve()
    serving.host.log, serving.host.exit_code = "CUDA out of memory\n", 1
    assert serving.work().state == JobState.WAITING
    serving.answer("as it is")
    serving.host.before["locks release"] = lapse
    assert serving.work().state not in (JobState.FAILED, JobState.SUCCEEDED)
    serving.host.before.clear()
    assert serving.work().state == JobState.FAILED
    assert serving.steps()["check"] == "failed"


def test_a_plan_that_was_made_anew_is_not_approved_by_being_stored(
    serving: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving.request()
    serving.approve()
    serving.host.machine.procs[101].start = 9999

    def die(*_: object, **__: object) -> None:
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(runner, "_settle", die)
        with pytest.raises(Died):
            serving.work()
    lapse()
    assert serving.work().state == JobState.WAITING
    assert signals(serving) == []
    assert serving.gate.kind == "plan"


def test_a_cancelled_job_is_rung_again_if_its_doorbell_is_lost(serving: Story, rung: list[int]) -> None:
    serving.host.deaf.add("TERM")
    serving.deployment.kill_own_by_itself, serving.deployment.term_seconds = False, 0
    serving.deployment.save()
    serving.request()
    serving.approve()
    assert serving.work().state == JobState.WAITING
    services.cancel_job(serving.job, actor=User.objects.get(username="operator"), address="")
    rung.clear()
    sweeper.sweep()
    assert rung == [serving.job.pk]


def test_the_way_back_leaves_a_strangers_server_alone(serving: Story) -> None:
    serving.request()
    serving.approve()
    serving.host.before["launch start"] = lambda: serving.host.machine.add(
        Proc(777, 7770, "python", SGLANG, port=30000, uid=1001)
    )
    serving.host._launch = lambda values: ["portbusy 30000"]  # type: ignore[method-assign]
    serving.work()
    serving.host.before.clear()
    serving.host.sent.clear()
    serving.work()
    assert 777 in serving.host.machine.procs
    assert signals(serving) == []


def test_a_script_of_ours_that_is_still_at_work_leaves_the_job_unknown(idle: Story) -> None:
    idle.request(JobKind.START)
    idle.approve()
    idle.host._launch = lambda values: ["busy"]  # type: ignore[method-assign]
    assert idle.work().state == JobState.UNKNOWN
    assert Launch.objects.get().state == LaunchState.INTENDED


def test_evidence_is_masked_before_it_is_stored(serving: Story) -> None:
    serving.deployment.memory_seconds = 0
    serving.deployment.save()
    serving.request()
    serving.approve()
    stranger = Proc(9, 90, "trainer", "train.py --api-key sk-1234567890abcdefghij", uid=1000, cards=(0,))
    serving.host.after["stop TERM"] = lambda: serving.host.machine.add(stranger)
    assert serving.work().state == JobState.WAITING
    assert "sk-1234567890" not in str(serving.gate.evidence)
    assert "trainer" in str(serving.gate.evidence) or "train.py" in str(serving.gate.evidence)


def test_discarding_a_plan_of_a_job_that_has_touched_the_host_is_left_to_a_worker(idle: Story) -> None:
    idle.request(JobKind.START)
    idle.approve()
    uuid = next(iter(idle.host.machine.cards))
    idle.host.before["launch start"] = lambda: idle.host.machine.add(Proc(9, 90, "trainer", "x", uid=1000, cards=(0,)))
    real = idle.host._launch
    idle.host._launch = lambda values: [f"notfree {uuid} 999 64"]  # type: ignore[method-assign]
    job = idle.work()
    idle.host._launch = real  # type: ignore[method-assign]
    assert (job.state, job.touched, idle.gate.kind) == (JobState.WAITING, True, "plan")
    idle.answer("discard")
    job.refresh_from_db()
    assert job.state == JobState.QUEUED
    assert idle.work().state == JobState.CANCELLED
    assert Launch.objects.get().state == LaunchState.ABANDONED


def test_a_host_that_is_ahead_of_the_database_ends_the_job_visibly(idle: Story) -> None:
    """An older database was restored: the launch is refused, and so is giving it up."""
    idle.request(JobKind.START)
    idle.approve()
    idle.host.fence = 1000
    assert idle.work().state == JobState.FAILED, (idle.job.state, idle.job.summary)
    assert "has seen newer work" in idle.job.summary and "not known" in idle.job.summary
    assert "older database" in idle.job.hint
    assert idle.job.effects.get(kind=EffectKind.LAUNCH).outcome.startswith("fenced"), "the history knows no answer"
    assert Launch.objects.get().state == LaunchState.UNKNOWN
    assert [kind for kind in idle.host.sent if kind.startswith("launch")] == ["launch start", "launch abandon"]
    idle.request(JobKind.START)
    idle.approve()
    assert idle.work_on().state == JobState.SUCCEEDED, idle.job.summary


def test_a_worker_that_was_overtaken_ends_nothing(idle: Story) -> None:
    idle.request(JobKind.START)
    idle.approve()

    def overtake() -> None:
        lapse()
        assert Job.claim(idle.job.pk, owner="another") is not None
        idle.host.fence = 1000

    idle.host.before["launch start"] = overtake
    assert idle.work().state == JobState.RUNNING
    assert Job.objects.get().owner == "another"
