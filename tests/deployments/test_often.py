"""Where jobs have to ask again and again, the pages say what to fix."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from deployments.lifecycle import JobState
from deployments.models import Deployment, Gate
from deployments.often import OFTEN, TROUBLES, asked_lately
from tests.factories import make_deployment, make_gate, make_host, make_job

pytestmark = pytest.mark.django_db


@pytest.fixture
def chat() -> Deployment:
    return make_deployment(host=make_host(name="gpu-7"))


def ask(chat: Deployment, kind: str = "not free", *, times: int = 1, answer: str = "again") -> None:
    """A job that had to ask, so often."""
    job = make_job(chat, at_step=3, state=JobState.SUCCEEDED, ended_at=timezone.now())
    for _ in range(times):
        make_gate(job, kind=kind, answer=answer, answered_at=timezone.now())


def test_it_is_counted_by_host_and_kind_with_what_was_launched_anyway(chat: Deployment) -> None:
    for answer in ("anyway", "leave"):
        ask(chat, answer=answer)
    ask(chat, "kill")
    ask(make_deployment(), "not ready")
    asked = {each.host_name: each for each in asked_lately()}["gpu-7"]
    assert asked.counts == (("not free", 2), ("kill", 1)) and (asked.total, asked.anyway) == (3, 1)
    assert asked.is_often and asked.fix == TROUBLES["not free"].fix
    assert asked.words == (
        "Cards were not free or could not be measured (2); the server did not end when it was asked to (1). "
        "It was launched anyway once."
    )
    assert asked_lately(chat.placement.host) == [asked]


def test_who_looks_again_is_not_asked_more_often_for_it(chat: Deployment) -> None:
    ask(chat, times=5)
    (asked,) = asked_lately()
    assert asked.total == 1 and not asked.is_often


@pytest.mark.parametrize("kind", ["plan", "way back", "when idle"])
def test_what_is_no_trouble_of_the_host_is_not_counted(chat: Deployment, kind: str) -> None:
    ask(chat, kind)
    assert asked_lately() == []


def test_a_week_later_it_is_over(chat: Deployment) -> None:
    ask(chat)
    Gate.objects.update(opened_at=timezone.now() - timedelta(days=7))
    assert asked_lately() == []


def test_needs_attention_says_what_to_fix_when_it_is_often(
    chat: Deployment, client_of: Callable[[User], Client], operator: User
) -> None:
    client, host = client_of(operator), f"/hosts/{chat.placement.host_id}/"
    for _ in range(OFTEN - 1):
        ask(chat)
    text = client.get(host).content.decode()
    assert "had to ask a person 2 times within 7 days" in text and "What to fix" not in text
    assert not asked_lately()[0].is_often
    ask(chat, answer="anyway")
    text = client.get("/").content.decode()
    assert "had to ask a person 3 times within 7 days" in text and "Find out who leaves memory" in text
