"""What the forms say about their own fields."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client

from deployments.forms import DeploymentForm
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
