"""One panel with a worker for all restarts that fail; each test has a deployment and a port of its own."""

from collections.abc import Iterator

import pytest

from lab.fleet import Fleet
from tests.support.fixtures import clean_fleet, end_jobs, fleet, short_directory
from tests.support.panel import Panel
from tests.support.story import Place, Story

__all__ = ["clean_fleet", "fleet"]


@pytest.fixture(scope="package")
def _everywhere(fleet: Fleet, django_db_blocker: "pytest.FixtureRequest") -> Iterator[Story]:
    with Panel(short_directory("wayback")) as running, django_db_blocker.unblock(), running.entered():  # type: ignore[attr-defined]
        running.start("worker")
        story = Story.begin()
        story.add_host(fleet.host("gpu1"))
        story.add_container(fleet.container(129))
        yield story


@pytest.fixture
def story(_everywhere: Story, clean_fleet: Fleet) -> Iterator[Story]:
    """The panel's person, with a host added and tested; what a test leaves behind is ended."""
    yield _everywhere
    end_jobs()


@pytest.fixture(params=["gpu1", "llm-gpu"], ids=["ssh", "pct"])
def place(request: pytest.FixtureRequest, story: Story) -> Place:
    """A plain host, and then a container of a node."""
    return story.places[request.param]
