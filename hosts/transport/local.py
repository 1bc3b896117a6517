"""The panel's own machine, over subprocess."""

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from typing import IO

from hosts.transport.base import (
    ByteTunnel,
    CommandSpec,
    ConnectRefused,
    ConnectTimeout,
    LinkBusy,
    Result,
    Stream,
    TransportCounters,
    check_argv,
    no_tick,
)
from hosts.transport.deadline import Deadline
from hosts.transport.flow import LINGER_SECONDS, Flow, FlowStream

CHUNK = 65536
EXIT_POLL_SECONDS = 0.05
PASSED_ON = ("HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR", "XDG_RUNTIME_DIR", "LD_LIBRARY_PATH")
"""The panel's own environment holds its secrets, so a command gets these and PATH, and no more."""
NOT_STARTED = {FileNotFoundError: 127, NotADirectoryError: 127, PermissionError: 126, OSError: 126}
"""The statuses a shell gives, so that a missing program looks the same on every transport."""


def command_environment() -> dict[str, str]:
    """What a command on this machine sees of our environment."""
    kept = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    path = os.environ.get("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    return {"PATH": path, **kept}


class LocalTransport:
    """Runs commands here. A deadline kills the process group it started, and nothing else."""

    kind = "local"

    def __init__(self) -> None:
        self.counters = TransportCounters(connections=1)

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        stdin: bytes = b"",
        tick: Callable[[], None] = no_tick,
    ) -> Result:
        deadline = Deadline(timeout)
        return self._start(CommandSpec(check_argv(argv), stdin)).collect(deadline, tick=tick)

    def stream(self, argv: Sequence[str], *, stdin: bytes = b"", keep_stdin_open: bool = False) -> Stream:
        return FlowStream(self._start(CommandSpec(check_argv(argv), stdin, keep_stdin_open, True)))

    def open_tcp(self, port: int, *, host: str = "127.0.0.1", timeout: float) -> ByteTunnel:
        try:
            return socket.create_connection((host, port), timeout)
        except TimeoutError as error:
            raise ConnectTimeout(f"Port {port} of this machine did not answer.") from error
        except OSError as error:
            raise ConnectRefused(f"Port {port} of this machine: {error.strerror or error}.") from error

    def is_alive(self, *, timeout: float) -> bool:
        return True

    def close(self) -> None:
        """Nothing is held open between commands."""

    def _start(self, spec: CommandSpec) -> Flow:
        self.counters.execs += 1
        flow = Flow(spec.argv, stdin=spec.stdin, keep_stdin_open=spec.keep_stdin_open)
        try:
            process = _spawn(spec)
        except OSError as error:
            if isinstance(error, BlockingIOError) or error.errno in (11, 12, 23, 24):
                raise LinkBusy(f"This machine cannot start another process: {error.strerror}.") from error
            message = f"{spec.argv[0]}: {error.strerror}\n".encode()
            flow.feed(*((message, b"") if spec.merge_stderr else (b"", message)))
            flow.finish(NOT_STARTED.get(type(error), 126))
            return flow
        _LocalPump(process, flow, bounded=spec.merge_stderr).start()
        return flow


def _spawn(spec: CommandSpec) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        spec.argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if spec.merge_stderr else subprocess.PIPE,
        env=command_environment(),
        start_new_session=True,
        bufsize=0,
    )


class _LocalPump(threading.Thread):
    """Moves the bytes of one child process and reaps it."""

    def __init__(self, process: subprocess.Popen[bytes], flow: Flow, *, bounded: bool) -> None:
        super().__init__(name=f"local-{process.pid}", daemon=True)
        self._process = process
        self._flow = flow
        self._bounded = bounded
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._wake_lock = threading.Lock()
        self._exit_fd = _open_exit_fd(process.pid)
        self._last_output = time.monotonic()
        self._exit_seen: float | None = None
        flow.wake = self._wake

    def run(self) -> None:
        self._prepare()
        try:
            while not self._flow.abandoned and not self._finished():
                self._step()
        finally:
            self._let_go()

    def _prepare(self) -> None:
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        if self._exit_fd is not None:
            self._selector.register(self._exit_fd, selectors.EVENT_READ)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)

    def _step(self) -> None:
        self._choose()
        for key, _ in self._selector.select(self._patience()):
            if key.fd == self._wake_read:
                os.read(self._wake_read, CHUNK)
            elif key.fd == self._exit_fd:
                self._selector.unregister(self._exit_fd)
            elif self._process.stdin is not None and key.fileobj is self._process.stdin:
                self._send()
            else:
                self._receive(key.fileobj)  # type: ignore[arg-type]  # we registered pipes only

    def _choose(self) -> None:
        """Watch the pipes that can move now."""
        process = self._process
        if process.stdin is not None and not process.stdin.closed:
            if self._flow.stdin_finished:
                self._unwatch(process.stdin)
                process.stdin.close()
            else:
                self._watch(process.stdin, selectors.EVENT_WRITE, wanted=self._flow.stdin_pending)
        room = not (self._bounded and self._flow.full)
        for pipe in (process.stdout, process.stderr):
            if pipe is not None and not pipe.closed:
                self._watch(pipe, selectors.EVENT_READ, wanted=room)

    def _watch(self, pipe: object, events: int, *, wanted: bool) -> None:
        if not wanted:
            self._unwatch(pipe)
        elif pipe not in self._registered():
            self._selector.register(pipe, events)  # type: ignore[arg-type]

    def _unwatch(self, pipe: object) -> None:
        if pipe in self._registered():
            self._selector.unregister(pipe)  # type: ignore[arg-type]

    def _registered(self) -> list[object]:
        return [key.fileobj for key in self._selector.get_map().values()]

    def _send(self) -> None:
        assert self._process.stdin is not None
        try:
            sent = os.write(self._process.stdin.fileno(), self._flow.peek_stdin(CHUNK))
        except BlockingIOError:
            return
        except OSError:  # the command closed its stdin: it wants no more, which is its right
            self._flow.stop_stdin()
            return
        self._flow.drop_stdin(sent)

    def _receive(self, pipe: IO[bytes]) -> None:
        try:
            data = os.read(pipe.fileno(), CHUNK)
        except BlockingIOError:
            return
        self._last_output = time.monotonic()
        if not data:
            self._unwatch(pipe)
            pipe.close()
        elif pipe is self._process.stderr:
            self._flow.feed(b"", data)
        else:
            self._flow.feed(data)

    def _patience(self) -> float:
        if self._process.returncode is not None:
            return LINGER_SECONDS / 4
        return 1.0 if self._exit_fd is not None else EXIT_POLL_SECONDS

    def _finished(self) -> bool:
        if self._process.poll() is None:
            return False
        now = time.monotonic()
        self._exit_seen = self._exit_seen or now
        pipes = (self._process.stdout, self._process.stderr)
        if all(pipe is None or pipe.closed for pipe in pipes):
            return True
        silent = now - max(self._last_output, self._exit_seen) > LINGER_SECONDS
        return silent and not (self._bounded and self._flow.full)

    def _let_go(self) -> None:
        """Close our ends; kill what was abandoned; reap; and only then tell the status."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._selector.close()
        with self._wake_lock:
            for fd in (self._wake_read, self._wake_write, self._exit_fd):
                if fd is not None:
                    os.close(fd)
            self._wake_write = -1
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        status = self._process.wait()
        self._flow.finish(status if status >= 0 else None)

    def _wake(self) -> None:
        with self._wake_lock, contextlib.suppress(OSError):
            if self._wake_write >= 0:
                os.write(self._wake_write, b"!")


def _open_exit_fd(pid: int) -> int | None:
    """Readable once the child has ended; None where the kernel has no pidfd, and we poll instead."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
