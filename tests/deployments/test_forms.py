"""What the forms say about their own fields."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client

from deployments.forms import DeploymentForm
from deployments.models import Deployment
from tests.factories import make_deployment

pytestmark = pytest.mark.django_db


def test_every_time_out_says_what_happens_when_it_runs_out() -> None:
    for name, field in DeploymentForm().fields.items():
        if name.endswith(("_seconds", "_minutes")):
            assert field.label and str(field.label).startswith("For "), name
            assert len(str(field.help_text)) > 40, name


def test_a_reason_that_is_required_is_marked_as_required(client_of: Callable[[User], Client], operator: User) -> None:
    page = client_of(operator).get(f"/deployments/{make_deployment().pk}/restart/").content.decode()
    label = page[page.index('for="id_reason"') :].partition("</label>")[0]
    assert "required" in label and "optional" not in label


def data_of(deployment: Deployment, **changed: str) -> dict[str, str]:
    """What the browser sends for the form as it is."""
    form = DeploymentForm(instance=deployment)
    kept = {name: form[name].value() for name in form.fields}
    return {name: value for name, value in kept.items() if value not in (None, False, "", [])} | changed


@pytest.mark.parametrize(
    ("by", "name", "stored"),
    [
        ("", "", ""),
        ("", "left-over", ""),
        ("transient", "", "transient"),
        ("unit", "chat", "unit chat.service"),
        ("unit", "chat@1.service", "unit chat@1.service"),
        ("container", "chat", "container chat"),
        ("compose", "llm/chat", "compose llm/chat"),
    ],
)
def test_how_a_server_is_started_is_one_setting(by: str, name: str, stored: str) -> None:
    deployment = make_deployment()
    form = DeploymentForm(data_of(deployment, started_by=by, started_by_name=name), instance=deployment)
    assert form.is_valid(), form.errors
    saved = form.save(commit=False)
    assert saved.started_by == stored
    again = DeploymentForm(instance=saved)
    assert again["started_by"].value() == by and stored.endswith(str(again["started_by_name"].value()))


@pytest.mark.parametrize(
    ("by", "name", "error"),
    [
        ("unit", "", "Write the name of a unit, as in chat.service."),
        ("unit", "chat.timer", "is not the name of a unit"),
        ("unit", "../x.service", "is not the name of a unit"),
        ("container", "a b", "is not the name of a container"),
        ("compose", "chat", "is not PROJECT/SERVICE, as in llm/chat."),
        ("compose", "-f/chat", "is not PROJECT/SERVICE"),
    ],
)
def test_a_name_that_cannot_be_one_is_named_and_kept(by: str, name: str, error: str) -> None:
    deployment = make_deployment()
    form = DeploymentForm(data_of(deployment, started_by=by, started_by_name=name), instance=deployment)
    assert not form.is_valid() and error in str(form.errors["started_by_name"])
    assert form["started_by_name"].value() == name and form["started_by"].value() == by


def test_a_card_that_is_ticked_behind_the_node_and_its_container_is_one_card() -> None:
    deployment = make_deployment()
    uuids = deployment.placement.gpu_uuids
    form = DeploymentForm(data_of(deployment) | {"gpus": [*uuids, *uuids]}, instance=deployment)
    assert form.is_valid(), form.errors
    assert form.cleaned_data["gpus"] == uuids
