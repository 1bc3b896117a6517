"""Two panels on one machine and the same cards: the host decides, and the second is told who was first."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from deployments.lifecycle import JobKind, JobState
from deployments.models import Deployment
from lab.fleet import Fleet
from tests.support.panel import Panel
from tests.support.story import Place, Story, one_server, told
from tests.support.waiting import until

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(300)]


class Side:
    """One of the panels with its person, host and deployment. Its rows are used only inside ``at``."""

    def __init__(self, panel: Panel) -> None:
        self.panel = panel
        self.story: Story
        self.place: Place
        self.deployment: Deployment

    @contextmanager
    def at(self) -> Iterator[Story]:
        with self.panel.entered():
            yield self.story


@pytest.fixture(params=["ssh", pytest.param("pct", marks=pytest.mark.slow)])
def sides(
    request: pytest.FixtureRequest,
    new_panel: Callable[[], Panel],
    fleet: Fleet,
    django_db_blocker: "pytest.FixtureRequest",
) -> Iterator[tuple[Side, Side]]:
    """Both know the same machine, and a deployment of their own on the same card."""
    with django_db_blocker.unblock():  # type: ignore[attr-defined]
        both = (Side(new_panel()), Side(new_panel()))
        for side in both:
            with side.panel.entered():
                side.story = Story.begin()
                add = side.story.add_host if request.param == "ssh" else side.story.add_container
                side.place = add(fleet.host("gpu1") if request.param == "ssh" else fleet.container(129))  # type: ignore[arg-type]
                side.deployment = side.story.deploy_standin(side.place, memory_seconds=2, stuck_seconds=4)
            side.panel.start_worker("worker")
        yield both


def test_two_panels_second_is_told_who_has_the_cards(sides: tuple[Side, Side]) -> None:
    """The first has stopped its server and not yet launched: the card is free, but not for the second."""
    first, second = sides
    with first.at() as story:
        story.start(first.deployment)
        first.panel.kill("worker")
        first.panel.start_worker("worker", at="stopped=freeze", lease=600)
        job = story.begin_job(first.deployment)
        until(lambda: first.panel.is_stopped("worker"), seconds=60, what="the freeze", tell=lambda: told(job))
    with second.at() as story:
        other = story.wait_for(story.begin_job(second.deployment, JobKind.START), JobState.FAILED)
        assert "is locked by ana" in other.summary and f"job {job.pk})" in other.summary, told(other)
        assert not second.place.starts(second.deployment.port)
    first.panel.thaw("worker")
    with first.at() as story:
        story.succeeded(job)
        one_server(first.place, first.deployment.port)
    assert len(first.place.servers()) == 1


def test_two_panels_second_finds_the_cards_held(sides: tuple[Side, Side]) -> None:
    """The first panel's server serves: for the second it is a stranger that is named and not touched."""
    first, second = sides
    with first.at() as story:
        story.start(first.deployment)
        server = one_server(first.place, first.deployment.port)
    with second.at() as story:
        gate = story.gate(story.begin_job(second.deployment, JobKind.START), "not free")
        assert "standin" in str(gate.evidence), gate.evidence
    assert first.place.servers() == [server]


def test_two_panels_at_the_same_moment(sides: tuple[Side, Side]) -> None:
    """Both start on a free card: one serves, the other launches nothing and says why."""
    jobs = []
    for side in sides:
        with side.at() as story:
            jobs.append(story.ask(side.deployment, JobKind.START))
    gates = []
    for side, job in zip(sides, jobs, strict=True):
        with side.at() as story:
            gates.append(story.gate(job, "plan"))
    for side, gate in zip(sides, gates, strict=True):
        with side.at() as story:
            story.answer(gate, "approve")
    ends = []
    for side, job in zip(sides, jobs, strict=True):
        with side.at() as story:
            ends.append(story.wait_for(job, JobState.SUCCEEDED, *FAILED_OR_ASKED))
    states = sorted(job.state for job in ends)
    assert states in (["failed", "succeeded"], ["succeeded", "waiting"]), list(map(told_at, sides, ends))
    assert len(sides[0].place.servers()) == 1


FAILED_OR_ASKED = (JobState.FAILED, JobState.WAITING)


def told_at(side: Side, job: object) -> str:
    """What a job tells, read at its own panel."""
    with side.at():
        return told(job)  # type: ignore[arg-type]
