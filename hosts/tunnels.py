"""Many connections at once to the ports of one host.

SSH carries any number of forwarded ports. Where a port is reached by a command instead (inside a container, or where
forwarding is off), a link carries only as many as sshd allows sessions: then further links are opened, and closed
again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from hosts.transport.base import ByteTunnel, LinkBusy, Transport, no_tick
from hosts.transport.relay import StreamTunnel

ON_OWN_LINK = 8
"""sshd allows ten sessions a connection unless told otherwise."""
ON_LENT_LINK = 3
"""Others work over it too."""


@dataclass
class _Lane:
    transport: Transport
    room: int


class Tunnels:
    """Use it in a ``with`` block. Threads may share it. ``open_link`` makes one more link to the same host."""

    def __init__(self, transport: Transport, *, open_link: Callable[[], Transport]) -> None:
        self._open_link = open_link
        self._lent = transport
        self._lanes = [_Lane(transport, ON_LENT_LINK)]
        self._relayed: bool | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for lane in self._lanes[1:]:
            lane.transport.close()

    def prepare(self, port: int, at_once: int, *, timeout: float, tick: Callable[[], None] = no_tick) -> None:
        """Open what ``at_once`` connections need; ``tick`` is called after each link.

        Raises as ``Transport.open_tcp``, or as connecting to the host.
        """
        if self._relayed is None:
            # Whether a port is reached by a command shows in what a connection to it is.
            tunnel = self._lent.open_tcp(port, timeout=timeout)
            self._relayed = isinstance(tunnel, StreamTunnel)
            tunnel.close()
        while self._relayed and sum(lane.room for lane in self._lanes) < at_once:
            self._lanes.append(_Lane(self._open_link(), ON_OWN_LINK))
            tick()

    def open(self, port: int, *, timeout: float) -> ByteTunnel:
        """Connect to ``port`` as the host sees it; after ``prepare``. Raises as ``Transport.open_tcp``."""
        if not self._relayed:
            return self._lent.open_tcp(port, timeout=timeout)
        lane = self._lane()
        try:
            return _Counted(lane.transport.open_tcp(port, timeout=timeout), lambda: self._give_back(lane))
        except BaseException:
            self._give_back(lane)
            raise

    def _lane(self) -> _Lane:
        with self._lock:
            lane = next((lane for lane in self._lanes if lane.room), None)
            if lane is None:
                raise LinkBusy("More connections at once than were prepared for.")
            lane.room -= 1
            return lane

    def _give_back(self, lane: _Lane) -> None:
        with self._lock:
            lane.room += 1


class _Counted:
    """A tunnel that gives its room back when it is closed, once."""

    def __init__(self, tunnel: ByteTunnel, closed: Callable[[], None]) -> None:
        self._tunnel = tunnel
        self._closed: Callable[[], None] | None = closed

    def sendall(self, data: bytes) -> None:
        self._tunnel.sendall(data)

    def recv(self, n: int) -> bytes:
        return self._tunnel.recv(n)

    def settimeout(self, seconds: float | None) -> None:
        self._tunnel.settimeout(seconds)

    def close(self) -> None:
        self._tunnel.close()
        if self._closed is not None:
            self._closed()
            self._closed = None
