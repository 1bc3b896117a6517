"""Reads every host once a second over one link and one long-running probe, and tells whoever registered."""

from __future__ import annotations

import contextlib
import logging
import random
import secrets
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from django.db import close_old_connections
from django.db.models import Q
from django.db.models.functions import Now

from controlpanel.identity import panel_id, process_name
from hosts import links
from hosts.history.keeping import MemoryHistory, forget_old
from hosts.models import Host
from hosts.probe.facts import HostFacts
from hosts.probe.probe import watch
from hosts.readings import HoldLost, not_reached
from hosts.recording import CardKeeper, Look, Recorder
from hosts.transport.base import TransportError

logger = logging.getLogger(__name__)

OWNER = f"{process_name()}:{secrets.token_hex(3)}"
"""This process. A number follows in the database, another one each time that it takes hosts."""
MINE = Q(monitor_owner__startswith=f"{OWNER}:")
LEASE = timedelta(seconds=15)
EVERY_SECONDS = 1.0
ROUND_SECONDS = 5.0
FORGET_ROUNDS = 12
"""As many rounds make a minute."""
NOTHING = HostFacts(measured_at=datetime.fromtimestamp(0, UTC))
"""A look that has seen nothing."""
FIRST_PAUSE = 2.0
LONGEST_PAUSE = 30.0


class Watcher(Protocol):
    """Somebody who wants to know more about hosts than their cards.

    What it writes about a host counts only while ``Host.held`` by the ``monitor_owner`` of the host it is given.
    """

    def ports(self, host: Host) -> Sequence[int]:
        """Ports whose listeners it wants to see on this host; with any, processes are listed too."""
        ...

    def saw(self, host: Host, facts: HostFacts) -> None:
        """A reading has come."""
        ...

    def lost(self, host: Host, reason: str) -> None:
        """The host cannot be read."""
        ...


@dataclass
class _Follower:
    """One host's thread and the way to end it."""

    thread: threading.Thread
    stop: threading.Event
    owner: str


class Stopped(Exception):
    """This host's thread was told to end, or what it watches has changed."""


class Monitor:
    """Follows all hosts that were tested once. Each host is followed by one monitor at a time, by a lease."""

    def __init__(self, *, watchers: Sequence[Watcher] = ()) -> None:
        self._watchers = tuple(watchers)
        self._followers: dict[int, _Follower] = {}
        self._recorder = Recorder()
        self._rounds = 0

    def run(self, stop: threading.Event) -> None:
        """Work until ``stop``; a round that fails is logged and tried again."""
        self._recorder.start()
        while not stop.is_set():
            try:
                close_old_connections()
                self._round()
            except Exception:  # the monitor must outlive whatever the database does
                logger.exception("a round of the monitor failed; the next one comes in %s s", ROUND_SECONDS)
            stop.wait(ROUND_SECONDS)
        for follower in self._followers.values():
            follower.stop.set()
        for follower in self._followers.values():
            follower.thread.join(timeout=3.0)
        self._recorder.stop()
        Host.objects.filter(MINE).update(monitor_owner="", monitor_lease_until=None)
        links.POOL.close_all()

    def _round(self) -> None:
        """Renew the leases, start threads for hosts that are ours now, end those of hosts that are not.

        A lease that has run out is not renewed, also where nobody else took the host: what our thread has read
        may have waited for as long as we were frozen, so a new one reads anew.
        """
        self._rounds += 1
        known, until = Host.objects.exclude(reach=Host.Reach.UNKNOWN), Now() + LEASE
        lasting = known.filter(MINE, monitor_lease_until__gt=Now())
        lasting.update(monitor_lease_until=until)
        free = known.filter(Q(monitor_lease_until=None) | Q(monitor_lease_until__lte=Now()))
        free.update(monitor_owner=f"{OWNER}:{self._rounds}", monitor_lease_until=until)
        ours = dict(lasting.values_list("pk", "monitor_owner"))
        for pk, follower in list(self._followers.items()):
            if ours.get(pk) != follower.owner or not follower.thread.is_alive():
                self._followers.pop(pk).stop.set()
        for pk in ours.keys() - self._followers.keys():
            self._follow(pk, ours[pk])
        self._recorder.hosts = len(self._followers)
        if self._rounds % FORGET_ROUNDS == 1:
            forget_old()

    def _follow(self, pk: int, owner: str) -> None:
        stop = threading.Event()
        thread = threading.Thread(target=self._run_host, args=(pk, owner, stop), name=f"host-{pk}", daemon=True)
        self._followers[pk] = _Follower(thread, stop, owner)
        thread.start()

    def _run_host(self, pk: int, owner: str, stop: threading.Event) -> None:
        """Read one host for as long as it is ours."""
        host = Host.held(pk, owner).first()
        if host is None:
            return
        history = MemoryHistory(host)
        with contextlib.suppress(HoldLost):
            self._read_on(pk, owner, stop, history)
            if (due := history.due(int(time.time()))) is not None:
                self._recorder.keep(Look(host, NOTHING, due=due))

    def _read_on(self, pk: int, owner: str, stop: threading.Event, history: MemoryHistory) -> None:
        """After trouble try again, ever more calmly. Raises HoldLost when the host is another's."""
        pause = FIRST_PAUSE
        while not stop.is_set():
            close_old_connections()
            host = Host.held(pk, owner).select_related("via").first()
            if host is None:
                raise HoldLost
            try:
                pause = self._read(host, stop, history) or pause
            except HoldLost:
                raise
            except TransportError as error:
                if not stop.is_set():
                    self._trouble(host, error)
                stop.wait(pause * random.uniform(0.8, 1.2))
                pause = min(LONGEST_PAUSE, pause * 2)
            except Exception:  # a thread that dies would leave its host unread for ever
                logger.exception("reading %s failed", host)
                stop.wait(LONGEST_PAUSE)

    def _trouble(self, host: Host, error: TransportError) -> None:
        not_reached(host, error, owner=host.monitor_owner)
        for watcher in self._watchers:
            watcher.lost(host, str(error))

    def _read(self, host: Host, stop: threading.Event, history: MemoryHistory) -> float | None:
        """Follow one probe until it ends or what is to be watched changes. Returns the pause to begin with again."""
        ports = self._ports(host)
        sections = ("host", "gpus", *(("procs", "listeners") if ports else ()))
        keeper = CardKeeper(host)

        def tick() -> None:
            if stop.is_set():
                raise Stopped

        seen = 0
        try:
            with links.borrow(host) as transport:
                readings = watch(
                    transport,
                    sections=sections,
                    every=EVERY_SECONDS,
                    slot=f"monitor-{panel_id()}-{host.pk}",
                    seconds=3600,
                    ports=ports,
                    sudo=host.sudo,
                    tick=tick,
                )
                for facts in readings:
                    seen += 1
                    self._keep(keeper.look(facts), history)
                    for watcher in self._watchers:
                        watcher.saw(host, facts)
                    if seen % 3 == 0 and self._ports(host) != ports:
                        break
                readings.close()  # type: ignore[attr-defined]
        except Stopped:
            return None
        return FIRST_PAUSE if seen else None

    def _keep(self, look: Look, history: MemoryHistory) -> None:
        """Have written what is worth it. Raises HoldLost."""
        look.due = history.add(look.facts)
        if look.cards or look.due is not None:
            self._recorder.keep(look)
        if look.due is not None:
            history.written(look.due)

    def _ports(self, host: Host) -> list[int]:
        return sorted({port for watcher in self._watchers for port in watcher.ports(host)})
