"""A process that has a TCP port in a way that a look for listeners may miss. Run inside a machine, as its root:

    python - port-hold KIND PORT < lab/port_hold.py

It prints its pid once it has the port and its parent has ended; it ends when it is killed, or after a day.

    listens        on every IPv4 address
    listens-one    on 127.0.0.1 only
    listens-v6     on every IPv6 address, and on no IPv4 address
    listens-both   on every address of both families, with one socket
    twin           as the second of two that share it by SO_REUSEPORT: whoever has set that may come too
    bound          it is bound and does not listen: nobody may have it
    bound-reuse    the same with SO_REUSEADDR and SO_REUSEPORT, as vLLM does while it loads its model
    bound-one      the same on 127.0.0.1 only
    connection     it is this end of a connection that the process has opened to elsewhere
    closed         the server is gone, its last connection is closed: TIME_WAIT on 127.0.0.1
    closed-strict  the same of a server that has not set SO_REUSEADDR
    elsewhere      it listens, in a network namespace of its own
"""

import ctypes
import os
import signal
import socket
import sys
from collections.abc import Callable

DAY = 86_400
CLONE_NEWNET = 0x40000000
V6ONLY_OFF, V6ONLY_ON = 0, 1


def bind(
    address: str, port: int, *, reuse: bool = True, shared: bool = False, v6only: int = V6ONLY_ON
) -> socket.socket:
    """A socket that has the port, and does not listen yet."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    made = socket.socket(family)
    if family == socket.AF_INET6:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, v6only)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(reuse))
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, int(shared))
    made.bind((address, port))
    return made


def listen(made: socket.socket) -> socket.socket:
    made.listen()
    return made


def connection(port: int) -> list[socket.socket]:
    server = socket.create_server(("127.0.0.1", 0))
    client = bind("127.0.0.1", port, reuse=False)
    client.connect(server.getsockname())
    return [server, client]


def closed(port: int, *, reuse: bool) -> list[socket.socket]:
    """The server's end is closed first: so it is that which waits for a minute."""
    server = listen(bind("127.0.0.1", port, reuse=reuse))
    client = socket.create_connection(("127.0.0.1", port))
    served, _ = server.accept()
    served.close()
    assert client.recv(1) == b""
    client.close()
    server.close()
    return []


def elsewhere(port: int) -> list[socket.socket]:
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "unshare")
    return [listen(bind("0.0.0.0", port))]


KINDS: dict[str, Callable[[int], list[socket.socket]]] = {
    "listens": lambda port: [listen(bind("0.0.0.0", port))],
    "listens-one": lambda port: [listen(bind("127.0.0.1", port))],
    "listens-v6": lambda port: [listen(bind("::", port))],
    "listens-both": lambda port: [listen(bind("::", port, v6only=V6ONLY_OFF))],
    "twin": lambda port: [listen(bind("0.0.0.0", port, shared=True))],
    "bound": lambda port: [bind("0.0.0.0", port, reuse=False)],
    "bound-reuse": lambda port: [bind("0.0.0.0", port, shared=True)],
    "bound-one": lambda port: [bind("127.0.0.1", port)],
    "connection": connection,
    "closed": lambda port: closed(port, reuse=True),
    "closed-strict": lambda port: closed(port, reuse=False),
    "elsewhere": elsewhere,
}


def main(kind: str, port: int) -> None:
    if kind not in KINDS:
        sys.exit(f"No way to hold a port is called {kind}. There are: {', '.join(KINDS)}.")
    told, tell = os.pipe()
    if os.fork():
        os.close(tell)
        answer = os.read(told, 400).decode()
        if not answer.isdigit():
            sys.exit(answer or "the process ended")
        print(answer)
        return
    os.setsid()
    try:
        kept = KINDS[kind](port)
    except OSError as error:
        os.write(tell, str(error).encode())
        os._exit(1)
    os.write(tell, str(os.getpid()).encode())
    for descriptor in (0, 1, 2, told, tell):
        os.close(descriptor)
    signal.alarm(DAY)
    signal.pause()
    del kept  # until now


if __name__ == "__main__" and sys.argv[1:2] == ["port-hold"]:
    main(sys.argv[2], int(sys.argv[3]))
