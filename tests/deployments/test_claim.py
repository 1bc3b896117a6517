"""The right to work on a job: one owner at a time, whatever is doubled, late or dead."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TypeVar

import pytest
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from deployments.lifecycle import CLAIMABLE, ENDED, JobState, LaunchState
from deployments.models import CardClaim, Job, PortClaim
from deployments.models.job import Claim
from tests.factories import make_deployment, make_gate, make_host, make_job, make_launch

T = TypeVar("T")


def together(work: Callable[[int], T], count: int = 8) -> list[T]:
    """The same in many threads at once, each with a connection of its own."""
    barrier = threading.Barrier(count)

    def one(number: int) -> T:
        barrier.wait()
        try:
            return work(number)
        finally:
            connection.close()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


def queued(**values: object) -> Job:
    return make_job(make_deployment(), **({"state": JobState.QUEUED} | values))


def let_lease_lapse(job: Job) -> None:
    Job.objects.filter(pk=job.pk).update(lease_until=timezone.now() - timedelta(seconds=1))


@pytest.mark.django_db(transaction=True)
def test_of_eight_workers_one_gets_the_job() -> None:
    job = queued()
    claims = together(lambda number: Job.claim(job.pk, owner=f"worker-{number}"))
    (won,) = [claim for claim in claims if claim is not None]
    job.refresh_from_db()
    assert (job.owner, job.fence, job.state) == (won.owner, won.fence, JobState.RUNNING)
    assert job.deployment is not None
    job.deployment.refresh_from_db()
    assert job.deployment.fence == won.fence == 1, "who lost leaves no trace"


@pytest.mark.django_db(transaction=True)
def test_of_eight_workers_one_takes_over_a_lapsed_job() -> None:
    job = queued()
    first = Job.claim(job.pk, owner="first")
    assert first is not None
    let_lease_lapse(job)
    claims = together(lambda number: Job.claim(job.pk, owner=f"worker-{number}"))
    (won,) = [claim for claim in claims if claim is not None]
    assert won.fence > first.fence


@pytest.mark.django_db
def test_a_claim_holds_for_thirty_seconds_and_is_kept_by_renewing() -> None:
    job = queued(ring_at=timezone.now())
    claim = Job.claim(job.pk, owner="a")
    assert claim is not None
    job.refresh_from_db()
    assert job.ring_at is None
    assert job.lease_until is not None
    assert timedelta(seconds=25) < job.lease_until - timezone.now() <= timedelta(seconds=30)
    assert Job.claim(job.pk, owner="b") is None
    Job.objects.filter(pk=job.pk).update(lease_until=timezone.now() + timedelta(seconds=1))
    assert Job.renew(claim)
    job.refresh_from_db()
    assert job.lease_until is not None and job.lease_until - timezone.now() > timedelta(seconds=25)


@pytest.mark.django_db
@pytest.mark.parametrize("state", JobState)
def test_which_states_can_be_claimed(state: JobState) -> None:
    job = queued(state=state)
    assert (Job.claim(job.pk, owner="a") is not None) == (state in CLAIMABLE)


@pytest.mark.django_db
def test_a_job_that_is_not_there() -> None:
    assert Job.claim(12345, owner="a") is None


@pytest.mark.django_db
def test_the_fence_rises_over_all_jobs_of_a_deployment() -> None:
    job = queued()
    first = Job.claim(job.pk, owner="a")
    assert first is not None and job.deployment is not None
    assert Job.leave(first, state=JobState.SUCCEEDED)
    second = Job.claim(make_job(job.deployment, state=JobState.QUEUED).pk, owner="a")
    assert second is not None and second.fence > first.fence


def _stale(job: Job, how: str) -> Claim:
    claim = Job.claim(job.pk, owner="old")
    assert claim is not None
    if how == "lapsed":
        let_lease_lapse(job)
    elif how == "taken over":
        let_lease_lapse(job)
        assert Job.claim(job.pk, owner="new") is not None
    elif how == "taken over by the same worker":
        let_lease_lapse(job)
        assert Job.claim(job.pk, owner="old") is not None
    elif how == "left":
        assert Job.leave(claim, state=JobState.WAITING, summary="a question")
    else:
        assert Job.leave(claim, state=JobState.CANCELLED)
    return claim


@pytest.mark.django_db
@pytest.mark.parametrize("how", ["lapsed", "taken over", "taken over by the same worker", "left", "ended"])
def test_a_stale_claim_changes_nothing(how: str) -> None:
    job = queued()
    claim = _stale(job, how)
    before = Job.objects.filter(pk=job.pk).values().get()
    assert not Job.renew(claim)
    assert not Job.leave(claim, state=JobState.SUCCEEDED, summary="stale")
    assert not Job.held(claim).update(summary="stale")
    assert Job.objects.filter(pk=job.pk).values().get() == before


@pytest.mark.django_db
@pytest.mark.parametrize("state", JobState)
def test_leaving_in_each_state(state: JobState) -> None:
    job = queued()
    claim = Job.claim(job.pk, owner="a")
    assert claim is not None
    assert Job.leave(claim, state=state, summary="so")
    job.refresh_from_db()
    assert (job.state, job.owner, job.lease_until, job.version, job.summary) == (state, "", None, 1, "so")
    assert (job.ended_at is not None) == (state in ENDED)


# --- What the database itself refuses


def refused(work: Callable[[], object]) -> bool:
    try:
        with transaction.atomic():
            work()
    except IntegrityError:
        return True
    return False


@pytest.mark.django_db
def test_one_active_job_a_deployment() -> None:
    job = queued()
    deployment = job.deployment
    assert deployment is not None
    for state in (*CLAIMABLE, JobState.WAITING):
        Job.objects.filter(pk=job.pk).update(state=state)
        assert refused(lambda: make_job(deployment, state=JobState.QUEUED))
    Job.objects.filter(pk=job.pk).update(state=JobState.FAILED)
    assert not refused(lambda: make_job(deployment, state=JobState.QUEUED))


@pytest.mark.django_db
def test_one_live_launch_a_deployment() -> None:
    deployment = make_deployment()
    launch = make_launch(deployment)
    live = (LaunchState.INTENDED, LaunchState.STARTING, LaunchState.SERVING, LaunchState.UNKNOWN)
    for state in live:
        assert refused(lambda state=state: make_launch(deployment, state=state))  # type: ignore[misc]
    launch.state = LaunchState.ENDED
    launch.save()
    assert not refused(lambda: make_launch(deployment, state=LaunchState.INTENDED))


@pytest.mark.django_db
def test_one_job_a_card_and_a_port() -> None:
    host, job, other = make_host(), queued(), queued()
    CardClaim.objects.create(job=job, machine=host, gpu_uuid="GPU-1")
    PortClaim.objects.create(job=job, host=host, port=30000)
    assert refused(lambda: CardClaim.objects.create(job=other, machine=host, gpu_uuid="GPU-1"))
    assert refused(lambda: PortClaim.objects.create(job=other, host=host, port=30000))
    assert not refused(lambda: CardClaim.objects.create(job=other, machine=make_host(), gpu_uuid="GPU-1"))
    assert not refused(lambda: PortClaim.objects.create(job=other, host=host, port=30001))


@pytest.mark.django_db
def test_one_open_gate_a_job() -> None:
    job = queued()
    gate = make_gate(job)
    assert refused(lambda: make_gate(job))
    gate.answered_at = timezone.now()
    gate.save()
    assert not refused(lambda: make_gate(job))
