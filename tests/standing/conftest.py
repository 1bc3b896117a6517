"""One panel with its monitor and a worker, where approvals stand before they are needed."""

from collections.abc import Iterator

import pytest
from django.utils import timezone

from deployments.models import Deployment, StandingApproval
from lab.fleet import Fleet
from tests.support.fixtures import clean_fleet, end_jobs, fleet, short_directory
from tests.support.panel import Panel
from tests.support.story import Place, Story

__all__ = ["clean_fleet", "fleet"]


@pytest.fixture(scope="package")
def _everywhere(fleet: Fleet, django_db_blocker: "pytest.FixtureRequest") -> Iterator[Story]:
    with Panel(short_directory("standing")) as running, django_db_blocker.unblock(), running.entered():  # type: ignore[attr-defined]
        running.start("worker")
        story = Story.begin()
        story.add_host(fleet.host("gpu1"))
        running.start("monitor")
        yield story


@pytest.fixture
def story(_everywhere: Story, clean_fleet: Fleet) -> Iterator[Story]:
    """The panel's person, with a host added and tested; what a test leaves behind is ended."""
    yield _everywhere
    Deployment.objects.update(crash_starts_per_hour=0)
    StandingApproval.objects.update(ended_at=timezone.now())
    end_jobs()


@pytest.fixture
def gpu1(story: Story) -> Place:
    return story.places["gpu1"]
