"""Marking a launch as proven, taking the mark back, and what the pages say of what has moved."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.test import Client

from controlpanel.models import AuditEntry
from deployments import services
from deployments.lifecycle import JobKind, JobState
from deployments.models import Deployment, Launch
from deployments.services import Refused
from tests.deployments.support import Story
from tests.factories import make_deployment, make_gpu, make_job, make_launch, make_revision

pytestmark = pytest.mark.django_db
ClientOf = Callable[[User], Client]
MODEL = {"path": "/models/qwen-27b", "print": "0123456789ab"}


@pytest.fixture
def proven(approver: User) -> Launch:
    """What serves, marked as proven."""
    launch = make_launch(make_deployment(state="serving"), effective={"version": "0.5.9"}, model=MODEL)
    services.mark_proven(launch, actor=approver, address="")
    return launch


def page(client: Client, path: str) -> str:
    text = unescape(re.sub(r"<[^>]+>", " ", client.get(path).content.decode()))
    return re.sub(r"\s+", " ", text)


def now(deployment: Deployment, **values: object) -> Launch:
    """The next launch serves."""
    Launch.objects.update(state="ended")
    return make_launch(deployment, **values)


def test_the_mark_holds_what_it_ran_with_and_who_said_so(proven: Launch, approver: User) -> None:
    kept = Deployment.objects.get().proven_with
    assert (kept["engine"], kept["model"], kept["by"]) == ("0.5.9", MODEL, approver.username)
    assert [card["label"] for card in kept["cards"]] == ["GPU 0", "GPU 1"]
    entry = AuditEntry.objects.get(action="mark proven")
    assert entry.detail["engine"] == "0.5.9" and entry.detail["model"] == MODEL


def test_the_page_says_it_and_that_nothing_has_moved(proven: Launch, client_of: ClientOf, viewer: User) -> None:
    text = page(client_of(viewer), f"/deployments/{proven.deployment_id}/")
    assert "with engine 0.5.9 , model files 0123456789ab , on GPU 0, GPU 1" in text
    assert "when it was proven" not in text and "Take the mark back" not in text


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"effective": {"version": "0.5.11"}}, "The engine was 0.5.9 when it was proven; it is 0.5.11 now."),
        ({"model": {**MODEL, "print": "ffff"}}, "The files of the model at /models/qwen-27b are not those"),
    ],
)
def test_what_has_moved_is_said_on_the_page_and_before_the_click(
    proven: Launch, client_of: ClientOf, operator: User, values: dict[str, object], words: str
) -> None:
    other = make_revision(proven.deployment.profile)
    now(proven.deployment, revision=other, **values)
    client = client_of(operator)
    assert words in page(client, f"/deployments/{proven.deployment_id}/")
    form = page(client, f"/deployments/{proven.deployment_id}/restart/?which=proven")
    assert words in form


def test_other_cards_are_said(proven: Launch, client_of: ClientOf, viewer: User) -> None:
    place = proven.deployment.placement
    card = make_gpu(place.host, index=5)
    place.gpu_uuids = [card.uuid]
    place.save()
    text = page(client_of(viewer), f"/deployments/{proven.deployment_id}/")
    assert "It was proven on GPU 0, GPU 1 (NVIDIA RTX 6000 Ada); it has GPU 5" in text


def test_of_what_was_marked_before_this_was_kept_nothing_is_said(
    proven: Launch, client_of: ClientOf, viewer: User
) -> None:
    Deployment.objects.update(proven_with={})
    assert "Marked" not in page(client_of(viewer), f"/deployments/{proven.deployment_id}/")


def test_the_mark_is_taken_back(proven: Launch, client_of: ClientOf, operator: User, approver: User) -> None:
    path = f"/deployments/{proven.deployment_id}/unproven/"
    assert client_of(operator).post(path).status_code == 403
    assert client_of(approver).get(path).status_code == 405
    with pytest.raises(PermissionDenied):
        services.unmark_proven(proven.deployment, actor=operator, address="")
    client = client_of(approver)
    assert path in client.get(f"/deployments/{proven.deployment_id}/").content.decode()
    assert client.post(path).status_code == 302
    found = Deployment.objects.get()
    assert (found.proven_revision, found.proven_launch, found.proven_with) == (None, None, {})
    assert AuditEntry.objects.filter(action="unmark proven").count() == 1
    assert client.post(path).status_code == 409
    with pytest.raises(Refused, match="Nothing of"):
        services.unmark_proven(found, actor=approver, address="")


def test_the_overview_leads_back_to_the_proven_revision(proven: Launch, client_of: ClientOf, operator: User) -> None:
    deployment = proven.deployment
    slow = make_revision(deployment.profile)
    Deployment.objects.update(revision=slow)
    now(deployment, revision=slow)
    assert f"/deployments/{deployment.pk}/restart/?which=proven" in client_of(operator).get("/").content.decode()


def test_so_does_a_failed_job(proven: Launch, client_of: ClientOf, operator: User) -> None:
    deployment = proven.deployment
    job = make_job(deployment, state=JobState.FAILED, at_step=4, failed=True)
    Launch.objects.update(state="ended")
    Deployment.objects.update(state="stopped")
    client = client_of(operator)
    link = f"/deployments/{deployment.pk}/start/?which=proven"
    assert link in client.get("/").content.decode() and link in client.get(f"/jobs/{job.pk}/").content.decode()
    assert "Start with the proven revision" in page(client, "/")


def test_a_failed_benchmark_does_not(proven: Launch, client_of: ClientOf, operator: User) -> None:
    job = make_job(proven.deployment, kind=JobKind.BENCHMARK, state=JobState.FAILED)
    client = client_of(operator)
    for path in ("/", f"/jobs/{job.pk}/"):
        assert "which=proven" not in client.get(path).content.decode()


@pytest.mark.parametrize("edited", [True, False])
def test_the_way_back_is_chosen_also_where_it_is_what_is_set(
    proven: Launch, client_of: ClientOf, operator: User, edited: bool
) -> None:
    slow = make_revision(proven.deployment.profile)
    if edited:
        Deployment.objects.update(revision=slow)
    now(proven.deployment, revision=slow)
    form = client_of(operator).get(f"/deployments/{proven.deployment_id}/restart/?which=proven").content.decode()
    chosen = re.search(r'value="(\w+)" checked><span><strong>[^<]+</strong>: ([^<]+) <', form)
    assert chosen is not None
    assert (chosen[1], chosen[2]) == ("proven" if edited else "chosen", str(proven.revision))


def started(story: Story, config: dict[str, Any] | None) -> Launch:
    """A launch with this config.json in its model's folder."""
    story.host.model = config
    story.request(JobKind.START)
    story.approve()
    assert story.work_on().state == JobState.SUCCEEDED, story.job.summary
    return story.job.launches.get()


@pytest.mark.jobs
def test_a_start_keeps_which_model_it_was(idle: Story) -> None:
    kept = started(idle, {"num_hidden_layers": 64}).model
    assert kept["path"] == "/models/qwen-27b" and re.fullmatch("[0-9a-f]{12}", kept["print"])


@pytest.mark.jobs
def test_a_model_that_is_not_found_is_not_known(idle: Story) -> None:
    reason = "There is no model at /models/qwen-27b on this host."
    assert started(idle, None).model == {"path": "/models/qwen-27b", "unknown": reason}
