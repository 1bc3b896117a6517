"""Two hosts are asked at the same time: one in a thread of its own, which touches neither job nor database."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from typing import TypeVar

from django.db import connections

Answer = TypeVar("Answer")
TICK_SECONDS = 0.25


def begin(ask: Callable[[], Answer]) -> Future[Answer]:
    """Start asking. What ``ask`` raises is raised where the answer is taken."""
    future: Future[Answer] = Future()

    def work() -> None:
        try:
            future.set_result(ask())
        except BaseException as error:  # handed on to who takes the answer
            future.set_exception(error)
        finally:
            connections.close_all()  # of this thread, in case a link had to be opened anew

    # A daemon: a job that ends meanwhile, by its lease or by a person, does not wait for an answer nobody reads.
    threading.Thread(target=work, name="beside", daemon=True).start()
    return future


def take(future: Future[Answer], *, tick: Callable[[], None]) -> Answer:
    """The answer, calling ``tick`` while it is not there."""
    while not future.done():
        wait_for([future], timeout=TICK_SECONDS)
        tick()
    return future.result()
