"""The TCP connection below an SSH link: resolved and checked by us, set up so that a dead peer is noticed."""

import contextlib
import socket

from hosts.addresses import InvalidAddress, check_resolved
from hosts.transport.base import AddressError
from hosts.transport.deadline import Deadline

USER_TIMEOUT_MS = 15_000
KEEPALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}


def open_socket(address: str, port: int, *, timeout: float, allow_local: bool) -> socket.socket:
    """A connected socket. The name is resolved once, and each answer checked before it is used.

    Raises AddressError, or the OSError of the last address tried.
    """
    deadline = Deadline(timeout)
    last: OSError | None = None
    for found in _resolve(address, port):
        try:
            check_resolved(found, allow_local=allow_local)
        except InvalidAddress as error:
            raise AddressError(f"{address} leads to {found}. {error}") from error
        try:
            sock = socket.create_connection((found, port), max(0.1, deadline.remaining()))
        except OSError as error:
            last = error
            continue
        _tune(sock)
        return sock
    raise last or AddressError(f"{address} has no address.")


def _resolve(address: str, port: int) -> list[str]:
    try:
        answers = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        raise AddressError(f"{address} could not be found by its name.") from error
    return list(dict.fromkeys(str(answer[4][0]) for answer in answers))


def _tune(sock: socket.socket) -> None:
    """No waiting to fill packets (40 ms a command), and an end to a link that nobody answers on."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    wanted = {"TCP_USER_TIMEOUT": USER_TIMEOUT_MS, **KEEPALIVE}
    for name, value in wanted.items():
        with contextlib.suppress(AttributeError, OSError):  # not on every system; the deadlines hold anyway
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
