"""The monitor process: reads all hosts, keeps the state of deployments, and sweeps up lost doorbells."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from deployments import sweeper
from deployments.finding import Finder
from deployments.watch import DeploymentWatcher
from hosts.keys import panel_key_path
from hosts.monitor import Monitor


class Command(BaseCommand):
    """``manage.py monitor``"""

    help = "Read the hosts once a second and ring for jobs that were left lying."

    def handle(self, *args: Any, **options: Any) -> None:
        """Work until SIGTERM or Ctrl-C."""
        panel_key_path(Path(settings.DATA_DIR))  # made at the first start, for the pages to show its public line
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        sweeps = threading.Thread(target=sweeper.run_forever, args=(stop,), name="sweeper", daemon=True)
        sweeps.start()
        Monitor(watchers=[DeploymentWatcher(Finder())]).run(stop)
        sweeps.join(timeout=2.0)
