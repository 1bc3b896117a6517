"""One deployment takes the place of another, on real processes: never two servers at once, and the way back."""

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from deployments import services
from deployments.lifecycle import JobState, LaunchState, ServiceState
from deployments.models import Deployment, Job
from lab import ledger
from tests.support.panel import Panel
from tests.support.story import Place, Story, launch_of, one_server, told

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]
LEASE = 4.0


def asked(story: Story, old: Deployment, new: Deployment, *, way_back: bool = True) -> Job:
    """Ask for the replacement and approve its plan."""
    usual = {"reason": "", "request_key": uuid.uuid4(), "actor": story.actor, "address": ""}
    return story.approve(services.request_replacement(old, by=new, way_back=way_back, **usual))


def pair(story: Story, place: Place, *options: str) -> tuple[Deployment, Deployment]:
    """One that serves on two cards, and a stopped one on the second of them, started with ``options``."""
    old = story.deploy_standin(place, cards=(0, 1))
    new = story.deploy_standin(place, *options, cards=(1,))
    Deployment.objects.filter(pk=new.pk).update(state=ServiceState.STOPPED)
    new.refresh_from_db()
    story.start(old)
    return old, new


@contextmanager
def never_two(place: Place) -> Iterator[list[int]]:
    """Counts the engines that live, for as long as it is open; fails when there were two at once."""
    seen: list[int] = []
    over = threading.Event()

    def count() -> None:
        while not over.wait(0.02):
            seen.append(len(ledger.live_servers(place.machine)))

    counter = threading.Thread(target=count, daemon=True)
    counter.start()
    try:
        yield seen
    finally:
        over.set()
        counter.join()
    assert max(seen) == 1, seen


def test_the_new_one_serves_on_the_cards_of_the_old_one(story: Story, panel: Panel, place: Place) -> None:
    panel.start("worker")
    old, new = pair(story, place)
    with never_two(place):
        job = story.succeeded(asked(story, old, new))
    assert not place.servers(old.port)
    server = one_server(place, new.port)
    assert server.entry.launch == str(launch_of(job).pk), told(job)
    old.refresh_from_db()
    new.refresh_from_db()
    assert (old.state, new.state) == (ServiceState.STOPPED, ServiceState.SERVING)
    assert old.live_launch is None and launch_of(job).state == LaunchState.SERVING
    story.run_job(new)  # neither card is locked any more


def test_a_new_one_that_fails_is_followed_by_the_old_one(story: Story, panel: Panel, place: Place) -> None:
    panel.start("worker")
    old, new = pair(story, place, "--no-such-option")
    before = old.live_launch
    with never_two(place):
        job = story.wait_for(asked(story, old, new), JobState.FAILED)
    server = one_server(place, old.port)
    assert not place.servers(new.port)
    launch = launch_of(job)
    assert server.entry.launch == str(launch.pk) and launch.deployment == old, told(job)
    assert before is not None and launch.revision == before.revision
    assert f"{old} serves again" in job.summary
    old.refresh_from_db()
    new.refresh_from_db()
    assert (old.state, new.state) == (ServiceState.SERVING, ServiceState.STOPPED)
    story.run_job(old)  # its cards are its own again


@pytest.mark.slow
@pytest.mark.parametrize("at", ["stop-sent", "stopped", "launch-sent"])
def test_a_worker_that_dies_on_the_way_is_followed_by_one_that_ends_it(
    story: Story, panel: Panel, place: Place, at: str
) -> None:
    panel.start_worker("first", lease=LEASE)
    old, new = pair(story, place)
    panel.kill("first")
    panel.start_worker("dies", at=f"{at}=kill", lease=LEASE)
    job = asked(story, old, new)
    panel.wait_for_death("dies")
    panel.start_worker("other", lease=LEASE)
    with never_two(place):
        story.succeeded(job)
    assert one_server(place, new.port) and not place.servers(old.port)
    assert len(place.starts(new.port)) == 1, told(job)


@pytest.mark.slow
def test_unticked_it_waits_with_both_down_until_somebody_says(story: Story, panel: Panel, place: Place) -> None:
    panel.start("worker")
    old, new = pair(story, place, "--no-such-option")
    job = asked(story, old, new, way_back=False)
    gate = story.gate(job, "way back")
    assert not place.servers() and f"{old} is down. {new} is down." in gate.text, gate.text
    story.answer(gate, "back")
    story.wait_for_end(job)
    assert one_server(place, old.port).entry.launch == str(launch_of(job).pk), told(job)
