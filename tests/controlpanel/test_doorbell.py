"""Ringing never waits and never fails; what the broker cannot take is lost without harm."""

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from controlpanel.doorbell import MOST_PENDING, Doorbell


class Task:
    """Stands for a Celery task whose broker works, is away, or is frozen."""

    def __init__(self, *, eager: bool = False) -> None:
        self.app = SimpleNamespace(conf=SimpleNamespace(task_always_eager=eager))
        self.thaw = threading.Event()
        self.thaw.set()
        self.away = False
        self.sent: list[tuple[Any, ...]] = []
        self.changed = threading.Condition()

    def apply_async(self, args: tuple[Any, ...], **_: Any) -> None:
        self.thaw.wait(10)
        with self.changed:
            self.sent.append(args)
            self.changed.notify_all()
        if self.away:
            raise ConnectionError("away")

    def wait_for(self, count: int) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: len(self.sent) >= count, 5)


def test_what_is_rung_is_sent_in_order() -> None:
    task, bell = Task(), Doorbell()
    for number in range(3):
        bell.ring(task, number)

    assert task.wait_for(3) and task.sent == [(0,), (1,), (2,)]


def test_a_frozen_broker_costs_the_caller_nothing() -> None:
    task, bell = Task(), Doorbell()
    task.thaw.clear()
    begin = time.monotonic()
    for number in range(MOST_PENDING + 10):
        bell.ring(task, number)

    assert time.monotonic() - begin < 1
    task.thaw.set()
    assert task.wait_for(MOST_PENDING)


def test_a_broker_that_is_away_is_logged_once_and_survived(caplog: pytest.LogCaptureFixture) -> None:
    task, bell = Task(), Doorbell()
    task.away = True
    bell.ring(task, 1)
    bell.ring(task, 2)
    assert task.wait_for(2)
    task.away = False
    bell.ring(task, 3)

    assert task.wait_for(3)
    assert len([record for record in caplog.records if "broker" in record.getMessage()]) == 1


def test_an_eager_task_runs_at_once() -> None:
    task = Task(eager=True)
    Doorbell().ring(task, 1)

    assert task.sent == [(1,)]
