"""Lost doorbells and dead workers are found; each job is rung for once at a time."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError
from django.utils import timezone

from controlpanel.models import AuditEntry
from deployments import sweeper
from deployments.lifecycle import JobState, StepState
from deployments.models import CardClaim, Job
from tests.factories import make_deployment, make_gate, make_host, make_job

pytestmark = pytest.mark.django_db
NOW = timezone.now
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("state", "values", "rings"),
    [
        (JobState.RUNNING, {"lease_until": NOW() - SECOND}, True),
        (JobState.RUNNING, {"lease_until": None}, True),
        (JobState.RUNNING, {"lease_until": NOW() + timedelta(hours=1)}, False),
        (JobState.RUNNING, {"lease_until": NOW() + timedelta(hours=1), "ring_at": NOW() - SECOND}, False),
        (JobState.QUEUED, {"ring_at": NOW() - SECOND}, True),
        (JobState.QUEUED, {"ring_at": NOW() + timedelta(hours=1)}, False),
        (JobState.UNKNOWN, {"ring_at": NOW() - SECOND}, True),
        (JobState.UNKNOWN, {"ring_at": NOW() + timedelta(hours=1)}, False),
        (JobState.WAITING, {"ring_at": NOW() - SECOND}, False),
        (JobState.FAILED, {"ring_at": NOW() - SECOND}, False),
    ],
)
def test_which_jobs_are_rung_for(rung: list[int], state: JobState, values: dict[str, Any], rings: bool) -> None:
    job = make_job(make_deployment(), state=state, **values)
    sweeper.sweep()
    assert rung == ([job.pk] if rings else [])
    sweeper.sweep()
    assert rung == ([job.pk] if rings else []), "not again at once"
    if rings:
        Job.objects.update(ring_at=NOW() - SECOND)
        sweeper.sweep()
        assert rung == [job.pk] * 2, "but again when nobody came"


def test_two_sweepers_ring_once(rung: list[int]) -> None:
    job = make_job(make_deployment(), state=JobState.QUEUED, ring_at=NOW() - SECOND)
    assert sweeper._left_lying() == [job.pk]
    assert sweeper._left_lying() == []


def test_an_approval_that_nobody_gave_expires() -> None:
    job = make_job(make_deployment(), state=JobState.WAITING)
    CardClaim.objects.create(job=job, machine=make_host(), gpu_uuid="GPU-1")
    gate = make_gate(job, expires_at=NOW() - SECOND)
    sweeper.sweep()
    sweeper.sweep()
    job.refresh_from_db()
    gate.refresh_from_db()
    assert (job.state, gate.answer) == (JobState.EXPIRED, "expired")
    assert job.ended_at is not None and "Nothing was touched" in job.summary and job.hint
    assert not job.card_claims.exists()
    assert set(job.steps.values_list("state", flat=True)) == {StepState.SKIPPED}
    assert [entry.action for entry in AuditEntry.objects.all()] == ["approval expired"]


@pytest.mark.parametrize("expires_at", [None, NOW() + timedelta(hours=1)])
def test_other_questions_stay_open(expires_at: Any) -> None:
    job = make_job(make_deployment(), state=JobState.WAITING)
    make_gate(job, expires_at=expires_at)
    sweeper.sweep()
    job.refresh_from_db()
    assert job.state == JobState.WAITING


def test_a_sweep_that_fails_does_not_end_the_sweeper(monkeypatch: pytest.MonkeyPatch) -> None:
    stop, sweeps = threading.Event(), []

    def sweep() -> None:
        sweeps.append(1)
        if len(sweeps) == 3:
            stop.set()
        raise DatabaseError("gone")

    monkeypatch.setattr(sweeper, "sweep", sweep)
    monkeypatch.setattr(sweeper, "EVERY_SECONDS", 0.001)
    sweeper.run_forever(stop)
    assert len(sweeps) == 3
