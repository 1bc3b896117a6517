"""Rows are locked in one order by everybody, or two would wait for each other for ever (PostgreSQL locks rows)."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from deployments import services
from deployments.joblog import JobLog
from deployments.lifecycle import JobKind, JobState, ServiceState
from deployments.models import Deployment, Job
from deployments.models.job import Claim
from deployments.services.jobs import store_job
from tests.factories import make_deployment, make_gpu, make_host, make_job

pytestmark = pytest.mark.django_db
LOCKED = re.compile(r'UPDATE "(deployments_job|deployments_deployment)" SET .* WHERE (.*)')


def locks(work: Callable[[], object]) -> list[tuple[str, str]]:
    """Which rows of jobs and deployments were locked, in order: table and condition."""
    with CaptureQueriesContext(connection) as asked:
        work()
    found = [LOCKED.match(query["sql"]) for query in asked.captured_queries]
    return [(match[1].removeprefix("deployments_"), match[2]) for match in found if match]


@pytest.fixture
def pair() -> tuple[Deployment, Deployment]:
    host = make_host()
    cards = [make_gpu(host, index=index, uuid=f"GPU-{index}") for index in range(2)]
    first, second = (make_deployment(host=host, gpus=cards[:1], name=f"d{card.index}") for card in cards)
    return (first, second) if first.pk < second.pk else (second, first)


def test_the_jobs_row_is_locked_before_those_of_its_deployments(pair: tuple[Deployment, Deployment]) -> None:
    """Or a worker whose lease has just lapsed and its successor wait for each other, where rows are locked."""
    first, second = pair
    job = make_job(first, state=JobState.QUEUED, replaces=second)
    claim: list[Claim | None] = []
    claimed = locks(lambda: claim.append(Job.claim(job.pk, owner="a")))
    assert [table for table, _ in claimed][:3] == ["job", "deployment", "deployment"]
    assert str(first.pk) in claimed[1][1] and str(second.pk) in claimed[2][1]
    assert claim[0] is not None

    def write() -> None:
        with JobLog(claim[0]).transaction():  # type: ignore[arg-type]
            Deployment.objects.filter(pk=first.pk).update(state_detail="so")

    assert [table for table, _ in locks(write)] == ["job", "deployment"]


@pytest.mark.parametrize("turned", [False, True])
def test_two_deployments_are_locked_by_their_key(pair: tuple[Deployment, Deployment], turned: bool) -> None:
    old, new = reversed(pair) if turned else pair
    Deployment.objects.filter(pk=new.pk).update(state=ServiceState.STOPPED)
    job = Job(kind=JobKind.REPLACE, replaces=old, requested_by_name="ana", revision=new.revision)
    locked = locks(lambda: store_job(job, new, given={}, actor=None, address=""))
    assert [condition.rsplit(maxsplit=1)[-1] for _, condition in locked] == [str(one.pk) for one in pair]


@pytest.mark.parametrize("turned", [False, True])
def test_those_that_are_to_share_cards_are_locked_by_their_key(
    pair: tuple[Deployment, Deployment], turned: bool, administrator: User
) -> None:
    one, other = reversed(pair) if turned else pair
    cards = one.placement.gpu_uuids
    share = partial(services.update_deployment, one, host=one.placement.host, gpu_uuids=cards, shares_with=[other])
    locked = locks(lambda: share(actor=administrator, address=""))
    assert [condition.rsplit(maxsplit=1)[-1] for _, condition in locked][:2] == [str(each.pk) for each in pair]
    assert list(one.shares_with.all()) == [other]
