"""Moves the bytes of one SSH channel. The only thread that touches it, because any touch may block.

Knows no SSH library: the channel is whatever has these few methods, and the exceptions are told to it.
"""

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Protocol

from hosts.transport.base import LinkLost, TransportError
from hosts.transport.flow import LINGER_SECONDS, Flow

CHUNK = 32768
SEND_POLL_SECONDS = 0.02
IDLE_SECONDS, STREAM_IDLE_SECONDS = 0.5, 1.0
"""How long it sleeps when nothing rings. A stream ends by itself, or somebody hangs up, which rings."""


class Channel(Protocol):
    @property
    def closed(self) -> bool: ...
    @property
    def eof_received(self) -> int: ...

    def recv_ready(self) -> bool: ...
    def recv(self, nbytes: int) -> bytes: ...
    def recv_stderr_ready(self) -> bool: ...
    def recv_stderr(self, nbytes: int) -> bytes: ...
    def send_ready(self) -> bool: ...
    def send(self, s: bytes) -> int: ...
    def shutdown_write(self) -> None: ...
    def exit_status_ready(self) -> bool: ...
    def recv_exit_status(self) -> int: ...
    def close(self) -> None: ...


class Bell(threading.Event):
    """Rung by the channel's buffers when bytes arrive or the channel closes, and by the caller."""

    def clear(self) -> None:
        """The buffers call this when they run empty; with two of them that would lose a ring."""

    def await_ring(self, seconds: float) -> None:
        self.wait(seconds)
        super().clear()


class ChannelPump(threading.Thread):
    """From sending the command to its end, or until the caller has gone away."""

    def __init__(
        self,
        flow: Flow,
        *,
        begin: Callable[[Bell], Channel],
        still_answers: Callable[[], bool],
        release: Callable[[bool], None],
        foreign: tuple[type[Exception], ...],
        streaming: bool,
    ) -> None:
        super().__init__(name=f"ssh {flow.argv[0]}", daemon=True)
        self._flow = flow
        self._begin = begin
        self._still_answers = still_answers
        self._release = release
        self._foreign = foreign
        self._streaming = streaming
        self._idle = STREAM_IDLE_SECONDS if streaming else IDLE_SECONDS
        self._bell = Bell()
        self._left_running = False
        self._stdin_shut = False
        self._last_output = time.monotonic()
        self._exit_seen: float | None = None
        flow.wake = self._bell.set

    def run(self) -> None:
        try:
            self._command()
        except TransportError as error:
            self._flow.fail(error)
        except self._foreign as error:
            self._flow.fail(LinkLost(f"The connection broke while {self._flow.argv[0]} was running: {error}."))
        finally:
            self._release(self._left_running)

    def _command(self) -> None:
        channel = self._begin(self._bell)
        self._flow.begin()
        try:
            while not self._flow.abandoned:
                moved = self._receive(channel)
                moved = self._send(channel) or moved
                if not moved:
                    if self._ended(channel):
                        return self._tell_status(channel)
                    self._bell.await_ring(SEND_POLL_SECONDS if self._flow.stdin_pending else self._idle)
            self._left_running = not channel.closed
        finally:
            with contextlib.suppress(*self._foreign):
                channel.close()

    def _receive(self, channel: Channel) -> bool:
        if self._streaming and self._flow.full:
            return False
        out = channel.recv(CHUNK) if channel.recv_ready() else b""
        err = channel.recv_stderr(CHUNK) if channel.recv_stderr_ready() else b""
        if not out and not err:
            return False
        self._flow.feed(out, err)
        self._last_output = time.monotonic()
        return True

    def _send(self, channel: Channel) -> bool:
        if self._stdin_shut:
            return False
        if channel.closed:
            self._flow.stop_stdin()
            return False
        if self._flow.stdin_finished:
            channel.shutdown_write()
            self._stdin_shut = True
            return False
        data = self._flow.peek_stdin(CHUNK)
        if not data or not channel.send_ready():
            return False
        try:
            sent = channel.send(data)
        except OSError:  # closed by the other side in between: it wants no more, which is its right
            sent = 0
        if sent == 0:
            self._flow.stop_stdin()
        self._flow.drop_stdin(sent)
        return sent > 0

    def _ended(self, channel: Channel) -> bool:
        if self._streaming and self._flow.full:
            return False
        if channel.recv_ready() or channel.recv_stderr_ready():
            return False
        if channel.closed:
            return True
        if not channel.exit_status_ready():
            return False
        now = time.monotonic()
        self._exit_seen = self._exit_seen or now
        return bool(channel.eof_received) or now - max(self._last_output, self._exit_seen) > LINGER_SECONDS

    def _tell_status(self, channel: Channel) -> None:
        """A missing status is a signal when the link still answers, and a lost link when it does not."""
        status = channel.recv_exit_status() if channel.exit_status_ready() else -1
        if status < 0 and not self._still_answers():
            raise LinkLost(f"The connection broke while {self._flow.argv[0]} was running.")
        self._flow.finish(status if status >= 0 else None)
