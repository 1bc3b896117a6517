"""One link per host and process, lent out to whoever has something to ask.

    with links.borrow(host) as transport:
        transport.run(...)

Threads share a link (eight commands at once). A link that was idle is probed before it is lent; one that
failed is thrown away. When it turns out dead before a command was sent, that command goes over a new one, once.
Never carried over a fork: the child starts empty.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from hosts.transport.base import (
    ByteTunnel,
    ConnectTimeout,
    LinkDown,
    LinkLost,
    Result,
    Stream,
    Transport,
    TransportCounters,
    no_tick,
)
from hosts.transport.factory import link_signature, open_transport

if TYPE_CHECKING:
    from hosts.models import Host

# Together, with the wait for another's attempt, well below a job's lease of 30 s.
CONNECT_SECONDS = 8.0
IDLE_SECONDS = 2.0
PROBE_SECONDS = 3.0

_inherited: list[object] = []
"""Links of the process we were forked from. Kept, for an SSH channel that is collected still speaks."""


@dataclass
class LinkCounters:
    """What the pool has done, for benchmarks and tests."""

    opened: int = 0
    probed: int = 0
    evicted: int = 0
    borrowed: int = 0


@dataclass
class _Link:
    """An open link. One that is retired is lent no more, and closed when its last borrower is done."""

    transport: Transport
    signature: tuple[object, ...]
    last_used: float
    borrowers: int = 0
    retired: bool = False


@dataclass
class _Entry:
    lock: threading.Lock = field(default_factory=threading.Lock)
    link: _Link | None = None


Done = TypeVar("Done")


class _Lent:
    """What a borrower holds: the link, and a new one in its place when it was dead before a command was sent.

    Only then: a command that was sent may have been carried out, so its LinkLost is the borrower's to judge.
    """

    def __init__(self, link: _Link, *, renew: Callable[[_Link], _Link]) -> None:
        self.link = link
        self._renew = renew
        self._renewed = False
        self._lock = threading.Lock()

    @property
    def kind(self) -> str:
        return self.link.transport.kind

    @property
    def counters(self) -> TransportCounters:
        return self.link.transport.counters

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        stdin: bytes = b"",
        tick: Callable[[], None] = no_tick,
    ) -> Result:
        return self._sent(lambda transport: transport.run(argv, timeout=timeout, stdin=stdin, tick=tick))

    def stream(self, argv: Sequence[str], *, stdin: bytes = b"", keep_stdin_open: bool = False) -> Stream:
        return self._sent(lambda transport: transport.stream(argv, stdin=stdin, keep_stdin_open=keep_stdin_open))

    def open_tcp(self, port: int, *, host: str = "127.0.0.1", timeout: float) -> ByteTunnel:
        return self._sent(lambda transport: transport.open_tcp(port, host=host, timeout=timeout))

    def is_alive(self, *, timeout: float) -> bool:
        return self.link.transport.is_alive(timeout=timeout)

    def close(self) -> None:
        self.link.transport.close()

    def _sent(self, send: Callable[[Transport], Done]) -> Done:
        used = self.link
        try:
            return send(used.transport)
        except LinkDown:
            with self._lock:
                if self.link is used:
                    if self._renewed:
                        raise
                    self.link, self._renewed = self._renew(used), True
            return send(self.link.transport)


class LinkPool:
    """Lends links. All methods may be called from any thread."""

    def __init__(
        self,
        *,
        open_link: "Callable[..., Transport]" = open_transport,
        signature: "Callable[[Host], tuple[object, ...]]" = link_signature,
        connect_seconds: float = CONNECT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.counters = LinkCounters()
        self._open_link = open_link
        self._signature = signature
        self._connect_seconds = connect_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: dict[object, _Entry] = {}
        self._owner = os.getpid()

    @contextlib.contextmanager
    def borrow(self, host: "Host") -> "Iterator[Transport]":
        """A link that answered within the last seconds. Raises ConnectError when there is none to be had."""
        entry = self._entry(host.pk)
        lent = _Lent(self._check_out(entry, host), renew=lambda dead: self._exchange(entry, host, dead))
        try:
            yield lent
        except (LinkLost, LinkDown):
            self._retire(entry, lent.link)
            raise
        except BaseException:
            lent.link.last_used = float("-inf")  # slow command, cancel or dead link: the next borrower looks first
            raise
        else:
            lent.link.last_used = self._clock()
        finally:
            self._check_in(lent.link)

    def evict(self, host_pk: object) -> None:
        """Lend this host's link no more: its address or its keys have changed."""
        with self._lock:
            entry = self._entries.get(host_pk)
        link = entry.link if entry is not None else None
        if entry is not None and link is not None:
            self._retire(entry, link)

    def close_all(self) -> None:
        """Close every link now. Borrowers that still use one get LinkLost or LinkDown."""
        with self._lock:
            entries, self._entries = list(self._entries.values()), {}
        for entry in entries:
            if entry.link is not None:
                entry.link.transport.close()

    def _entry(self, key: object) -> _Entry:
        with self._lock:
            if os.getpid() != self._owner:
                _inherited.append(self._entries)
                self._entries, self._owner = {}, os.getpid()
            return self._entries.setdefault(key, _Entry())

    def _check_out(self, entry: _Entry, host: "Host") -> _Link:
        if not entry.lock.acquire(timeout=self._connect_seconds + PROBE_SECONDS):
            raise ConnectTimeout(f"Another connection attempt to {host} has not ended yet.")
        try:
            signature = self._signature(host)
            link = entry.link
            if link is not None and not self._usable(link, signature):
                self._retire(entry, link)
                link = None
            if link is None or not self._lend(link):
                transport = self._open_link(host, timeout=self._connect_seconds)
                entry.link = link = _Link(transport, signature, self._clock())
                self.counters.opened += 1
                self._lend(link)
            return link
        finally:
            entry.lock.release()

    def _exchange(self, entry: _Entry, host: "Host", dead: _Link) -> _Link:
        """A new link for the borrower of a dead one, who then holds only the new one."""
        self._retire(entry, dead)
        link = self._check_out(entry, host)
        self._check_in(dead)
        return link

    def _lend(self, link: _Link) -> bool:
        """Count one more borrower, unless the link was retired meanwhile (its last borrower then closes it)."""
        with self._lock:
            if link.retired:
                return False
            link.borrowers += 1
            self.counters.borrowed += 1
        link.last_used = self._clock()
        return True

    def _usable(self, link: _Link, signature: tuple[object, ...]) -> bool:
        if link.retired or link.signature != signature:
            return False
        if self._clock() - link.last_used <= IDLE_SECONDS:
            return True
        self.counters.probed += 1
        return link.transport.is_alive(timeout=PROBE_SECONDS)

    def _retire(self, entry: _Entry, link: _Link) -> None:
        with self._lock:
            if entry.link is link:
                entry.link = None
                self.counters.evicted += 1
            link.retired = True
            unused = link.borrowers == 0
        if unused:
            link.transport.close()

    def _check_in(self, link: _Link) -> None:
        with self._lock:
            link.borrowers -= 1
            last = link.retired and link.borrowers == 0
        if last:
            link.transport.close()


POOL = LinkPool()
"""The links of this process."""

borrow = POOL.borrow
