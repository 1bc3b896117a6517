"""A plan while it is being made: its page shows each section once it is known, and which are still to come."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client

from deployments.lifecycle import JobKind, JobState
from hosts.transport.fake import Call, Reply
from tests.deployments.fit import models
from tests.deployments.support import FakeHost, Story

ClientOf = Callable[[User], Client]
pytestmark = [pytest.mark.django_db, pytest.mark.jobs]
TITLE = "The plan, as it is made"


@pytest.fixture
def pages(serving: Story, client_of: ClientOf, viewer: User) -> dict[str, str]:
    """The question's part of the page, by what the host is asked at that moment."""
    serving.host.model = models.QWEN3_8B
    seen: dict[str, str] = {}
    answers: dict[str, tuple[bytes, Callable[[FakeHost, Call], Reply]]] = {
        "flags": (b"read_flags()", FakeHost._flags),
        "model": (b"tell_sizes()", FakeHost._model),
    }
    for name, (mark, answer) in answers.items():

        def look(call: Call, name: str = name, answer: Callable[[FakeHost, Call], Reply] = answer) -> Reply:
            seen[name] = client_of(viewer).get(f"/jobs/{serving.job.pk}/part/gate/").content.decode()
            return answer(serving.host, call)

        serving.host.transport.on(lambda call, mark=mark: mark in call.stdin, reply=look)
    return seen


def headings(page: str) -> list[str]:
    return [re.sub(r"<[^>]+>", "", found).strip() for found in re.findall(r"<h[23]>(.*?)</h[23]>", page, re.S)]


def test_each_section_is_shown_once_it_is_known(
    serving: Story, pages: dict[str, str], client_of: ClientOf, viewer: User
) -> None:
    serving.request()
    assert serving.work().state == JobState.WAITING
    first, second = headings(pages["flags"]), headings(pages["model"])
    assert first[0] == second[0] == TITLE
    for known in ("Will be stopped", "Where", "Cards", "Disk and shared memory", "If it fails"):
        assert known in first and known in second, first
    assert first[-2:] == ["Engine and flags", "Does it fit"], "these are still asked"
    assert second[-1] == "Does it fit" and "Engine and flags" not in second
    for page in pages.values():
        assert "Approve" not in page and "Nothing is in the way" not in page
    whole = client_of(viewer).get(f"/jobs/{serving.job.pk}/part/gate/").content.decode()
    assert TITLE not in whole and "still being asked" not in whole and "Does it fit" in headings(whole)
    assert not serving.job.steps.get(name="plan").data["coming"]


def test_a_stop_has_nothing_that_comes_later(serving: Story, pages: dict[str, str]) -> None:
    serving.request(JobKind.STOP)
    assert serving.work().state == JobState.WAITING
    assert not pages and "coming" not in serving.job.steps.get(name="plan").data


def test_a_plan_that_fails_leaves_nothing_half_on_its_page(
    serving: Story, pages: dict[str, str], client_of: ClientOf, viewer: User
) -> None:
    serving.host.machine.missing_paths.add("/models/qwen-27b")
    serving.request()
    assert serving.work().state == JobState.FAILED
    assert TITLE not in client_of(viewer).get(f"/jobs/{serving.job.pk}/").content.decode()
