"""Deadlines of our own, because no library below keeps one for a whole call."""

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class DeadlinePassed(Exception):
    """The work did not return in time; it goes on in a thread of its own."""


class Deadline:
    """A moment on the monotonic clock that a call must not outlive."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def remaining(self) -> float:
        """Seconds left, never below zero."""
        return max(0.0, self._end - time.monotonic())

    @property
    def passed(self) -> bool:
        return time.monotonic() >= self._end


class _Outcome(Generic[T]):
    def __init__(self) -> None:
        self.done = threading.Event()
        self.value: T | None = None
        self.error: BaseException | None = None


def run_bounded(work: Callable[[], T], *, timeout: float, name: str) -> T:
    """Return what `work` returns, or raise what it raises, within `timeout` seconds.

    Raises DeadlinePassed otherwise. A system call that hangs cannot be interrupted, so the thread is left
    behind; whoever calls must close what the work waits for.
    """
    outcome: _Outcome[T] = _Outcome()

    def body() -> None:
        try:
            outcome.value = work()
        except BaseException as error:  # handed to the caller's thread, whatever it is
            outcome.error = error
        finally:
            outcome.done.set()

    threading.Thread(target=body, name=name, daemon=True).start()
    if not outcome.done.wait(timeout):
        raise DeadlinePassed(f"{name} did not end within {timeout:g} s")
    if outcome.error is not None:
        raise outcome.error
    return outcome.value  # type: ignore[return-value]  # set whenever there is no error
