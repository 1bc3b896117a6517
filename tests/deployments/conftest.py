"""For all tests of this folder: doorbells are counted, not sent; and requests are short to write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User

from deployments import runner, services, sweeper, tasks
from deployments.lifecycle import JobKind
from deployments.models import Deployment, Job
from tests.deployments.machine import idle_machine, serving_machine
from tests.deployments.support import Story, make_story


@pytest.fixture(autouse=True)
def rung(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The jobs that were rung for, in order."""
    bells: list[int] = []
    monkeypatch.setattr(tasks, "ring", bells.append)
    return bells


@pytest.fixture
def ask(operator: User) -> Callable[..., Job]:
    """Ask for a job: ``ask(deployment, kind=JobKind.STOP)``."""

    def request(deployment: Deployment, **values: Any) -> Job:
        usual = {
            "kind": JobKind.RESTART, "revision": None, "reason": "more context", "way_back": True,
            "request_key": uuid4(), "actor": operator, "address": "10.0.0.9",
        }  # fmt: skip
        return services.request_job(deployment, **(usual | values))

    return request


@pytest.fixture(autouse=True)
def _keep_the_tests_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker begins with fresh connections; a test's transaction must outlive that."""
    monkeypatch.setattr(runner, "close_old_connections", lambda: None)
    monkeypatch.setattr(sweeper, "close_old_connections", lambda: None)


@pytest.fixture
def serving(ask: Callable[..., Job], approver: User, monkeypatch: pytest.MonkeyPatch) -> Story:
    return make_story(serving_machine(), ask, monkeypatch, serves=True)


@pytest.fixture
def idle(ask: Callable[..., Job], approver: User, monkeypatch: pytest.MonkeyPatch) -> Story:
    return make_story(idle_machine(), ask, monkeypatch, serves=False)
