"""A fresh panel for every fault: its own tables, broker and workers, on a fleet that the directory shares."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from lab.fleet import Fleet
from tests.support.fixtures import clean_fleet, fleet, short_directory
from tests.support.panel import Panel
from tests.support.story import Place, Story

__all__ = ["clean_fleet", "fleet"]

_numbers = itertools.count(1)


@pytest.fixture
def new_panel(clean_fleet: Fleet) -> Iterator[Callable[[], Panel]]:
    """Make panels without workers; each ends with the test."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(Panel(short_directory(f"fault-{next(_numbers)}")))


@pytest.fixture
def panel(new_panel: Callable[[], Panel]) -> Panel:
    return new_panel()


@pytest.fixture
def story(panel: Panel, django_db_blocker: "pytest.FixtureRequest") -> Iterator[Story]:
    """The person at that panel, without hosts."""
    with django_db_blocker.unblock(), panel.entered():  # type: ignore[attr-defined]
        yield Story.begin()


@pytest.fixture
def gpu1(story: Story, fleet: Fleet) -> Place:
    return story.add_host(fleet.host("gpu1"))


@pytest.fixture
def gpu2(story: Story, fleet: Fleet) -> Place:
    """One whose link may be pulled without harm to the first."""
    return story.add_host(fleet.host("gpu2"))


@pytest.fixture(params=["ssh", pytest.param("pct", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest, story: Story, fleet: Fleet) -> Place:
    """A plain host, and then a container of a node."""
    return story.add_host(fleet.host("gpu1")) if request.param == "ssh" else story.add_container(fleet.container(129))
