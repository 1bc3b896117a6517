"""Writes what the monitor has read of all its hosts, many looks in one transaction, and tells that it is there."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from django.db import close_old_connections, connection, transaction
from django.db.models.functions import Now
from django.utils import timezone

from controlpanel.live import hints
from hosts.history import keeping
from hosts.history.keeping import Due
from hosts.models import Host
from hosts.probe.facts import HostFacts
from hosts.probe.frames import NOT_ASKED, Unknown
from hosts.readings import HoldLost, identity, store_cards, update_cards

logger = logging.getLogger(__name__)

GATHER_SECONDS, MOST_GATHER_SECONDS = 0.002, 0.1
"""How long looks are waited for that can go into the same transaction, for each host and at most. A page sees them as
much later; of a large fleet more of them come in the same time."""
REFRESH_SECONDS = 2.0
"""Cards that stay as they are get their age written this often."""
WHOLE_SECONDS = 60.0
"""And all that is known of them this often, whoever may have changed it."""
SOURCE = "nvidia-smi"
UPDATE_HOST = f"UPDATE {Host._meta.db_table} SET last_seen_at = %s, boot_id = %s, problem = '', hint = '' WHERE id = %s"


@dataclass
class Look:
    """What one host's thread wants to have written. ``host.monitor_owner`` is who reads it."""

    host: Host
    facts: HostFacts
    cards: bool = False
    """The figures of the cards are to be written."""
    whole: bool = False
    """All of the cards and of the host's reach, not only what moves."""
    news: bool = False
    """Whoever looks at a page should see it now."""
    due: Due | None = None
    done: threading.Event = field(default_factory=threading.Event)
    error: BaseException | None = None


class CardKeeper:
    """Of one host and one thread: what of a look is worth writing."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._last: object = None
        self._shown: object = None
        self._identity: object = None
        self._written_at = float("-inf")
        self._whole_at = float("-inf")

    def look(self, facts: HostFacts) -> Look:
        """The look, with what is to be written of the cards."""
        now = facts.measured_at.timestamp()
        look = Look(self._host, facts)
        if facts.gpus is NOT_ASKED:  # a container whose node is read: only its reach is news
            look.cards = now - self._written_at >= REFRESH_SECONDS
            self._written_at = now if look.cards else self._written_at
            return look
        if facts.gpus == self._last and now - self._written_at < REFRESH_SECONDS:
            return look
        known, shown = identity(facts), _shown(facts)
        look.cards = True
        look.whole = known != self._identity or now - self._whole_at >= WHOLE_SECONDS
        look.news = shown != self._shown
        self._last, self._identity, self._shown, self._written_at = facts.gpus, known, shown, now
        if look.whole:
            self._whole_at = now
        return look


def _shown(facts: HostFacts) -> object:
    """What a page shows of the cards, and is told of at once."""
    if isinstance(facts.gpus, Unknown):
        return facts.gpus.reason
    return [(card.memory_used, card.utilization_percent) for card in facts.gpus.gpus]


class Recorder:
    """The thread that writes. Without it (before ``start``, after ``stop``) a look is written by whoever brings it."""

    def __init__(self) -> None:
        self.hosts = 1
        self._looks: list[Look] = []
        self._lock = threading.Lock()
        self._some = threading.Event()
        self._thread: threading.Thread | None = None
        self._over = False

    def keep(self, look: Look) -> None:
        """Returns when it is written. Raises HoldLost when the host is not this monitor's any more."""
        thread = self._thread
        if thread is None:
            _write([look])
        else:
            with self._lock:
                self._looks.append(look)
            self._some.set()
            while not look.done.wait(1.0):
                if not thread.is_alive():
                    raise RuntimeError("The thread that writes readings has ended.")
        if look.error is not None:
            raise look.error

    def start(self) -> None:
        """Gather from now on."""
        self._over = False
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write what is there, and end."""
        thread, self._thread = self._thread, None
        self._over = True
        self._some.set()
        if thread is not None:
            thread.join(timeout=5.0)

    def _run(self) -> None:
        while not self._over or self._looks:
            if not self._some.wait(1.0):
                continue
            time.sleep(min(MOST_GATHER_SECONDS, self.hosts * GATHER_SECONDS))
            self._some.clear()
            with self._lock:
                looks, self._looks = self._looks, []
            try:
                close_old_connections()
                _write(looks)
            except BaseException as error:  # each of their threads says it, and tries again
                for look in looks:
                    look.error = look.error or error
            finally:
                for look in looks:
                    look.done.set()


class _LostMeanwhile(Exception):
    """A host was taken away while it was written of: all is written anew without it."""


def _write(looks: Sequence[Look]) -> None:
    """All of them in one transaction, but those whose host is another monitor's: they get HoldLost."""
    left = list(looks)
    while left:
        held = _held(left)
        for look in left:
            if look.host.pk not in held:
                look.error = HoldLost()
        left = [look for look in left if look.host.pk in held]
        try:
            with transaction.atomic():
                _store(left, away=[pk for pk, reach in held.items() if reach != Host.Reach.REACHABLE])
                # Asked last: whoever is frozen on the way here finds it out.
                if _held(left).keys() != held.keys():
                    raise _LostMeanwhile
        except _LostMeanwhile:
            continue
        break
    if any(look.news for look in left):
        hints.hint("gpus")


def _held(looks: Sequence[Look]) -> dict[int, str]:
    """The hosts of these looks that are still read by whom they say, and their reach."""
    owners = {(look.host.pk, look.host.monitor_owner) for look in looks}
    with connection.cursor() as cursor:
        cursor.execute(*_of_all_held(connection.vendor))
        return {pk: reach for pk, owner, reach in cursor.fetchall() if (pk, owner) in owners}


@cache
def _of_all_held(vendor: str) -> tuple[str, tuple[Any, ...]]:
    """The statement that lists them, put together once: that takes longer than to carry it out."""
    rows = Host.objects.filter(monitor_lease_until__gt=Now()).order_by()
    return rows.values_list("pk", "monitor_owner", "reach").query.sql_with_params()


def _store(looks: Sequence[Look], *, away: Sequence[int]) -> None:
    for look in looks:
        if look.whole:
            store_cards(look.host, look.facts, source=SOURCE)
    figures = [look for look in looks if look.cards]
    update_cards([(look.host, look.facts) for look in figures], source=SOURCE)
    _reached(figures, away=away)
    if dues := [look.due for look in looks if look.due is not None]:
        keeping.store(dues)


def _reached(looks: Sequence[Look], *, away: Sequence[int]) -> None:
    """These hosts have answered, some after they had been ``away``."""
    if back := [look.host.pk for look in looks if look.host.pk in away]:
        Host.objects.filter(pk__in=back).update(reach=Host.Reach.REACHABLE, reach_since=timezone.now())
        hints.hint("overview")
    adapted = connection.ops.adapt_datetimefield_value
    rows = [(adapted(look.facts.measured_at), _boot(look) or look.host.boot_id, look.host.pk) for look in looks]
    if rows:
        with connection.cursor() as cursor:
            cursor.executemany(UPDATE_HOST, rows)


def _boot(look: Look) -> str:
    return "" if isinstance(look.facts.host, Unknown) else look.facts.host.boot_id
