"""Servers on a deployment's port that the panel did not start: whose command it is, and what the engine tells.

One look for each server, in a thread of its own: the monitor's readings do not wait for it. No page that is asked makes
a server generate anything.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from django.db import close_old_connections, connection
from django.db.models import Exists

from controlpanel.live import hints
from deployments.discovery.look import look_for_servers
from deployments.models import Deployment, Job
from hosts import links
from hosts.models import Host
from hosts.transport.base import TransportError

logger = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 30.0, 600.0
LOOKS_AT_ONCE = 2


class Finder:
    """Looks at servers that are new. ``submit`` runs the look; a test runs it at once."""

    def __init__(self, submit: Callable[[Callable[[], None]], object] | None = None) -> None:
        self._submit = submit or _threads()
        self._next: dict[tuple[int, str], float] = {}
        self._tries: dict[tuple[int, str], int] = {}

    def consider(self, deployment: Deployment, host: Host, key: str) -> None:
        """``key`` names the server by boot and socket. One that has told all is not looked at again."""
        if deployment.found.get("key") == key and deployment.found.get("effective"):
            return
        mark = (deployment.pk, key)
        if time.monotonic() < self._next.get(mark, 0.0):
            return
        tries = self._tries[mark] = self._tries.get(mark, 0) + 1
        self._next[mark] = time.monotonic() + min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (tries - 1))
        self._submit(lambda: _find(deployment, host, key))


def _threads() -> Callable[[Callable[[], None]], object]:
    """Threads that the end of the monitor does not wait for, a few at once, each with a connection of its own."""
    room = threading.BoundedSemaphore(LOOKS_AT_ONCE)

    def afresh(work: Callable[[], None]) -> None:
        with room:
            close_old_connections()
            try:
                work()
            finally:
                connection.close()

    return lambda work: threading.Thread(target=afresh, args=(work,), name="finder", daemon=True).start()


def forget(deployment: Deployment, host: Host) -> None:
    """What was found does not serve any more, or is ours."""
    if deployment.found:
        _store(deployment, host, {})


def _find(deployment: Deployment, host: Host, key: str) -> None:
    try:
        _store(deployment, host, {**_look(deployment, host), "key": key})
    except TransportError as error:
        logger.info("the server on port %s of %s could not be looked at: %s", deployment.port, host, error)
    except Exception:  # a thread of the monitor: the next look must come all the same
        logger.exception("looking at the server on port %s of %s failed", deployment.port, host)


def _look(deployment: Deployment, host: Host) -> dict[str, Any]:
    """Its identity, command and configuration, secrets masked, and what it would be attached as. Empty when it is no
    server of an engine that is known.

    Raises TransportError.
    """
    with links.borrow(host) as transport:
        found = look_for_servers(transport, host, only_port=deployment.port)
    if not found:
        return {}
    server = found[0]
    return {
        "pid": server.pid,
        "start": server.start_time,
        "engine": server.engine,
        "argv": list(server.words),
        "effective": dict(server.effective),
        "server": server.as_data | {"effective": {}},
    }


def _store(deployment: Deployment, host: Host, found: dict[str, Any]) -> None:
    """Only while the host is this monitor's, and no job is at work."""
    held = Exists(Host.held(host.pk, host.monitor_owner))
    mine = Deployment.objects.filter(held, Job.none_at_work(), pk=deployment.pk)
    if mine.update(found=found):
        deployment.found = found
        hints.hint("overview")
