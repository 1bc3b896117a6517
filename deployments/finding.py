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
from controlpanel.masking import mask_values
from deployments.engines.configuration import Seen
from deployments.engines.registry import recognise
from deployments.lifecycle import ACTIVE
from deployments.models import Deployment
from deployments.pages import pages_of
from deployments.plan.serving import find_serving
from hosts import links
from hosts.models import Host
from hosts.probe.frames import Unknown
from hosts.probe.probe import probe
from hosts.transport.base import TransportError, no_tick

logger = logging.getLogger(__name__)

LOOK_SECONDS = 45.0
SECTIONS = ("host", "procs", "uids", "fds", "listeners", "markers", "pids")
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
    """Its identity, command and configuration, secrets masked. Empty when it is no server of an engine that is known.

    Raises TransportError.
    """
    with links.borrow(host) as transport:
        facts = probe(
            transport, sections=SECTIONS, timeout=LOOK_SECONDS, ports=[deployment.port], sudo=host.sudo, tick=no_tick
        )
        serving = find_serving(facts, launch=None, port=deployment.port, is_ours=_is_known)
        if isinstance(serving, Unknown) or serving.root is None:
            return {}
        argv = list(facts.details[serving.root.pid].argv)
        engine = recognise(" ".join(argv))
        if engine is None:
            return {}
        pages = pages_of(transport, deployment.port, engine, tick=no_tick)
    told = engine.configuration(Seen(argv, "", pages)).as_data() if engine.configuration and pages else {}
    found = {"pid": serving.root.pid, "start": serving.root.start_time, "engine": engine.key, "argv": argv}
    masked: dict[str, Any] = mask_values({**found, "effective": told})
    return masked


def _is_known(command: str) -> bool:
    return recognise(command) is not None


def _store(deployment: Deployment, host: Host, found: dict[str, Any]) -> None:
    """Only while the host is this monitor's, and no job is at work."""
    held = Exists(Host.held(host.pk, host.monitor_owner))
    mine = Deployment.objects.filter(held, pk=deployment.pk).exclude(jobs__state__in=ACTIVE)
    if mine.update(found=found):
        deployment.found = found
        hints.hint("overview")
