"""Doorbells for short looks at a host."""

from __future__ import annotations

import logging

from controlpanel.celery import app

logger = logging.getLogger(__name__)


@app.task(name="hosts.test", queue="probes")
def run_test(test_id: int) -> None:
    """Try the connection of a host and note what was found."""
    from hosts import testing

    testing.run_test(test_id)


def ring_test(test_id: int) -> None:
    """Ring for a host test; a broker that is down is logged and shown as a test that does not start."""
    try:
        run_test.apply_async((test_id,), retry=False)
    except Exception as error:  # the broker's client raises many kinds
        logger.warning("host test %s: the broker cannot be reached (%s)", test_id, error)
