"""The Celery app. A message is only a doorbell: lost, doubled or late, it does no harm.

Tasks are made with `@app.task` of this module's `app` and live in `<app>/tasks.py`; QUEUES says which way each goes.
"""

import logging
import os
import threading
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlpanel.settings")

from celery import Celery
from celery.signals import worker_shutting_down
from kombu import Exchange, Queue

logger = logging.getLogger(__name__)

QUEUES = {
    "jobs": ("deployments.advance",),
    "probes": (
        "deployments.check_clone",
        "deployments.look_for_servers",
        "deployments.read_flags",
        "deployments.read_model",
        "deployments.release",
        "deployments.send_notice",
        "hosts.test",
    ),
}
"""The tasks by queue: a short look at a host does not wait behind jobs."""

EXIT_WITHIN_SECONDS = 7.0  # from being told to stop; the supervisor gives ten to everything

app = Celery("controlpanel")
app.config_from_object("django.conf:settings", namespace="CELERY")
# Each queue has an exchange and key of its own name; left out, both would get every message.
app.conf.task_queues = [Queue(name, Exchange(name), routing_key=name) for name in QUEUES]
app.conf.task_routes = {task: {"queue": queue} for queue, tasks in QUEUES.items() for task in tasks}
app.autodiscover_tasks()

stopping = threading.Event()
"""Set when this worker was told to stop: a runner that sees it hands its job back at once."""


@worker_shutting_down.connect
def _on_shutting_down(**_: Any) -> None:
    """Tell the runners, and do not wait for ever for a task that is stuck: its lease lapses and another
    goes on.
    """
    stopping.set()
    watchdog = threading.Timer(EXIT_WITHIN_SECONDS, _give_up)
    watchdog.daemon = True
    watchdog.start()


def _give_up() -> None:
    logger.warning("Tasks still run %.0f s after the stop; leaving them to the sweeper.", EXIT_WITHIN_SECONDS)
    os._exit(0)
