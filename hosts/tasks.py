"""Doorbells for short looks at a host."""

from __future__ import annotations

from controlpanel import doorbell
from controlpanel.celery import app


@app.task(name="hosts.test")
def run_test(test_id: int) -> None:
    """Try the connection of a host and note what was found."""
    from hosts import testing

    testing.run_test(test_id)


def ring_test(test_id: int) -> None:
    """Ring for a host test: returns at once and never fails. A test that is not begun can be asked for again."""
    doorbell.ring(run_test, test_id)
