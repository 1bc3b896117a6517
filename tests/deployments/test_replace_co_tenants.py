"""A replacement beside co-tenants: each of the two deployments has its own, on its own cards."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.utils import timezone

from deployments.lifecycle import JobState, LaunchState
from deployments.models import Deployment
from tests.deployments.machine import CARDS, Proc
from tests.deployments.support import Story
from tests.deployments.test_runner_replace import new, replace  # noqa: F401
from tests.factories import make_launch

pytestmark = [pytest.mark.django_db, pytest.mark.jobs]


@pytest.fixture(autouse=True)
def _asks_at_once(serving: Story, new: Deployment) -> None:  # noqa: F811
    Deployment.objects.update(memory_seconds=0, stuck_seconds=0)
    Deployment.objects.filter(pk=serving.deployment.pk).update(co_tenants=["root:embedder"])
    serving.deployment.refresh_from_db()


def test_one_on_a_card_that_only_the_old_one_has_is_not_missed(
    serving: Story,
    replace: Callable[..., Story],  # noqa: F811
) -> None:
    serving.host.machine.add(Proc(50, 500, "embedder", "embedder", cards=(0,), memory=3_000))
    story = replace()
    assert [row["name"] for row in story.job.plan["co_tenants"]] == ["embedder"]
    assert story.work_on().state == JobState.SUCCEEDED, story.job.summary


def test_whom_only_the_old_one_allows_is_a_stranger_to_the_new_one(
    serving: Story,
    new: Deployment,  # noqa: F811
    replace: Callable[..., Story],  # noqa: F811
) -> None:
    Deployment.objects.filter(pk=new.pk).update(co_tenants=["root:Xorg"], shared_need_mib=10_000)
    now = timezone.now()
    measured = {"memory_before": {CARDS[1]: 4}, "memory_used": {CARDS[1]: 10_000}}
    make_launch(new, revision=new.revision, state=LaunchState.ENDED, started_at=now, ready_at=now, **measured)
    serving.host.machine.add(Proc(50, 500, "embedder", "embedder", cards=(1,), memory=3_000))
    story = replace()
    assert story.work_on().state == JobState.WAITING and "launch start" not in story.host.sent
    assert story.gate.kind == "not free" and "embedder" in str(story.gate.evidence)
