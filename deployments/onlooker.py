"""The monitor's look at who else is on a deployment's port and cards: a dear one, made only when there is a reason."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from deployments.known import launches_on, names_of
from deployments.plan.cards import Card, cards_seen
from deployments.plan.intruders import Intruders, Ours, intruders
from hosts import links
from hosts.models import Host
from hosts.probe.facts import HostFacts
from hosts.probe.frames import Unknown
from hosts.probe.probe import HOLDERS, probe
from hosts.transport.base import TransportError

logger = logging.getLogger(__name__)
SECTIONS = ("host", "procs", "uids", "fds", "listeners", "markers", "pids", *HOLDERS)
LOOK_SECONDS = 10.0
AGAIN_SECONDS = 30.0
"""How long a look stands while the sockets and the fullness of the cards stay as they are."""


@dataclass(frozen=True)
class Wanted:
    """One deployment to be looked at, with its cards."""

    key: int
    ours: Ours
    cards: tuple[Card, ...]


@dataclass(frozen=True)
class _Look:
    reason: object
    until: float
    found: Mapping[int, Intruders] = field(default_factory=dict)


class Onlooker:
    """Who else is there, by deployment; asked of the host when a socket or a card is newly in use, and now and then."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._looks: dict[int, _Look] = {}

    def intruders(self, host: Host, facts: HostFacts, wanted: Collection[Wanted]) -> Mapping[int, Intruders]:
        """By key of ``wanted``; a deployment of which nothing is known is left out."""
        reason = tuple(found for each in wanted if (found := _reason(facts, each)))
        with self._lock:
            last = self._looks.get(host.pk)
        if last is None or last.reason != reason or time.monotonic() > last.until:
            last = _Look(reason, time.monotonic() + AGAIN_SECONDS, _look(host, facts, wanted) if reason else {})
            with self._lock:
                self._looks[host.pk] = last
        return last.found


def _reason(facts: HostFacts, each: Wanted) -> tuple[object, ...]:
    """Which sockets and cards of it are in use; empty for none, and then nobody need be looked for."""
    listeners = () if isinstance(facts.listeners, Unknown) else facts.listeners.on_port(each.ours.port)
    sockets = tuple(sorted(listener.inode for listener in listeners))
    full = tuple(card.uuid for card in cards_seen(facts, each.cards) if card.too_full)
    return (each.key, each.ours.pid, sockets, full) if sockets or full else ()


def _look(host: Host, facts: HostFacts, wanted: Collection[Wanted]) -> Mapping[int, Intruders]:
    """Raises nothing that a host can do: who could not be seen is left out."""
    seen = facts
    if isinstance(facts.files, Unknown):
        try:
            with links.borrow(host) as transport:
                ports = sorted({each.ours.port for each in wanted})
                more = probe(transport, sections=SECTIONS, timeout=LOOK_SECONDS, ports=ports, sudo=host.sudo)
            seen = replace(more, gpus=facts.gpus)
        except TransportError as error:
            logger.info("who else is on %s could not be looked at: %s", host, error)
            return {}
    known = launches_on(host.machine)
    return {
        each.key: intruders(seen, each.ours, others=names_of(row for row in known if row.deployment_id != each.key))
        for each in wanted
    }
