"""Reads every host once a second over one link and one long-running probe, and tells whoever registered."""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from django.db import close_old_connections

from controlpanel.identity import panel_id
from hosts import links
from hosts.claims import Claims, is_read
from hosts.history.keeping import MemoryHistory, forget_old
from hosts.models import Host
from hosts.probe.facts import HostFacts
from hosts.probe.gpus import GpuList
from hosts.probe.probe import watch
from hosts.readings import HoldLost, not_reached
from hosts.recording import CardKeeper, Look, Recorder
from hosts.transport.base import TransportError

logger = logging.getLogger(__name__)

EVERY_SECONDS = 1.0
ROUND_SECONDS = 5.0
FORGET_ROUNDS = 12
"""As many rounds make a minute."""
NOTHING = HostFacts(measured_at=datetime.fromtimestamp(0, UTC))
"""A look that has seen nothing."""
FIRST_PAUSE = 2.0
LONGEST_PAUSE = 30.0
CARDS_AGAIN_SECONDS = 600.0


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


@dataclass
class _Notes:
    """What one host's thread keeps from one probe to the next."""

    stop: threading.Event
    history: MemoryHistory
    cards_at: float = float("-inf")
    """When this host was last asked for its cards itself (monotonic)."""


class Stopped(Exception):
    """This host's thread was told to end, or what it watches has changed."""


class Monitor:
    """Follows all hosts that were tested once. Each host is followed by one monitor at a time, by a lease."""

    def __init__(self, *, watchers: Sequence[Watcher] = (), claims: Claims | None = None) -> None:
        self._watchers = tuple(watchers)
        self._claims = claims or Claims()
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
        self._claims.release_all()
        links.POOL.close_all()

    def _round(self) -> None:
        """Start threads for hosts that are ours now, end those of others, and leave alone those in maintenance."""
        self._rounds += 1
        ours = self._claims.renew()
        for pk, follower in list(self._followers.items()):
            if ours.get(pk) != follower.owner or not follower.thread.is_alive():
                self._followers.pop(pk).stop.set()
        for pk in ours.keys() - self._followers.keys():
            self._follow(pk, ours[pk])
        self._recorder.hosts = len(self._followers)
        self._leave_alone()
        if self._rounds % FORGET_ROUNDS == 1:
            forget_old()

    def _leave_alone(self) -> None:
        """Nobody reads hosts in maintenance, so nothing is known of what serves there."""
        resting = self._claims.resting()
        for host in resting:
            for watcher in self._watchers:
                watcher.lost(host, f"it is in maintenance ({host.maintenance})")
        self._claims.rest(resting)

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
        notes = _Notes(stop, MemoryHistory(host))
        with contextlib.suppress(HoldLost):
            self._read_on(pk, owner, notes)
            if (due := notes.history.due(int(time.time()))) is not None:
                self._recorder.keep(Look(host, NOTHING, due=due))

    def _read_on(self, pk: int, owner: str, notes: _Notes) -> None:
        """After trouble try again, ever more calmly. Raises HoldLost when the host is another's."""
        pause = FIRST_PAUSE
        while not notes.stop.is_set():
            close_old_connections()
            host = Host.held(pk, owner).select_related("via").first()
            if host is None:
                raise HoldLost
            try:
                pause = self._read(host, notes) or pause
            except HoldLost:
                raise
            except TransportError as error:
                if not notes.stop.is_set():
                    self._trouble(host, error)
                notes.stop.wait(pause * random.uniform(0.8, 1.2))
                pause = min(LONGEST_PAUSE, pause * 2)
            except Exception:  # a thread that dies would leave its host unread for ever
                logger.exception("reading %s failed", host)
                notes.stop.wait(LONGEST_PAUSE)

    def _trouble(self, host: Host, error: TransportError) -> None:
        not_reached(host, error, owner=host.monitor_owner)
        for watcher in self._watchers:
            watcher.lost(host, str(error))

    def _read(self, host: Host, notes: _Notes) -> float | None:
        """Follow one probe until it ends or what is to be watched changes. Returns the pause to begin with again."""
        ports, sections = wanted = self._wanted(host, notes)
        keeper = CardKeeper(host)

        def tick() -> None:
            if notes.stop.is_set():
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
                    self._keep(keeper.look(facts), notes)
                    for watcher in self._watchers:
                        watcher.saw(host, facts)
                    if seen % 3 == 0 and self._wanted(host, notes) != wanted:
                        break
                readings.close()  # type: ignore[attr-defined]
        except Stopped:
            return None
        return FIRST_PAUSE if seen else None

    def _wanted(self, host: Host, notes: _Notes) -> tuple[list[int], tuple[str, ...]]:
        """The ports to be watched, and what to look at. Where its node is read a container is spared the cards, but
        for a look now and then, which tells the cards that it has and whether it may still use them.
        """
        ports = sorted({port for watcher in self._watchers for port in watcher.ports(host)})
        own = time.monotonic() - notes.cards_at > CARDS_AGAIN_SECONDS or not is_read(host.machine, unless=host)
        return ports, ("host", *(("gpus",) if own else ()), *(("procs", "listeners") if ports else ()))

    def _keep(self, look: Look, notes: _Notes) -> None:
        """Have written what is worth it. Raises HoldLost."""
        look.due = notes.history.add(look.facts)
        if look.cards or look.due is not None:
            self._recorder.keep(look)
        if look.due is not None:
            notes.history.written(look.due)
        if isinstance(look.facts.gpus, GpuList):
            notes.cards_at = time.monotonic()
