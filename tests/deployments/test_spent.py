"""How long a job took: the work, and apart from it the time in which it waited for a person."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client

from deployments.lifecycle import JobState, StepState
from deployments.models import Gate, Job
from deployments.views.words import spent
from tests.factories import make_deployment, make_gate, make_job

pytestmark = pytest.mark.django_db
BEGIN = datetime(2026, 1, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def job_with(*gates: tuple[float, float | None], **values: object) -> Job:
    """Begun at second 0; each gate is opened at one second and answered at another, or open."""
    job = make_job(make_deployment(), started_at=BEGIN, **values)
    for opened, answered in gates:
        gate = make_gate(job, answered_at=None if answered is None else at(answered))
        Gate.objects.filter(pk=gate.pk).update(opened_at=at(opened))
    return job


@pytest.mark.parametrize(
    ("gates", "ended", "work", "waited"),
    [
        ([], 12, 12, 0),
        ([(2, 182)], 192, 12, 180),
        ([(2, 182), (185, 245)], 252, 12, 240),
        ([(2, None)], 62, 2, 60),  # cancelled while it waited
        ([(2, None)], None, 2, 98),  # it waits now
        ([(2, 50)], None, 52, 48),  # it goes on
    ],
)
def test_work_and_waiting_are_told_apart(
    gates: list[tuple[float, float | None]], ended: float | None, work: float, waited: float
) -> None:
    state = JobState.RUNNING if ended is None else JobState.CANCELLED
    found = spent(job_with(*gates, state=state, ended_at=None if ended is None else at(ended)), now=at(100))
    assert found is not None
    assert (found.work.total_seconds(), found.waited.total_seconds()) == (work, waited)


def test_what_is_not_known_stays_so() -> None:
    assert spent(job_with(state=JobState.CANCELLED, ended_at=None), now=at(100)) is None
    unbegun = make_job(make_deployment(), state=JobState.EXPIRED, started_at=None, ended_at=at(5))
    assert spent(unbegun, now=at(100)) is None
    step = unbegun.steps.all()[0]
    step.state, step.started_at = StepState.SKIPPED, BEGIN
    assert spent(step, now=at(100)) is None, "cut off: when is not known"


@pytest.mark.long
def test_the_pages_show_both(client_of: Callable[[User], Client], viewer: User) -> None:
    job = job_with((2, 182), state=JobState.SUCCEEDED, ended_at=at(192))
    client = client_of(viewer)
    for path in ("/jobs/", f"/deployments/{job.deployment_id}/"):
        assert '12 s<div class="small soft">waited 3 min for a person' in client.get(path).content.decode()
    header = client.get(f"/jobs/{job.pk}/part/header/").content.decode()
    assert "took 12 s" in header and "waited 3 min" in header
