"""A server that was adopted restarts as it ran, on the cards that it used."""

from __future__ import annotations

import pytest
from django.utils import timezone

from deployments.lifecycle import JobKind, JobState
from deployments.models import Launch, Revision
from tests.deployments.machine import CARDS
from tests.deployments.support import Story

pytestmark = [pytest.mark.django_db, pytest.mark.jobs]
OTHER = "GPU-of-somebody-else"


@pytest.mark.parametrize(
    ("used", "adopted", "state"),
    [
        ([*CARDS], True, JobState.WAITING),
        ([*CARDS, OTHER], True, JobState.FAILED),
        ([*CARDS], False, JobState.FAILED),
    ],
)
def test_who_sees_all_cards_is_restarted_where_it_used_its_own_alone(
    serving: Story, used: list[str], adopted: bool, state: JobState
) -> None:
    serving.host.machine.cards[OTHER] = 4
    Revision.objects.update(env={"CUDA_VISIBLE_DEVICES": "0,1,2"})
    at, revision = timezone.now() if adopted else None, serving.deployment.revision
    Launch.objects.update(revision=revision, adopted_at=at, memory_used=dict.fromkeys(used, 40_000))
    serving.request()
    assert serving.work().state == state, serving.job.summary


def test_a_stop_launches_no_revision(serving: Story) -> None:
    Launch.objects.update(adopted_at=timezone.now())
    serving.request(JobKind.STOP)
    assert serving.work().state == JobState.WAITING, serving.job.summary
