"""The monitor process: reads all hosts, keeps the state of deployments, and sweeps up lost doorbells."""

from __future__ import annotations

import signal
import threading
from typing import Any

from django.core.management.base import BaseCommand

from deployments import sweeper
from deployments.watch import DeploymentWatcher
from hosts.monitor import Monitor


class Command(BaseCommand):
    """``manage.py monitor``"""

    help = "Read the hosts once a second and ring for jobs that were left lying."

    def handle(self, *args: Any, **options: Any) -> None:
        """Work until SIGTERM or Ctrl-C."""
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        sweeps = threading.Thread(target=sweeper.run_forever, args=(stop,), name="sweeper", daemon=True)
        sweeps.start()
        Monitor(watchers=[DeploymentWatcher()]).run(stop)
        sweeps.join(timeout=2.0)
