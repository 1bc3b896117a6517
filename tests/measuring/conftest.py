"""One panel with a worker for all measurements of real servers; each test has a deployment and a port of its own."""

from collections.abc import Iterator

import pytest

from lab import demo
from lab.fleet import Fleet
from tests.support.fixtures import clean_fleet, end_jobs, fleet, short_directory
from tests.support.panel import Panel
from tests.support.story import Place, Story

__all__ = ["clean_fleet", "fleet"]


@pytest.fixture(scope="package")
def _everywhere(fleet: Fleet, django_db_blocker: "pytest.FixtureRequest") -> Iterator[Story]:
    directory = short_directory("measuring")
    with Panel(directory) as running, django_db_blocker.unblock(), running.entered():  # type: ignore[attr-defined]
        demo.put_models(fleet, directory)
        running.start("worker")
        story = Story.begin()
        story.add_host(fleet.host("gpu1"))
        story.add_container(fleet.container(129))
        yield story


@pytest.fixture
def story(_everywhere: Story, clean_fleet: Fleet) -> Iterator[Story]:
    """The panel's person, with hosts added and tested; what a test leaves behind is ended."""
    yield _everywhere
    end_jobs()


@pytest.fixture
def gpu1(story: Story) -> Place:
    return story.places["gpu1"]


@pytest.fixture
def ct129(story: Story) -> Place:
    return story.places["llm-gpu"]
