"""Doorbells. A message says only "job N": lost, doubled or late, it must do no harm."""

from __future__ import annotations

import threading
from typing import Any

from celery.signals import worker_ready

from controlpanel import doorbell
from controlpanel.celery import app, stopping


@app.task(name="deployments.advance")
def advance(job_id: int) -> None:
    """Work on a job until it ends, waits, or is handed back."""
    from deployments import runner

    runner.run(job_id)


def ring(job_id: int) -> None:
    """Ring for a job: returns at once and never fails. What is lost, the sweeper rings again."""
    doorbell.ring(advance, job_id)


@app.task(name="deployments.read_flags")
def read_flags(row_id: int) -> None:
    """Read the flags of an engine on a host."""
    from deployments.catalogue import store

    store.run_reading(row_id)


def ring_flags(row_id: int) -> None:
    """Ring for a reading: returns at once and never fails. One that is not begun can be asked for again."""
    doorbell.ring(read_flags, row_id)


@app.task(name="deployments.read_model")
def read_model(row_id: int) -> None:
    """Read what decides about memory in a model's files on a host."""
    from deployments.fit import store

    store.run_reading(row_id)


def ring_model(row_id: int) -> None:
    """Ring for a reading: returns at once and never fails. One that is not begun can be asked for again."""
    doorbell.ring(read_model, row_id)


@app.task(name="deployments.look_for_servers")
def look_for_servers(look_id: int) -> None:
    """Look for servers that run on a host."""
    from deployments.discovery import store

    store.run_look(look_id)


def ring_look(look_id: int) -> None:
    """Ring for a look: returns at once and never fails. One that is not begun can be asked for again."""
    doorbell.ring(look_for_servers, look_id)


@app.task(name="deployments.release")
def release(deployment_id: int) -> None:
    """Take away what the panel has left on the host of a released deployment."""
    from deployments import releasing

    releasing.run_release(deployment_id)


def ring_release(deployment_id: int) -> None:
    """Ring for it: returns at once and never fails. What is lost can be asked for again on the deployment's page."""
    doorbell.ring(release, deployment_id)


@app.task(name="deployments.check_clone")
def check_clone(check_id: int) -> None:
    """Look at the host that a deployment is to be cloned to."""
    from deployments.cloning import look

    look.run_check(check_id)


def ring_clone_check(check_id: int) -> None:
    """Ring for it: returns at once and never fails. One that is not begun can be asked for again."""
    doorbell.ring(check_clone, check_id)


@app.task(name="deployments.send_notice")
def send_notice(notice_id: int) -> None:
    """Send one notice by chat or mail."""
    from deployments.notices import due

    due.deliver(notice_id)


def ring_notice(notice_id: int) -> None:
    """Ring for it: returns at once and never fails. What is lost, the sweeper rings again."""
    doorbell.ring(send_notice, notice_id)


@worker_ready.connect
def sweep_too(**_: Any) -> None:
    """Every worker sweeps as well: with the monitor down, lost doorbells are still found."""
    from deployments import sweeper

    threading.Thread(target=sweeper.run_forever, args=(stopping,), name="sweeper", daemon=True).start()
