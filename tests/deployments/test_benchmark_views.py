"""The form of a benchmark, and its figures on the pages."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import timedelta
from html import unescape
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from deployments.lifecycle import JobKind, JobState
from deployments.models import Deployment, Job, Launch
from deployments.views.words import deployment_word
from tests.factories import make_benchmark, make_deployment, make_launch, make_revision

pytestmark = pytest.mark.django_db
ClientOf = Callable[[User], Client]


@pytest.fixture
def launch() -> Launch:
    """What serves."""
    return make_launch(make_deployment())


def form(**values: object) -> dict[str, object]:
    return {"at_once": "1, 8", "tokens": "64", "reason": "", "request_key": str(uuid4()), **values}


def path(deployment: Deployment) -> str:
    return f"/deployments/{deployment.pk}/benchmark/"


def page(client: Client, deployment: Deployment) -> str:
    return client.get(f"/deployments/{deployment.pk}/").content.decode()


def test_an_operator_asks_for_one(client_of: ClientOf, operator: User, launch: Launch) -> None:
    client = client_of(operator)
    assert path(launch.deployment) in page(client, launch.deployment)
    shown = client.get(path(launch.deployment))
    assert shown.status_code == 200 and "1, 8, 32" in shown.content.decode()
    answer = client.post(path(launch.deployment), form())
    job = Job.objects.get()
    assert answer["Location"] == f"/jobs/{job.pk}/"
    assert (job.kind, job.revision, job.state) == (JobKind.BENCHMARK, launch.revision, JobState.QUEUED)
    assert job.steps.get().data == {"at_once": [1, 8], "tokens": 64}
    text = client.get(f"/jobs/{job.pk}/").content.decode()
    assert "Approved by" not in text and "tokens per second" in text


def test_the_same_click_twice_is_one_job(client_of: ClientOf, operator: User, launch: Launch) -> None:
    client, said = client_of(operator), form()
    assert client.post(path(launch.deployment), said).status_code == 302
    assert client.post(path(launch.deployment), said).status_code == 302
    assert Job.objects.count() == 1


@pytest.mark.parametrize("role", ["viewer", "approver"])
def test_who_may_not_ask_for_jobs_may_not_measure(
    client_of: ClientOf, person: Callable[..., User], launch: Launch, role: str
) -> None:
    client = client_of(person("somebody", role))
    assert path(launch.deployment) not in page(client, launch.deployment)
    assert client.post(path(launch.deployment), form()).status_code == 403
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"at_once": "one"}, "whole numbers with commas"),
        ({"at_once": "1, 1000"}, "from 1 to 256"),
        ({"tokens": "1"}, "greater than or equal to 8"),
        ({"tokens": "many"}, "whole number"),
    ],
)
def test_what_cannot_be_asked_is_refused_and_nothing_is_lost(
    client_of: ClientOf, operator: User, launch: Launch, said: dict[str, object], words: str
) -> None:
    answer = client_of(operator).post(path(launch.deployment), form(reason="Is it slow?", **said))
    text = unescape(answer.content.decode())
    assert answer.status_code == 422 and words in text and "Is it slow?" in text
    assert all(str(value) in text for value in said.values())
    assert not Job.objects.exists()


@pytest.mark.parametrize("state", ["starting", "ended"])
def test_only_what_serves_is_measured(client_of: ClientOf, operator: User, launch: Launch, state: str) -> None:
    Launch.objects.update(state=state)
    client = client_of(operator)
    assert path(launch.deployment) not in page(client, launch.deployment)
    answer = client.post(path(launch.deployment), form(reason="Is it slow?"))
    text = answer.content.decode()
    assert answer.status_code == 409 and "that Relaunch has started" in text and "Is it slow?" in text


def test_while_another_job_goes_on_it_is_refused_with_a_link(
    client_of: ClientOf, operator: User, launch: Launch
) -> None:
    client = client_of(operator)
    client.post(path(launch.deployment), form())
    answer = client.post(path(launch.deployment), form())
    assert answer.status_code == 409
    assert f"has already asked for a benchmark of {launch.deployment}" in answer.content.decode()


def test_while_it_is_measured_it_serves(client_of: ClientOf, operator: User, launch: Launch) -> None:
    client = client_of(operator)
    client.post(path(launch.deployment), form())
    Job.objects.update(state=JobState.RUNNING)
    assert deployment_word(launch.deployment, active=Job.objects.get()).value == "serving"
    assert ": benchmark, asked by" in page(client, launch.deployment)


def test_the_figures_stand_beside_the_proven_ones(client_of: ClientOf, viewer: User, launch: Launch) -> None:
    deployment = launch.deployment
    then = timezone.now() - timedelta(days=3)
    make_benchmark(launch, {"tokens_per_second": 70.0}, measured_at=then)
    Launch.objects.update(state="ended")
    slow = make_launch(deployment, revision=make_revision(deployment.profile))
    Deployment.objects.update(proven_revision=launch.revision, proven_launch=launch)
    acceptance = {"middle": 1.6, "least": 1.5, "most": 1.8}
    make_benchmark(slow, {"tokens_per_second": 36.0, "acceptance": acceptance}, engine_version="0.5.11")
    text = re.sub(r"<[^>]+>", "", page(client_of(viewer), deployment))
    assert "36.0proven 70.0: -49 %, worse" in text
    assert "1.60 (1.50 to 1.80)proven 3.20: -50 %, worse" in text
    assert "The proven figures were measured with engine 0.5.9, these with 0.5.11." in text
    assert "2 benchmarks" in text


def test_all_of_them_are_drawn_over_time(client_of: ClientOf, viewer: User, launch: Launch) -> None:
    now = timezone.now()
    make_benchmark(launch, {}, {"at_once": 8, "tokens_per_second": 400.0}, measured_at=now - timedelta(days=1))
    make_benchmark(launch, {"tokens_per_second": None}, measured_at=now)
    found = re.search(r'data-trend="([^"]+)"', page(client_of(viewer), launch.deployment))
    assert found is not None
    points = json.loads(unescape(found[1]))
    assert [point["rates"] for point in points] == [{"1": 70.0, "8": 400.0}, {"1": None}]
    assert points[0]["at"] < points[1]["at"] and points[0]["revision"] == f"r{launch.deployment.revision.number}"


def test_what_failed_and_who_was_served_meanwhile_is_said(client_of: ClientOf, viewer: User, launch: Launch) -> None:
    make_benchmark(launch, {"failed": 2, "error": "status 503 <busy>", "beside": 900})
    text = page(client_of(viewer), launch.deployment)
    assert "status 503 &lt;busy&gt;" in text and "900 tokens were made for others meanwhile" in text


def test_what_the_figures_are_of_is_said(client_of: ClientOf, viewer: User, launch: Launch) -> None:
    make_benchmark(launch)
    text = page(client_of(viewer), launch.deployment)
    assert "the median of its requests, with the least and the most in brackets" in text
    assert "Each request is one short sentence" in text and 'data-label="Requests"' in text


def test_without_a_benchmark_nothing_is_said_of_it(client_of: ClientOf, viewer: User, launch: Launch) -> None:
    text = page(client_of(viewer), launch.deployment)
    assert "data-trend" not in text and "How fast" not in text


def test_the_page_of_its_job_shows_the_figures(client_of: ClientOf, operator: User, launch: Launch) -> None:
    client = client_of(operator)
    client.post(path(launch.deployment), form())
    job = Job.objects.get()
    make_benchmark(launch, job=job)
    Job.objects.update(state=JobState.SUCCEEDED, ended_at=timezone.now())
    text = client.get(f"/jobs/{job.pk}/").content.decode()
    assert "What was measured" in text and "70.0" in text
    assert "What it runs with" not in text
