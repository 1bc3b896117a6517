"""The form of a deployment's traffic hooks: what is saved, what is refused, and that nothing typed is lost."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from controlpanel.models import AuditEntry
from deployments.models import Deployment
from tests.deployments.test_views import _deployment_form
from tests.factories import make_deployment, make_gpu, make_host

pytestmark = pytest.mark.django_db
OUT = {"take_out-how": "request", "take_out-method": "POST", "take_out-url": "http://router:4000/remove?url=a"}
BACK = {"put_back-how": "command", "put_back-command": "nginx -s reload"}


@pytest.fixture
def deployment() -> Deployment:
    host = make_host()
    return make_deployment(host=host, gpus=[make_gpu(host)])


@pytest.fixture
def administration(client: Client, administrator: User) -> Client:
    client.force_login(administrator)
    return client


def edit(client: Client, deployment: Deployment, **fields: str) -> Any:
    place = deployment.placement
    usual = _deployment_form(
        host=place.host_id, gpus=place.gpu_uuids, revision=deployment.revision_id, name=deployment.name
    )
    return client.post(f"/deployments/{deployment.pk}/edit/", usual | fields)


def test_both_are_saved_shown_and_audited(administration: Client, deployment: Deployment) -> None:
    assert edit(administration, deployment, **OUT, **BACK).status_code == 302
    deployment.refresh_from_db()
    assert deployment.hooks == {
        "take out": {"how": "request", "method": "POST", "url": "http://router:4000/remove?url=a"},
        "put back": {"how": "command", "command": "nginx -s reload"},
    }
    page = administration.get(f"/deployments/{deployment.pk}/").content.decode()
    assert "POST http://router:4000/remove?url=a" in page and "nginx -s reload" in page
    form = administration.get(f"/deployments/{deployment.pk}/edit/").content.decode()
    assert "http://router:4000/remove?url=a" in form and "nginx -s reload" in form
    entry = AuditEntry.objects.get(action="change deployment")
    assert entry.detail["hooks"]["put back"] == "nginx -s reload"
    assert edit(administration, deployment, **{"take_out-how": "", "put_back-how": ""}).status_code == 302
    deployment.refresh_from_db()
    assert deployment.hooks == {}


def test_one_without_the_other(administration: Client, deployment: Deployment) -> None:
    answer = edit(administration, deployment, **OUT)
    assert answer.status_code == 422 and "must be put back" in answer.content.decode()
    assert "http://router:4000/remove?url=a" in answer.content.decode(), "nothing that was typed is lost"


def test_a_secret_is_refused_with_what_to_do(administration: Client, deployment: Deployment) -> None:
    key = {"take_out-headers": "Authorization: Bearer abcdefgh12345678"}
    answer = edit(administration, deployment, **OUT, **BACK, **key)
    assert answer.status_code == 422 and "would show the key to everybody" in answer.content.decode()
    deployment.refresh_from_db()
    assert deployment.hooks == {}


def test_the_routers_key_is_set_under_secrets(administration: Client, deployment: Deployment) -> None:
    form = {"what": "Router key", "value": "s3cret-router-key"}
    assert administration.post(f"/deployments/{deployment.pk}/secrets/", form).status_code == 302
    assert deployment.secrets.get().open() == "s3cret-router-key"
