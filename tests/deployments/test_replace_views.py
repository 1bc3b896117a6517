"""The form that asks to replace a deployment by another: what is offered, what comes of it, who may."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from controlpanel.models import AuditEntry
from deployments.lifecycle import JobKind, JobState, ServiceState, StandingKind
from deployments.models import Deployment, Job, StandingApproval
from deployments.views.standing import about
from tests.factories import make_deployment, make_gate, make_gpu, make_host, make_job, make_profile, make_revision

pytestmark = pytest.mark.django_db


def make(name: str, *, port: int = 30000, **values: object) -> Deployment:
    revision = make_revision(make_profile(name=f"profile-{name}"), port=port)
    return make_deployment(revision=revision, name=name, port=port, **values)


@pytest.fixture
def old() -> Deployment:
    host = make_host()
    return make("old", host=host, gpus=[make_gpu(host), make_gpu(host)], state=ServiceState.SERVING)


@pytest.fixture
def new(old: Deployment) -> Deployment:
    place = old.placement
    return make("new", host=place.host, gpus=place.gpus[:1], state=ServiceState.STOPPED, port=30001)


@pytest.fixture
def operating(client: Client, operator: User) -> Client:
    client.force_login(operator)
    return client


def form(new: Deployment, **values: object) -> dict[str, object]:
    return {"by": new.pk, "reason": "night model", "way_back": "on", "request_key": uuid4(), **values}


@pytest.mark.long
def test_the_button_and_the_form_offer_what_fits(operating: Client, old: Deployment, new: Deployment) -> None:
    path = f"/deployments/{old.pk}/replace/"
    assert path in operating.get(f"/deployments/{old.pk}/").content.decode()
    make("elsewhere", state=ServiceState.STOPPED)
    make("busy", host=old.placement.host, gpus=old.placement.gpus, state=ServiceState.SERVING)
    page = operating.get(path).content.decode()
    assert "<strong>new</strong>" in page and "port" in page
    assert "elsewhere" not in page and "<strong>busy</strong>" not in page
    assert "2 on" not in page and "is not offered: it is not stopped (serving)" in page
    assert f'value="{new.pk}" checked' in page, "the only one is chosen"


def test_where_nothing_fits_it_says_what_would(operating: Client, old: Deployment) -> None:
    page = operating.get(f"/deployments/{old.pk}/replace/").content.decode()
    assert "Nothing can take its place" in page and "<form class" not in page.split("<main")[1]
    host = old.placement.host
    make("wide", host=host, gpus=[*old.placement.gpus, make_gpu(host)], state=ServiceState.STOPPED)
    make("bare", host=host, gpus=[], state=ServiceState.STOPPED)
    make("gone", host=host, gpus=old.placement.gpus, state=ServiceState.RELEASED)
    page = operating.get(f"/deployments/{old.pk}/replace/").content.decode()
    assert "wide</a> is not offered: it needs 1 card that old does not free." in page
    assert "bare</a> is not offered: it has no card." in page and "gone" not in page


@pytest.mark.long
def test_it_makes_one_job_for_both(operating: Client, old: Deployment, new: Deployment) -> None:
    said = form(new)
    answer = operating.post(f"/deployments/{old.pk}/replace/", said)
    job = Job.objects.get()
    assert answer["Location"] == f"/jobs/{job.pk}/"
    assert (job.kind, job.deployment, job.replaces, job.way_back) == (JobKind.REPLACE, new, old, True)
    assert job.revision == new.revision and job.reason == "night model"
    entry = AuditEntry.objects.get(action="ask for replace")
    assert entry.detail["replaces"] == "old"
    operating.post(f"/deployments/{old.pk}/replace/", said)
    assert Job.objects.count() == 1, "the same click"
    for deployment in (old, new):
        page = operating.get(f"/deployments/{deployment.pk}/").content.decode()
        assert f"/jobs/{job.pk}/" in page and "old by new" in page
    page = operating.get(f"/jobs/{job.pk}/").content.decode()
    assert "Replace old by" in page and "Stops first" in page


@pytest.mark.parametrize("change", [{"by": ""}, {"by": "999"}, {"reason": ""}])
def test_what_is_missing_is_said_and_nothing_is_lost(
    operating: Client, old: Deployment, new: Deployment, change: dict[str, object]
) -> None:
    answer = operating.post(f"/deployments/{old.pk}/replace/", form(new, **change))
    assert answer.status_code == 422 and not Job.objects.exists()
    assert change.get("reason") == "" or "night model" in answer.content.decode()


def test_while_another_job_is_at_work_it_is_refused(operating: Client, old: Deployment, new: Deployment) -> None:
    make_job(old, kind=JobKind.RESTART, state=JobState.WAITING)
    answer = operating.post(f"/deployments/{old.pk}/replace/", form(new))
    assert answer.status_code == 409 and "has already asked for a restart of old" in answer.content.decode()
    assert "has already asked for a restart" in operating.get(f"/deployments/{old.pk}/replace/").content.decode()


def test_a_viewer_may_not(client: Client, viewer: User, old: Deployment, new: Deployment) -> None:
    client.force_login(viewer)
    assert client.post(f"/deployments/{old.pk}/replace/", form(new)).status_code == 403


def test_on_production_the_name_of_the_one_that_stops_is_typed(
    client: Client, approver: User, old: Deployment, new: Deployment
) -> None:
    Deployment.objects.filter(pk=old.pk).update(production=True)
    job = make_job(new, kind=JobKind.REPLACE, state=JobState.WAITING, replaces=old, plan={"replaces": {"old": "old"}})
    gate = make_gate(job, plan_hash="abc")
    client.force_login(approver)
    page = client.get(f"/jobs/{job.pk}/").content.decode()
    assert "Type <strong>old</strong> to confirm" in page
    said = {"choice": gate.choices[0]["key"], "comment": "", "plan_hash": "abc"}
    address = f"/jobs/{job.pk}/gates/{gate.pk}/"
    assert client.post(address, said | {"typed_name": "new"}).status_code == 409
    assert client.post(address, said | {"typed_name": "old"}).status_code == 302


def test_after_a_failure_the_first_button_brings_users_a_server(
    operating: Client, old: Deployment, new: Deployment
) -> None:
    Deployment.objects.filter(pk=new.pk).update(proven_revision=new.revision)
    job = make_job(new, kind=JobKind.REPLACE, state=JobState.FAILED, replaces=old, ended_at=None, touched=True)
    again = f"/deployments/{old.pk}/replace/?by={new.pk}"
    page = operating.get(f"/jobs/{job.pk}/").content.decode()
    assert f'btn-primary" href="{again}"' in page and "Plan the replacement again" in page
    assert "which=proven" not in page, "its cards are in the hands of the other one"
    Deployment.objects.filter(pk=old.pk).update(state=ServiceState.STOPPED)
    page = operating.get(f"/jobs/{job.pk}/").content.decode()
    assert f'btn-primary" href="/deployments/{old.pk}/start/"' in page
    assert f'class="btn" href="{again}"' in page and page.count("btn-primary") == 1
    Job.objects.update(touched=False)
    assert f"/deployments/{old.pk}/start/" not in operating.get(f"/jobs/{job.pk}/").content.decode()


def test_the_history_of_the_one_that_went_has_the_replacement(
    operating: Client, old: Deployment, new: Deployment
) -> None:
    job = make_job(new, kind=JobKind.REPLACE, state=JobState.SUCCEEDED, replaces=old)
    own, other = make_job(old, state=JobState.SUCCEEDED), make_job(make("third"), state=JobState.SUCCEEDED)
    page = operating.get("/jobs/?deployment=old").content.decode()
    assert f"/jobs/{job.pk}/" in page and f"/jobs/{own.pk}/" in page and f"/jobs/{other.pk}/" not in page
    page = operating.get("/jobs/?deployment=old&kind=restart").content.decode()
    assert f"/jobs/{job.pk}/" not in page and f"/jobs/{own.pk}/" in page


def test_what_stands_for_a_replacement_is_shown_at_both(old: Deployment, new: Deployment) -> None:
    job = make_job(new, kind=JobKind.REPLACE, state=JobState.WAITING, replaces=old)
    tomorrow = timezone.now() + timedelta(days=1)
    standing = StandingApproval.objects.create(
        kind=StandingKind.WHEN_IDLE, job=job, given_by_name="ada", given_at=timezone.now(), expires_at=tomorrow
    )
    assert about(old) == about(new) == [standing] and about(make("third")) == []


def test_a_put_back_that_failed_has_a_page(operating: Client, old: Deployment) -> None:
    job = make_job(old, kind=JobKind.PUT_BACK, state=JobState.FAILED)
    assert operating.get(f"/jobs/{job.pk}/").status_code == 200
