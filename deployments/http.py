"""HTTP to a server's own port through a transport's tunnel: bounded in time and size, no redirects."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass

import h11

from deployments.engines.request import HttpRequest
from hosts.transport.base import ByteTunnel, ConnectRefused, LinkLost, Transport

LIMIT_BYTES = 1024 * 1024
CONNECT_SECONDS = 10.0
PROBE_SECONDS = 5.0
WANTS_KEY = (401, 403)


class NoAnswer(Exception):
    """The server did not answer with HTTP in time; the message says what happened."""


@dataclass(frozen=True)
class HttpAnswer:
    """What the server said: status, the first MiB of the body, and how long it took in seconds."""

    status: int
    body: bytes
    seconds: float


def _not_listening(body: bytes) -> None:
    """For an answer that is read when it is whole."""


def ask(
    transport: Transport,
    port: int,
    request: HttpRequest,
    *,
    tick: Callable[[], None],
    key: str = "",
    heard: Callable[[bytes], None] = _not_listening,
) -> HttpAnswer:
    """Send one request to ``port`` as the host sees it, with the ``key`` of the server's API if there is one.

    ``heard`` gets the body so far whenever there is more of it. Nothing of the request is in argv anywhere: it goes
    through the tunnel. Raises NoAnswer, or TransportError for the link.
    """
    began = time.monotonic()
    try:
        tunnel = transport.open_tcp(port, timeout=CONNECT_SECONDS)
    except ConnectRefused as error:
        raise NoAnswer(f"Nothing accepts connections on port {port}.") from error
    try:
        deadline = began + request.timeout
        status, body = _exchange(tunnel, port, request, key=key, deadline=deadline, tick=tick, heard=heard)
    except LinkLost as error:
        if not transport.is_alive(timeout=PROBE_SECONDS):
            raise  # the link itself is gone, which says nothing about the server
        raise NoAnswer(f"Port {port} broke off its answer to {request.path}: {error}") from error
    except (h11.ProtocolError, OSError) as error:
        raise NoAnswer(f"Port {port} did not answer {request.path} as HTTP: {error}") from error
    finally:
        tunnel.close()
    return HttpAnswer(status, body, time.monotonic() - began)


def _exchange(
    tunnel: ByteTunnel,
    port: int,
    request: HttpRequest,
    *,
    key: str,
    deadline: float,
    tick: Callable[[], None],
    heard: Callable[[bytes], None],
) -> tuple[int, bytes]:
    connection = h11.Connection(h11.CLIENT)
    tunnel.sendall(written(connection, port, request, key))
    tunnel.settimeout(0.5)
    status, body = 0, b""
    while len(body) < LIMIT_BYTES:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(_receive(tunnel, deadline=deadline, tick=tick))
        elif isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
            heard(body)
        elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
            break
    if not status:
        raise NoAnswer(f"Port {port} closed the connection without an answer to {request.path}.")
    return status, body


def written(connection: h11.Connection, port: int, request: HttpRequest, key: str, *, keep: bool = False) -> bytes:
    """The bytes of a request; ``keep``: the connection will carry another one after it."""
    payload = json.dumps(request.body).encode() if request.body is not None else b""
    headers = [("Host", f"127.0.0.1:{port}"), ("Accept", "*/*")]
    if not keep:
        headers.append(("Connection", "close"))
    if key:
        headers.append(("Authorization", f"Bearer {key}"))
    if request.body is not None:
        headers += [("Content-Type", "application/json"), ("Content-Length", str(len(payload)))]
    out = connection.send(h11.Request(method=request.method, target=request.path, headers=headers)) or b""
    if payload:
        out += connection.send(h11.Data(data=payload)) or b""
    return out + (connection.send(h11.EndOfMessage()) or b"")


def _receive(tunnel: ByteTunnel, *, deadline: float, tick: Callable[[], None]) -> bytes:
    while time.monotonic() < deadline:
        tick()
        try:
            return tunnel.recv(65536)
        except TimeoutError:
            continue
    raise NoAnswer("No answer in time.")
