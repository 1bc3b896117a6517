"""A scripted transport, for tests and for looking at pages without a host.

    fake = FakeTransport()
    fake.on("nvidia-smi", reply=Reply(stdout=b"..."))
    fake.on("kill", "-TERM", reply=LinkLost("gone"))
    fake.on(lambda call: b"token" in call.stdin, reply=handler)

The newest rule that matches answers. A reply may be a Reply, an exception to raise, or a function of the call
that returns either. A command that no rule knows is an AssertionError: a test says what it expects.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Self

from hosts.transport.base import (
    ByteTunnel,
    CommandTimeout,
    ConnectRefused,
    InvalidCommand,
    LinkDown,
    Result,
    Stream,
    TransportCounters,
    check_argv,
    no_tick,
)


@dataclass(frozen=True)
class Call:
    """One command as it was asked for."""

    argv: tuple[str, ...]
    stdin: bytes
    timeout: float | None = None
    streamed: bool = False


@dataclass(frozen=True)
class Reply:
    """How a command ends. `hangs`: it never does. `chunks`: what a stream yields, None for a silence."""

    stdout: bytes = b""
    stderr: bytes = b""
    exit_status: int | None = 0
    hangs: bool = False
    ticks: int = 0
    chunks: tuple[bytes | None, ...] | None = None
    echo: Callable[[bytes], bytes] | None = field(default=None, repr=False)


Answer = Reply | BaseException
Handler = Callable[[Call], Answer]
Predicate = Callable[[Call], bool]
Connector = Callable[[str, int], ByteTunnel]


class FakeTransport:
    """Answers by rules and remembers every call."""

    kind = "fake"

    def __init__(self) -> None:
        self.counters = TransportCounters(connections=1)
        self.calls: list[Call] = []
        self.alive = True
        self.closed = False
        self.ports: dict[int, Connector] = {}
        self._rules: list[tuple[Predicate, Answer | Handler]] = []
        self._lock = threading.Lock()

    def on(self, *words: str | Predicate, reply: Answer | Handler) -> Self:
        """Answer commands that begin with these words, or for which the one predicate holds."""
        predicate = words[0] if len(words) == 1 and not isinstance(words[0], str) else _begins_with(words)
        self._rules.insert(0, (predicate, reply))
        return self

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        stdin: bytes = b"",
        tick: Callable[[], None] = no_tick,
    ) -> Result:
        call = Call(check_argv(argv), stdin, timeout)
        reply = self._answer(call)
        for _ in range(max(reply.ticks, 1 if reply.hangs else 0)):
            tick()
        if reply.hangs:
            raise CommandTimeout(f"{call.argv[0]} did not end within {timeout:.0f} s.")
        return Result(call.argv, reply.exit_status, reply.stdout, reply.stderr, 0.0)

    def stream(self, argv: Sequence[str], *, stdin: bytes = b"", keep_stdin_open: bool = False) -> Stream:
        reply = self._answer(Call(check_argv(argv), stdin, streamed=True))
        return _FakeStream(reply, takes_input=keep_stdin_open)

    def open_tcp(self, port: int, *, host: str = "127.0.0.1", timeout: float) -> ByteTunnel:
        if port not in self.ports:
            raise ConnectRefused(f"Port {port} of {host}: nothing listens there.")
        return self.ports[port](host, port)

    def is_alive(self, *, timeout: float) -> bool:
        return self.alive and not self.closed

    def close(self) -> None:
        self.closed = True

    def commands(self) -> list[tuple[str, ...]]:
        """The argv of every call, in order."""
        return [call.argv for call in self.calls]

    def _answer(self, call: Call) -> Reply:
        if self.closed:
            raise LinkDown("This link is closed.")
        with self._lock:
            self.calls.append(call)
            self.counters.execs += 1
        for predicate, answer in self._rules:
            if predicate(call):
                found = answer if isinstance(answer, Reply | BaseException) else answer(call)
                if isinstance(found, BaseException):
                    raise found
                return found
        raise AssertionError(f"no rule answers {call.argv!r}")


def _begins_with(words: Sequence[object]) -> Predicate:
    start = tuple(words)
    return lambda call: call.argv[: len(start)] == start


class _FakeStream(Stream):
    def __init__(self, reply: Reply, *, takes_input: bool) -> None:
        chunks = reply.chunks if reply.chunks is not None else (reply.stdout + reply.stderr,)
        self._chunks = [chunk for chunk in chunks if chunk != b""]
        self._reply = reply
        self._takes_input = takes_input
        self._status: int | None = None

    def read(self, *, timeout: float) -> bytes | None:
        if self._chunks:
            return self._chunks.pop(0)
        if self._reply.hangs:
            return None
        self._status = self._reply.exit_status
        return b""

    def write(self, data: bytes) -> None:
        if not self._takes_input:
            raise InvalidCommand("This command's stdin is already closed.")
        if self._reply.echo is not None:
            self._chunks.append(self._reply.echo(data))

    def close(self) -> None:
        self._chunks.clear()

    @property
    def exit_status(self) -> int | None:
        return self._status
