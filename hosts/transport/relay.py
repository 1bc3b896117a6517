"""A TCP connection carried by a command's stdin and stdout, for where SSH forwarding is off or not enough.

The command runs on the host (or in the container) and needs bash or python3 there. Its first line says how it
went; after that its output is what the port sent.
"""

import contextlib
import time

from hosts.transport.base import (
    CommandTimeout,
    ConnectError,
    ConnectRefused,
    ConnectTimeout,
    InvalidCommand,
    LinkLost,
    Stream,
)
from hosts.transport.deadline import Deadline

READY = b"relaunch-relay ready\n"
REFUSED = b"relaunch-relay refused\n"
NO_TOOL = b"relaunch-relay no-tool\n"

BASH_RELAY = r"""
{ exec 3<>"/dev/tcp/$0/$1"; } 2>/dev/null || { echo "relaunch-relay refused"; exit 1; }
echo "relaunch-relay ready"
exec 4<&0
cat <&3 2>/dev/null &
cat <&4 >&3 2>/dev/null &
wait -n
kill %1 %2 2>/dev/null
"""

PYTHON_RELAY = r"""
import os, socket, sys, threading
try:
    link = socket.create_connection((sys.argv[1], int(sys.argv[2])), 20)
except OSError:
    os.write(1, b"relaunch-relay refused\n"); sys.exit(1)
link.settimeout(None)
os.write(1, b"relaunch-relay ready\n")
def up():
    while True:
        data = os.read(0, 65536)
        if not data:
            os._exit(0)
        link.sendall(data)
threading.Thread(target=up, daemon=True).start()
while True:
    data = link.recv(65536)
    if not data:
        os._exit(0)
    view = memoryview(data)
    while view:
        view = view[os.write(1, view):]
"""

CHOOSE = r"""
if command -v python3 >/dev/null 2>&1; then exec python3 -c "$1" "$3" "$4" 2>/dev/null
elif command -v bash >/dev/null 2>&1; then exec bash -c "$2" "$3" "$4" 2>/dev/null
else echo "relaunch-relay no-tool"; fi
"""


def relay_argv(host: str, port: int) -> list[str]:
    """The command to start on the host."""
    return ["sh", "-c", CHOOSE, "relay", PYTHON_RELAY, BASH_RELAY, host, str(port)]


class StreamTunnel:
    """A ByteTunnel over a running relay."""

    def __init__(self, stream: Stream, *, already_read: bytes = b"") -> None:
        self._stream = stream
        self._buffer = already_read
        self._timeout: float | None = None
        self._ended = False

    def sendall(self, data: bytes) -> None:
        try:
            self._stream.write(data)
        except InvalidCommand as error:
            raise ConnectionError("The tunnel is closed.") from error

    def recv(self, n: int) -> bytes:
        deadline = Deadline(self._timeout if self._timeout is not None else 86400.0)
        while not self._buffer and not self._ended:
            data = self._stream.read(timeout=deadline.remaining())
            if data is None:
                raise TimeoutError("The host's port sent nothing in time.")
            self._ended = data == b""
            self._buffer = data
        chunk, self._buffer = self._buffer[:n], self._buffer[n:]
        return chunk

    def settimeout(self, seconds: float | None) -> None:
        self._timeout = seconds

    def close(self) -> None:
        self._stream.close()


def open_relay(stream: Stream, *, host: str, port: int, timeout: float) -> StreamTunnel:
    """Wait for the relay's first line. Raises ConnectError, and closes the stream then."""
    try:
        return _await_ready(stream, f"Port {port} of {host}, seen from the host", timeout)
    except BaseException:
        with contextlib.suppress(LinkLost, CommandTimeout):
            stream.close()
        raise


def _await_ready(stream: Stream, what: str, timeout: float) -> StreamTunnel:
    end = time.monotonic() + timeout
    seen = b""
    while b"\n" not in seen:
        data = stream.read(timeout=max(0.0, end - time.monotonic()))
        if data is None:
            raise ConnectTimeout(f"{what}, did not answer within {timeout:g} s.")
        if data == b"":
            break
        seen += data
    if seen.startswith(READY):
        return StreamTunnel(stream, already_read=seen[len(READY) :])
    if seen.startswith(NO_TOOL):
        raise ConnectError(
            "The host has neither python3 nor bash, so its port cannot be reached from here.",
            hint="Allow TCP forwarding in the host's sshd, or install python3 there.",
        )
    if seen.startswith(REFUSED):
        raise ConnectRefused(f"{what}: nothing listens there.", hint="Check that the server has started.")
    raise ConnectError(f"{what}: the relay said {seen[:120].decode(errors='replace')!r}.")
