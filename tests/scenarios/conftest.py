"""One panel with a worker and a monitor for all scenarios; each test has a deployment and a port of its own."""

from collections.abc import Iterator

import pytest

from lab.fleet import Fleet
from tests.support.fixtures import clean_fleet, end_jobs, fleet, short_directory
from tests.support.panel import Panel
from tests.support.story import Place, Story

__all__ = ["clean_fleet", "fleet"]


@pytest.fixture(scope="package")
def panel(fleet: Fleet) -> Iterator[Panel]:
    """A panel with the product's own worker and monitor."""
    with Panel(short_directory("scenarios")) as running:
        running.start("worker")
        running.start("monitor")
        yield running


@pytest.fixture(scope="package")
def _everywhere(panel: Panel, fleet: Fleet, django_db_blocker: "pytest.FixtureRequest") -> Iterator[Story]:
    with django_db_blocker.unblock(), panel.entered():  # type: ignore[attr-defined]
        story = Story.begin()
        story.add_host(fleet.host("gpu1"))
        story.add_container(fleet.container(129))
        yield story


@pytest.fixture
def story(_everywhere: Story, clean_fleet: Fleet) -> Iterator[Story]:
    """The panel's person, with hosts added and tested; jobs that a test leaves behind are ended by force."""
    yield _everywhere
    end_jobs()


@pytest.fixture(params=["ssh", pytest.param("pct", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest, story: Story) -> Place:
    """A plain host, and then a container of a node."""
    return story.places["gpu1" if request.param == "ssh" else "llm-gpu"]


@pytest.fixture
def gpu1(story: Story) -> Place:
    return story.places["gpu1"]


@pytest.fixture
def ct129(story: Story) -> Place:
    return story.places["llm-gpu"]
