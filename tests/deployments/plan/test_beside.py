"""A question to a second host, asked in a thread while the first answers."""

import threading

import pytest

from deployments.plan import beside

SECONDS = 10


def test_both_are_asked_at_the_same_time() -> None:
    first, second = threading.Event(), threading.Event()

    def ask() -> str:
        second.set()
        assert first.wait(SECONDS), "the first was not asked meanwhile"
        return "of the node"

    asked = beside.begin(ask)
    assert second.wait(SECONDS)
    first.set()

    assert beside.take(asked, tick=lambda: None) == "of the node"


def test_who_waits_for_it_stays_alive() -> None:
    ticked = threading.Event()

    def ask() -> bool:
        return ticked.wait(SECONDS)

    assert beside.take(beside.begin(ask), tick=ticked.set)


def test_what_went_wrong_is_raised_where_the_answer_is_taken() -> None:
    def ask() -> None:
        raise OSError("the node is gone")

    asked = beside.begin(ask)

    with pytest.raises(OSError, match="the node is gone"):
        beside.take(asked, tick=lambda: None)


def test_a_tick_that_ends_the_job_does_not_wait_for_it() -> None:
    never = threading.Event()

    def end() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        beside.take(beside.begin(never.wait), tick=end)
    never.set()
