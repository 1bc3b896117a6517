"""Waiting for a condition, never for a time."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
LOOK_EVERY = 0.05


def until(look: Callable[[], T], *, seconds: float, what: str, tell: Callable[[], object] = lambda: "") -> T:
    """The first true value of ``look``. Fails after ``seconds`` with ``what``, and what ``tell`` says then."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}\n{tell()}"
        time.sleep(LOOK_EVERY)
    return found
