"""The bytes of one running command, between the thread that moves them and the one that waits.

A *pump* thread (one a command, owned by the transport) is the only one that touches the channel or the pipes.
The caller waits here, with a deadline and a tick, so that nothing below can hold it longer than it wants.
"""

import threading
import time
from collections.abc import Callable

from hosts.transport.base import (
    CommandTimeout,
    InvalidCommand,
    LinkLost,
    OutputTooLarge,
    Result,
    Stream,
    TransportError,
)
from hosts.transport.deadline import Deadline

TICK_SECONDS = 0.5
LINGER_SECONDS = 1.0
"""A command that has ended but left its output open to a child is given this much silence."""
MAX_OUTPUT = 64 * 1024 * 1024
HIGH_WATER = 1024 * 1024
WRITE_WAIT_SECONDS = 15.0
HANG_UP_SECONDS = 3.0
"""A command that was hung up on is given this long to notice that its stdin has ended."""


def _no_wake() -> None:
    """Until the pump has told us how to wake it."""


class Flow:
    """Shared between one caller and one pump."""

    def __init__(self, argv: tuple[str, ...], *, stdin: bytes, keep_stdin_open: bool) -> None:
        self.argv = argv
        self.wake: Callable[[], None] = _no_wake
        self._changed = threading.Condition()
        self._stdin = bytearray(stdin)
        self._stdin_open = keep_stdin_open
        self._out = bytearray()
        self._err = bytearray()
        self._begun = False
        self._ended = False
        self._abandoned = False
        self._hung_up: Deadline | None = None
        self._exit_status: int | None = None
        self._error: TransportError | None = None
        self._started = time.monotonic()

    # the pump's side

    @property
    def abandoned(self) -> bool:
        return self._abandoned or (self._hung_up is not None and self._hung_up.passed)

    @property
    def full(self) -> bool:
        """Whether the reader of a stream is so far behind that the pump should stop reading."""
        return len(self._out) >= HIGH_WATER

    def begin(self) -> None:
        """The command was sent."""
        with self._changed:
            self._begun = True
            self._changed.notify_all()

    def feed(self, out: bytes, err: bytes = b"") -> None:
        with self._changed:
            if self._hung_up is not None:
                return
            self._out += out
            self._err += err
            self._changed.notify_all()

    def peek_stdin(self, most: int) -> bytes:
        with self._changed:
            return bytes(self._stdin[:most])

    def drop_stdin(self, count: int) -> None:
        with self._changed:
            del self._stdin[:count]
            self._changed.notify_all()

    @property
    def stdin_pending(self) -> bool:
        return bool(self._stdin)

    @property
    def stdin_finished(self) -> bool:
        return not self._stdin and not self._stdin_open

    def stop_stdin(self) -> None:
        """The command does not read any more: what was not sent is dropped, as a closed pipe would."""
        with self._changed:
            self._stdin.clear()
            self._stdin_open = False
            self._changed.notify_all()

    def finish(self, exit_status: int | None) -> None:
        with self._changed:
            self._exit_status = exit_status
            self._ended = True
            self._changed.notify_all()

    def fail(self, error: TransportError) -> None:
        with self._changed:
            self._error = self._error or error
            self._ended = True
            self._changed.notify_all()

    # the caller's side

    @property
    def exit_status(self) -> int | None:
        return self._exit_status

    def abandon(self) -> None:
        """Stop listening; the pump lets go as soon as it can."""
        self._abandoned = True
        self.wake()

    def hang_up(self) -> None:
        """End its stdin, so that it ends by itself, and drop what it still says; after a while, abandon it."""
        with self._changed:
            if not self._stdin_open:
                self._abandoned = True
            self._stdin.clear()
            self._stdin_open = False
            self._out.clear()
            self._hung_up = Deadline(HANG_UP_SECONDS)
        self.wake()

    def wait_for_begin(self, deadline: Deadline) -> None:
        """Until the command was sent, or the deadline. Raises what stood in its way."""
        with self._changed:
            while not self._begun and not self._ended and not deadline.passed:
                self._changed.wait(deadline.remaining())
            if not self._begun and self._error is not None:
                raise self._error

    def collect(self, deadline: Deadline, *, tick: Callable[[], None]) -> Result:
        """Wait for the end and return everything. Whatever ends the wait early abandons the command."""
        try:
            self._wait_for_end(deadline, tick)
        except BaseException:
            self.abandon()
            raise
        if self._error is not None:
            raise self._error
        seconds = time.monotonic() - self._started
        return Result(self.argv, self._exit_status, bytes(self._out), bytes(self._err), seconds)

    def _wait_for_end(self, deadline: Deadline, tick: Callable[[], None]) -> None:
        next_tick = time.monotonic() + TICK_SECONDS
        while True:
            with self._changed:
                if not self._has_ended():
                    self._changed.wait(min(deadline.remaining(), max(0.0, next_tick - time.monotonic())))
                if self._has_ended():
                    return
                if len(self._out) + len(self._err) > MAX_OUTPUT:
                    raise OutputTooLarge(f"{self.argv[0]} wrote more than {MAX_OUTPUT // 2**20} MiB.")
            if deadline.passed:
                waited = time.monotonic() - self._started
                raise CommandTimeout(f"{self.argv[0]} did not end within {waited:.0f} s.")
            if time.monotonic() >= next_tick:
                tick()
                next_tick = time.monotonic() + TICK_SECONDS

    def _has_ended(self) -> bool:
        return self._ended

    def read(self, *, timeout: float) -> bytes | None:
        deadline = Deadline(timeout)
        with self._changed:
            while not self._out and not self._ended and not deadline.passed:
                self._changed.wait(deadline.remaining())
            if self._out:
                data = bytes(self._out)
                self._out.clear()
            elif self._error is not None:
                raise self._error
            else:
                return b"" if self._ended else None
        self.wake()
        return data

    def write(self, data: bytes) -> None:
        if not self._stdin_open and not self._ended:
            raise InvalidCommand("This command's stdin is already closed.")
        deadline = Deadline(WRITE_WAIT_SECONDS)
        with self._changed:
            while len(self._stdin) >= HIGH_WATER and not self._ended and not deadline.passed:
                self._changed.wait(deadline.remaining())
            if self._ended:
                raise self._error or LinkLost(f"{self.argv[0]} has ended; nothing more can be sent to it.")
            if deadline.passed:
                raise CommandTimeout(f"{self.argv[0]} takes no more input.")
            self._stdin += data
        self.wake()


class FlowStream(Stream):
    """The Stream that every pumped transport hands out."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow

    def read(self, *, timeout: float) -> bytes | None:
        return self._flow.read(timeout=timeout)

    def write(self, data: bytes) -> None:
        self._flow.write(data)

    def close(self) -> None:
        self._flow.hang_up()

    @property
    def exit_status(self) -> int | None:
        return self._flow.exit_status
