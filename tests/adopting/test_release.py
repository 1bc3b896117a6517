"""Attach what was restarted by hand; release, and the host is as it was found."""

import os
import signal

import pytest
from django.utils import timezone

from deployments import releasing, services
from deployments.lifecycle import ServiceState
from deployments.models import Deployment
from deployments.views.servers import found_for
from tests.adopting.people import by_nohup, by_unit, files, on_port, wait_for_server
from tests.managers.keepers import UNITS, run
from tests.support.story import Place, Story, told
from tests.support.waiting import until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]
FLAGS = ("--context-length", "4096")


def adopted(story: Story, place: Place, port: int) -> Deployment:
    found = on_port(place, port)
    return services.adopt(
        place.host,
        found,
        name=f"kept-{port}",
        seen_at=timezone.now(),
        requester_may_approve=True,
        actor=story.actor,
        address="",
    )


def released(story: Story, deployment: Deployment) -> Deployment:
    """Let go, and wait for the worker to tidy up."""
    services.release(deployment, actor=story.actor, address="")

    def done() -> bool:
        deployment.refresh_from_db()
        return bool(deployment.released.get("done_at"))

    until(done, seconds=60, what="the worker tidies up", tell=lambda: deployment.released)
    assert deployment.state == ServiceState.RELEASED
    return deployment


def test_what_was_only_adopted_leaves_nothing_behind(story: Story, desk: Place) -> None:
    port = 27001
    was = by_nohup(desk, port)
    before = files(desk)
    deployment = adopted(story, desk, port)
    plan = story.ask(deployment)
    story.answer(story.gate(plan, "plan"), "discard")
    assert released(story, deployment).released["kept"] == []
    assert files(desk) == before
    assert wait_for_server(desk, port).own_pid == was.own_pid


@pytest.mark.slow
def test_a_server_that_the_panel_has_restarted_lives_on_with_its_log(story: Story, desk: Place) -> None:
    port = 27002
    by_nohup(desk, port)
    before = files(desk)
    deployment = adopted(story, desk, port)
    story.run_job(deployment)
    was = wait_for_server(desk, port)
    kept = released(story, deployment).released["kept"]
    assert wait_for_server(desk, port).own_pid == was.own_pid
    left = files(desk) - before
    logs = {line for line in left if line.endswith("/log")}
    assert len(kept) == 2 and len(logs) == 1, (kept, left)
    assert all(any(log.startswith(line) for log in logs) for line in left), left
    assert releasing.WORDS["log"].format(next(iter(logs))) in kept
    back = on_port(desk, port)
    assert not back.refused, "it can be taken back"
    services.attach(deployment, back, seen_at=timezone.now(), actor=story.actor, address="")
    deployment.refresh_from_db()
    assert deployment.state == ServiceState.SERVING and deployment.released == {}
    story.run_job(deployment)  # nobody is asked about the shell above it, which is our own and starts nothing again


@pytest.mark.slow
def test_a_unit_goes_on_looking_after_its_server(story: Story, units: Place) -> None:
    port = 27003
    by_unit(units, port)
    before = files(units)
    deployment = adopted(story, units, port)
    story.run_job(deployment)
    was = wait_for_server(units, port)
    deployment = released(story, deployment)
    assert deployment.released["kept"] == [] and files(units) == before
    run(units, "sleep 0.2")
    assert wait_for_server(units, port).own_pid == was.own_pid
    assert not [each for each in units.machine.processes() if ".relaunch" in " ".join(each.cmdline)], "its follower too"


@pytest.mark.slow
def test_a_drop_in_with_which_the_unit_starts_it_stays(story: Story, units: Place) -> None:
    port = 27004
    by_unit(units, port)
    deployment = adopted(story, units, port)
    argv = [*deployment.revision.argv, *FLAGS]
    revision = story.add_revision(deployment, argv)
    job = story.run_job(deployment, revision=revision)
    path = f"{UNITS}/chat.service.d/relaunch.conf"
    assert run(units, f"cat {path}"), told(job)
    assert released(story, deployment).released["kept"] == [releasing.WORDS["written"].format(path)]
    assert run(units, f"cat {path}")


@pytest.mark.slow
def test_who_restarted_it_by_hand_is_attached(story: Story, desk: Place) -> None:
    port = 27005
    was = by_nohup(desk, port)
    deployment = adopted(story, desk, port)
    os.kill(was.lab_pid, signal.SIGTERM)
    until(lambda: not desk.servers(port), seconds=60, what="its end")
    after = by_nohup(desk, port, *FLAGS)

    def is_found() -> bool:
        deployment.refresh_from_db()
        return bool(deployment.found.get("server"))

    until(is_found, seconds=60, what="the monitor finds it", tell=lambda: deployment.state_detail)
    found = found_for(deployment)
    assert found is not None and not found.refused and found.pid == after.own_pid
    revision = services.attach(deployment, found, seen_at=timezone.now(), actor=story.actor, address="")
    assert revision.argv[-2:] == list(FLAGS) and revision.number == 2
    deployment.refresh_from_db()
    story.run_job(deployment)
    assert wait_for_server(desk, port).cmdline == after.cmdline
