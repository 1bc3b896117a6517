"""Doorbells. A message says only "job N": lost, doubled or late, it must do no harm."""

from __future__ import annotations

import logging
import threading
from typing import Any

from celery.signals import worker_ready

from controlpanel.celery import app, stopping

logger = logging.getLogger(__name__)


@app.task(name="deployments.advance", queue="jobs")
def advance(job_id: int) -> None:
    """Work on a job until it ends, waits, or is handed back."""
    from deployments import runner

    runner.run(job_id)


def ring(job_id: int) -> None:
    """Ring for a job. Never raises and never waits long: the sweeper rings again."""
    try:
        advance.apply_async((job_id,), retry=False)
    except Exception as error:  # the broker's client raises many kinds; the job row is safe in the database
        logger.warning("job %s: the broker cannot be reached (%s); the sweeper will ring", job_id, error)


@worker_ready.connect
def sweep_too(**_: Any) -> None:
    """Every worker sweeps as well: with the monitor down, lost doorbells are still found."""
    from deployments import sweeper

    threading.Thread(target=sweeper.run_forever, args=(stopping,), name="sweeper", daemon=True).start()
