"""Rings for work without ever waiting: a broker that is down or frozen costs a web request nothing.

The message is sent by one background thread of the process. What is not sent is lost, which does no harm: the row is
in the database, and the sweeper rings again.
"""

import logging
import queue
import threading
from typing import Any

logger = logging.getLogger(__name__)

MOST_PENDING = 1000  # a broker that is away for long; the sweeper finds the work anyway


class Doorbell:
    """The background thread of one process."""

    def __init__(self) -> None:
        self._pending: queue.Queue[tuple[Any, tuple[Any, ...]]] = queue.Queue(maxsize=MOST_PENDING)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._in_trouble = False

    def ring(self, task: Any, *args: Any) -> None:
        """Send the Celery `task` with `args` soon. Returns at once and never fails."""
        if task.app.conf.task_always_eager:  # a test that wants to see the work done at once
            task.apply_async(args)
            return
        try:
            self._pending.put_nowait((task, args))
        except queue.Full:
            return
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._send_for_ever, name="doorbell", daemon=True)
                self._thread.start()

    def _send_for_ever(self) -> None:
        while True:
            task, args = self._pending.get()
            try:
                task.apply_async(args, retry=False)
                self._in_trouble = False
            except Exception as problem:  # the broker's client raises many kinds; see above why none matters
                if not self._in_trouble:
                    logger.warning("The broker cannot be reached (%r); the sweeper rings later.", problem)
                self._in_trouble = True


_doorbell = Doorbell()
ring = _doorbell.ring
