"""Send a hook's request from the panel's own machine: bounded in time and size, no redirects, no proxy.

Not through the host: a router is another machine, and stands where users reach it. Who can reach it only from the
host writes a command instead.
"""

from __future__ import annotations

import http.client
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from deployments.traffic.hook import Hook

LIMIT_BYTES = 64 * 1024
CONNECT_SECONDS = 10.0
TICK_SECONDS = 0.2
GRACE_SECONDS = 1.0


class HookFailed(Exception):
    """The router was not told, or did not agree; the message says why. ``reached``: it may have acted all the same."""

    def __init__(self, message: str, *, reached: bool) -> None:
        super().__init__(message)
        self.message = message
        self.reached = reached


@dataclass(frozen=True)
class Answer:
    """What the router said: status, and the beginning of the body."""

    status: int
    text: str


def send(hook: Hook, *, key: str, seconds: float, tick: Callable[[], None]) -> Answer:
    """Send it and read the answer, calling ``tick`` in between. Raises HookFailed, also for an answer that says no.

    On a thread of its own: neither a name server nor a router that is silent keeps the lease from being renewed.
    """
    found: list[Answer | HookFailed] = []
    deadline = time.monotonic() + seconds

    def work() -> None:
        try:
            found.append(_exchange(hook, key, deadline))
        except HookFailed as error:
            found.append(error)
        except Exception as error:  # on this thread nobody else would learn of it
            found.append(HookFailed(f"The request could not be sent: {error}", reached=True))

    sender = threading.Thread(target=work, name="hook", daemon=True)
    sender.start()
    while sender.is_alive() and time.monotonic() < deadline + GRACE_SECONDS:
        sender.join(TICK_SECONDS)
        tick()
    if not found:
        raise HookFailed(f"No answer within {seconds:.0f} s.", reached=True)
    if isinstance(found[0], HookFailed):
        raise found[0]
    return found[0]


def _exchange(hook: Hook, key: str, deadline: float) -> Answer:
    parts = urlsplit(hook.url)
    connection = _connection(parts.scheme, parts.hostname or "", parts.port)
    try:
        _connect(connection, parts.netloc)
        assert connection.sock is not None
        connection.sock.settimeout(max(0.1, deadline - time.monotonic()))
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request(hook.method, path, body=hook.content(key) or None, headers=dict(hook.pairs(key)))
        response = connection.getresponse()
        body = _body(response, connection, deadline)
    except TimeoutError as error:
        raise HookFailed("No answer in time.", reached=True) from error
    except (OSError, http.client.HTTPException) as error:
        raise HookFailed(f"It broke off without an answer: {error}", reached=True) from error
    finally:
        connection.close()
    text = body.decode(errors="replace").strip()
    if not 200 <= response.status < 300:
        raise HookFailed(f"It answered {response.status}{f': {text}' if text else ''}", reached=True)
    return Answer(response.status, text)


def _connection(scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
    if scheme == "https":
        return http.client.HTTPSConnection(host, port, timeout=CONNECT_SECONDS, context=ssl.create_default_context())
    return http.client.HTTPConnection(host, port, timeout=CONNECT_SECONDS)


def _connect(connection: http.client.HTTPConnection, where: str) -> None:
    """Nothing is sent before this. Raises HookFailed."""
    try:
        connection.connect()
    except ssl.SSLError as error:
        raise HookFailed(f"{where} does not show a certificate that counts: {error}", reached=False) from error
    except OSError as error:
        raise HookFailed(f"{where} could not be reached from the panel's machine: {error}", reached=False) from error


def _body(response: http.client.HTTPResponse, connection: http.client.HTTPConnection, deadline: float) -> bytes:
    body = b""
    while len(body) < LIMIT_BYTES and (piece := response.read1(4096)):
        body += piece
        if time.monotonic() > deadline:
            raise TimeoutError
        if connection.sock is not None:
            connection.sock.settimeout(max(0.1, deadline - time.monotonic()))
    return body
