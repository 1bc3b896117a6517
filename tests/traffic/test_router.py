"""Restarts behind a router, on real processes: out before the SIGTERM, back after the check, and what ends between."""

from typing import Any

import pytest
from django.test import Client

from deployments import services
from deployments.lifecycle import EffectKind, JobState
from deployments.models import Deployment
from lab.router import Router
from tests.support.panel import Panel
from tests.support.story import STANDIN, Place, Story, launch_of, log_of, one_server, told

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]
LEASE = 4.0


def behind(router: Router, deployment: Deployment) -> str:
    """It stands in the router, which requests tell. Its address there."""
    url = f"http://10.0.0.9:{deployment.port}"
    router.backends.add(url)
    asked = {"take out": "remove_worker", "put back": "add_worker"}
    hooks: dict[str, Any] = {
        moment: {"how": "request", "method": "POST", "url": f"{router.base}/{path}?url={url}"}
        for moment, path in asked.items()
    }
    Deployment.objects.filter(pk=deployment.pk).update(hooks=hooks)
    deployment.refresh_from_db()
    return url


def test_out_before_the_stop_and_back_after_the_check(story: Story, panel: Panel, place: Place, router: Router) -> None:
    panel.start("worker")
    deployment = story.deploy_standin(place)
    story.start(deployment)
    url = behind(router, deployment)
    old = one_server(place, deployment.port)
    seen: list[tuple[str, list[int]]] = []
    router.watch = lambda what: seen.append((what, [server.process.pid for server in place.servers(deployment.port)]))
    job = story.run_job(deployment)
    new = one_server(place, deployment.port)
    assert seen == [("remove_worker", [old.process.pid]), ("add_worker", [new.process.pid])], told(job)
    term = job.effects.get(kind=EffectKind.SIGNAL_TERM)
    out, back = (asked.at for asked in router.asked)
    ready = launch_of(job).ready_at
    assert ready is not None and out < term.intended_at.timestamp() < ready.timestamp() < back
    assert router.backends == {url} and Deployment.objects.get().out_of_router == {}


def test_a_worker_that_dies_with_it_out_is_followed_by_one_that_puts_it_back(
    story: Story, panel: Panel, place: Place, router: Router
) -> None:
    panel.start_worker("first", lease=LEASE)
    deployment = story.deploy_standin(place)
    story.start(deployment)
    panel.kill("first")
    url = behind(router, deployment)
    panel.start_worker("dies", at="stop-intended=kill", lease=LEASE)
    job = story.begin_job(deployment)
    panel.wait_for_death("dies")
    assert router.backends == set() and Deployment.objects.get().out_of_router["job"] == job.pk
    panel.start_worker("other", lease=LEASE)
    story.succeeded(job)
    assert [asked.what for asked in router.asked] == ["remove_worker", "add_worker"], told(job)
    assert router.backends == {url} and one_server(place, deployment.port)


@pytest.mark.slow
def test_a_start_that_fails_stays_in_needs_attention_until_it_is_put_back(
    story: Story, panel: Panel, place: Place, client: Client
) -> None:
    """By commands on the host, on a file as nginx has one."""
    panel.start("worker")
    deployment = story.deploy_standin(place)
    story.start(deployment)
    upstream = place.machine.seen("/models/upstream.conf")
    upstream.write_text(f"server 127.0.0.1:{deployment.port};\n")
    mark = "sed -i 's/{}server 127/{}server 127/' /models/upstream.conf && cat /models/upstream.conf"
    commands = {"take out": mark.format("^", "#"), "put back": mark.format("#", "")}
    hooks = {moment: {"how": "command", "command": command} for moment, command in commands.items()}
    Deployment.objects.filter(pk=deployment.pk).update(hooks=hooks)
    broken = story.add_revision(deployment, [STANDIN, "--port", "{port}", "--no-such-option"])
    job = story.begin_job(deployment, revision=broken)
    gate = story.gate(job, "way back")
    assert upstream.read_text().startswith("#server")
    story.answer(gate, "as it is")
    story.wait_for(job, JobState.FAILED)
    assert "is still out of its router" in job.summary and f"#server 127.0.0.1:{deployment.port};" in log_of(job)
    client.force_login(story.actor)
    assert "Still out of the router" in client.get("/").content.decode()
    story.start(Deployment.objects.get())
    assert upstream.read_text().startswith("server"), "the start put it back"
    assert "Still out of the router" not in client.get("/").content.decode()


@pytest.mark.slow
def test_a_put_back_that_failed_is_run_again_by_the_button(
    story: Story, panel: Panel, place: Place, router: Router, client: Client
) -> None:
    panel.start("worker")
    deployment = story.deploy_standin(place)
    story.start(deployment)
    url = behind(router, deployment)
    router.refuses["add_worker"] = 503
    job = story.run_job(deployment)
    assert "may still be out of its router" in job.summary and router.backends == set()
    router.refuses.clear()
    client.force_login(story.actor)
    assert "Put it back now" in client.get("/").content.decode()
    again = client.post(f"/deployments/{deployment.pk}/router/")
    number = int(again["Location"].strip("/").rpartition("/")[2])
    story.succeeded(deployment.jobs.get(pk=number))
    assert router.backends == {url} and Deployment.objects.get().out_of_router == {}
    with pytest.raises(services.Refused, match="is not out of its router"):
        services.say_it_is_back(Deployment.objects.get(), actor=story.actor, address="")
