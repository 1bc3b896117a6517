"""Somebody who may not decide reads who may, or what to do when nobody is left."""

from __future__ import annotations

import sys
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from deployments.forms import DeploymentForm
from deployments.models import Job
from tests.factories import make_choice, make_deployment, make_gate, make_job

pytestmark = pytest.mark.django_db
ClientOf = Callable[[User], Client]
Person = Callable[..., User]


def waiting(asked_by: User) -> Job:
    job = make_job(make_deployment(name="chat"), at_step=0, state="waiting", requested_by=asked_by)
    make_gate(job)
    return job


def card(client: Client, job: Job) -> str:
    return client.get(f"/jobs/{job.pk}/part/gate/").content.decode()


def test_a_lone_administrator_reads_the_ways_out(client_of: ClientOf, administrator: User) -> None:
    job = waiting(administrator)
    page = card(client_of(administrator), job)
    assert "lets nobody decide about their own" in page and "Nobody else here may do that." in page
    assert "manage.py signinlink --user NAME --role approver --url http://testserver" in page
    assert 'href="/people/"' in page
    assert f'href="/deployments/{job.deployment_id}/edit/"' in page and 'value="discard"' in page
    assert f"“{DeploymentForm.Meta.labels['requester_may_approve']}”" in page


def test_approvers_are_named(client_of: ClientOf, person: Person, administrator: User) -> None:
    job = waiting(administrator)
    for name in ("ben", "cara"):
        person(name, "approver")
    person("gone", "approver").delete()
    User.objects.filter(pk=person("off", "approver").pk).update(is_active=False)
    page = card(client_of(administrator), job)
    assert "Ask <strong>ben</strong> or <strong>cara</strong>." in page and "signinlink" not in page


def test_who_asked_and_may_not_decide_is_not_named_to_others(
    client_of: ClientOf, viewer: User, administrator: User
) -> None:
    page = card(client_of(viewer), waiting(administrator))
    assert "administrator</strong>" not in page and "Nobody here may do that." in page
    assert "tick" not in page, "the policy would not help a viewer"


def test_a_question_that_any_operator_may_answer(client_of: ClientOf, viewer: User, operator: User) -> None:
    job = make_job(make_deployment(), at_step=3, state="waiting", requested_by=operator)
    make_gate(job, kind="not free", choices=[make_choice("again")], plan_hash="")
    assert "Ask <strong>operator</strong>." in card(client_of(viewer), job)


# --- On the form, before a plan is made ------------------------------------------------------------------------------


def form(client: Client, **deployment: object) -> str:
    made = make_deployment(name="chat", **deployment)
    return client.get(f"/deployments/{made.pk}/restart/").content.decode()


def test_the_form_says_that_nobody_else_may_approve(client_of: ClientOf, administrator: User) -> None:
    page = form(client_of(administrator))
    assert "Nobody here may approve this plan." in page and "and there is no other approver." in page
    assert "manage.py signinlink --user NAME --role approver" in page
    assert f"“{DeploymentForm.Meta.labels['requester_may_approve']}”" in page and "discard" not in page


def test_the_form_of_an_operator_without_any_approver(client_of: ClientOf, operator: User) -> None:
    page = form(client_of(operator))
    assert "There is no approver yet." in page and "of their own" not in page


def test_the_form_names_who_decides(client_of: ClientOf, person: Person, administrator: User) -> None:
    person("ben", "approver")
    page = form(client_of(administrator))
    assert "shows a plan; ben decides." in page and "note-warning" not in page


def test_the_form_says_that_one_may_approve_oneself(client_of: ClientOf, administrator: User) -> None:
    page = form(client_of(administrator), requester_may_approve=True)
    assert "you may approve it yourself" in page and "note-warning" not in page


def test_the_plan_says_on_top_that_nobody_may_approve(client_of: ClientOf, administrator: User) -> None:
    job = waiting(administrator)
    page = card(client_of(administrator), job)
    assert "Nobody else here may approve it." in page and page.index('href="#decision"') < page.index('id="decision"')


def test_the_printed_command_is_about_this_very_panel(client_of: ClientOf, administrator: User, settings: Any) -> None:
    """The demo's panel has a data directory of its own: without it the command would invite into another panel."""
    settings.DATA_DIR = "/srv/of the panel"
    page = unescape(card(client_of(administrator), waiting(administrator)))
    assert f"cd {settings.BASE_DIR} && RELAUNCH_DATA_DIR='/srv/of the panel' {sys.executable} manage.py signin" in page
    settings.DATA_DIR = settings.BASE_DIR / "var"
    page = card(client_of(administrator), Job.objects.get())
    assert "RELAUNCH_DATA_DIR" not in page
