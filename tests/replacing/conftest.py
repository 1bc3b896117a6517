"""A fresh panel without workers for each test, on a plain host and in a container."""

from collections.abc import Iterator

import pytest

from lab.fleet import Fleet
from tests.support.fixtures import clean_fleet, fleet, short_directory
from tests.support.panel import Panel
from tests.support.story import Place, Story

__all__ = ["clean_fleet", "fleet"]


@pytest.fixture
def panel(clean_fleet: Fleet) -> Iterator[Panel]:
    with Panel(short_directory("replacing")) as running:
        yield running


@pytest.fixture
def story(panel: Panel, django_db_blocker: "pytest.FixtureRequest") -> Iterator[Story]:
    with django_db_blocker.unblock(), panel.entered():  # type: ignore[attr-defined]
        yield Story.begin()


@pytest.fixture(params=["ssh", pytest.param("pct", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest, story: Story, fleet: Fleet) -> Place:
    """A plain host, and then a container of a node."""
    return story.add_host(fleet.host("gpu1")) if request.param == "ssh" else story.add_container(fleet.container(129))
