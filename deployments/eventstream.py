"""A streamed HTTP answer through a transport's tunnel: each piece with the moment at which it came.

One connection carries one request after another where the server keeps it open, so that a benchmark measures answers
and not the opening of connections.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import h11

from deployments import http
from deployments.engines.request import HttpRequest
from hosts.transport.base import ByteTunnel

SLICE_SECONDS = 0.25
"""So soon a thread that waits for a piece notices that it is to stop."""
LINE_BYTES = 4 * 1024 * 1024
SHOWN = 300


class Stopped(Exception):
    """Whoever asked wants no more of it."""


class Refused(Exception):
    """The server answered with another status than 200; the message says what it said."""

    def __init__(self, status: int, body: bytes) -> None:
        said = body.decode(errors="replace").strip()[:SHOWN]
        super().__init__(f"it answered with status {status}{f': {said}' if said else ''}")
        self.status = status


class ClosedBefore(Exception):
    """The server had closed a connection that was kept open: nothing of the request was answered."""


class Line:
    """One connection to a server's port, not for two threads at once. ``keep``: for one request after another."""

    def __init__(
        self, open_tunnel: Callable[[], ByteTunnel], port: int, *, stop: Callable[[], bool], keep: bool = True
    ) -> None:
        self._open_tunnel = open_tunnel
        self._port = port
        self._stop = stop
        self._keep = keep
        self._tunnel: ByteTunnel | None = None
        self._connection = h11.Connection(h11.CLIENT)
        self.sent = 0.0
        """When the last request was sent, by the monotonic clock."""
        self._heard = False
        self.streamed = False
        """Did the last answer come in pieces? One that comes whole does not tell when its first word was there."""

    def open(self) -> None:
        """Connect, unless that is done. Raises TransportError."""
        if self._tunnel is None:
            self._tunnel = self._open_tunnel()
            self._tunnel.settimeout(SLICE_SECONDS)

    def close(self) -> None:
        """Hang up; a server that is still at work on an answer notices that."""
        if self._tunnel is not None:
            self._tunnel.close()
            self._tunnel = None
        self._connection = h11.Connection(h11.CLIENT)

    def ask(self, request: HttpRequest, *, key: str = "") -> Iterator[tuple[float, Mapping[str, Any]]]:
        """Each piece with its moment by the monotonic clock.

        Raises NoAnswer, Refused, TransportError, and Stopped once ``stop`` says so.
        """
        kept = self._tunnel is not None  # for a while: the server may have closed it since
        if self._connection.our_state is h11.DONE:
            self._connection.start_next_cycle()
        whole = False
        try:
            for last in (False, True) if kept else (True,):
                try:
                    yield from self._asked(request, key=key)
                    whole = True
                    break
                except ClosedBefore:
                    self.close()
                    if last:
                        raise http.NoAnswer(f"Port {self._port} closed the connection without an answer.") from None
                except (h11.ProtocolError, OSError) as error:
                    raise http.NoAnswer(f"Port {self._port} did not answer {request.path} as HTTP: {error}") from error
        finally:
            if not whole:
                self.close()

    def _asked(self, request: HttpRequest, *, key: str) -> Iterator[tuple[float, Mapping[str, Any]]]:
        self.open()
        assert self._tunnel is not None
        self.sent = time.monotonic()
        payload = http.written(self._connection, self._port, request, key, keep=self._keep)
        try:
            self._tunnel.sendall(payload)
        except OSError as error:
            raise ClosedBefore from error
        self.streamed = self._heard = False
        status, body = 0, b""
        at = self.sent
        while True:
            event = self._connection.next_event()
            if event is h11.NEED_DATA:
                at = self._receive(deadline=self.sent + request.timeout)
            elif isinstance(event, h11.Response):
                status = event.status_code
                self.streamed = status == 200 and _is_stream(event)
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
                if self.streamed:
                    *lines, body = body.split(b"\n")
                    yield from ((at, told) for told in map(_told, lines) if told is not None)
                if len(body) > LINE_BYTES:
                    raise http.NoAnswer(f"Port {self._port} sent more than {LINE_BYTES} bytes in one piece.")
            else:
                break
        self._settle()
        if status != 200:
            raise Refused(status, body)
        if not self.streamed and (told := _object(body)) is not None:
            yield at, told

    def _settle(self) -> None:
        """Keep the connection for the next request where the server does."""
        if self._connection.their_state is not h11.DONE or self._connection.our_state is not h11.DONE:
            self.close()

    def _receive(self, *, deadline: float) -> float:
        """Feed what comes next; returns its moment."""
        assert self._tunnel is not None
        while time.monotonic() < deadline:
            if self._stop():
                raise Stopped
            try:
                data = self._tunnel.recv(65536)
            except TimeoutError:
                continue
            except OSError as error:
                raise (h11.RemoteProtocolError(str(error)) if self._heard else ClosedBefore()) from error
            at = time.monotonic()
            if data == b"" and not self._heard:
                raise ClosedBefore
            self._heard = True
            self._connection.receive_data(data)
            return at
        raise http.NoAnswer("No whole answer in time.")


def _is_stream(response: h11.Response) -> bool:
    return any(name == b"content-type" and b"event-stream" in value for name, value in response.headers)


def _told(line: bytes) -> Mapping[str, Any] | None:
    """What a ``data:`` line holds; None for any other line, and for the word that ends the stream."""
    name, colon, value = line.strip().partition(b":")
    return _object(value) if colon and name in (b"data", b"error") else None


def _object(text: bytes) -> Mapping[str, Any] | None:
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return told if isinstance(told, dict) else None
