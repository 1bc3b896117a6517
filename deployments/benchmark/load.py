"""Sends the requests of a benchmark, so many at once, and times their answers. No database: threads of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from deployments.benchmark.figures import Sample
from deployments.engines.bench import Bench
from deployments.engines.request import HttpRequest
from deployments.eventstream import Line, Refused, Stopped
from deployments.http import CONNECT_SECONDS, NoAnswer
from hosts.transport.base import TransportError
from hosts.tunnels import Tunnels

LOOK_SECONDS = 0.1
BROKE_OFF = "the answer ended without a token"


@dataclass(frozen=True)
class Server:
    """Whom to ask, and how. ``key``: of its API."""

    tunnels: Tunnels
    port: int
    bench: Bench
    key: str = field(default="", repr=False)


def one(server: Server, request: HttpRequest, line: Line) -> Sample:
    """One request, its answer read to the end. Raises Stopped; whatever else goes wrong stands in the sample."""
    first: float | None = None
    last: float | None = None
    tokens = first_tokens = None
    acceptance: float | None = None
    error, says = "", False
    began = time.monotonic()
    try:
        for at, told in line.ask(request, key=server.key):
            piece = server.bench.read(told)
            tokens = tokens if piece.tokens is None else piece.tokens
            acceptance = acceptance if piece.acceptance is None else piece.acceptance
            error = error or piece.error
            says = says or piece.says
            if not piece.says or not line.streamed:
                continue
            if first is None:
                first, first_tokens = at, piece.tokens
            last = at
    except (NoAnswer, Refused, TransportError) as wrong:
        error = str(wrong)
    ended = time.monotonic()
    if not error and not says:
        error = BROKE_OFF
    sent = line.sent or ended
    return Sample(sent, max(ended, sent), first, last, first_tokens, tokens, acceptance, error, max(0.0, sent - began))


@dataclass
class Load:
    """The requests of one level. ``answered`` may be read while it runs."""

    server: Server
    requests: list[HttpRequest]
    at_once: int
    samples: list[Sample] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _ready: int = 0
    _go: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _fault: Exception | None = None

    def run(self, tick: Callable[[], None]) -> list[Sample]:
        """Send all of them; ``tick`` is called ten times a second, and what it raises ends the sending at once.

        Every connection is open before the first request is sent. When this returns or raises, no request is under way.
        """
        waiting = iter(self.requests)
        threads = [
            threading.Thread(target=self._work, args=(waiting,), name=f"benchmark-{number}", daemon=True)
            for number in range(min(self.at_once, len(self.requests)))
        ]
        try:
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                tick()
                if self._ready == len(threads):
                    self._go.set()
                time.sleep(LOOK_SECONDS if self._go.is_set() else LOOK_SECONDS / 10)
        finally:
            self._stop.set()
            self._go.set()
            for thread in threads:
                thread.join(CONNECT_SECONDS + 1)
        if self._fault is not None:
            raise self._fault
        return self.samples

    @property
    def answered(self) -> int:
        """How many have ended, however."""
        return len(self.samples)

    def _work(self, waiting: Iterator[HttpRequest]) -> None:
        """One place of the level: request after request over one connection."""
        server = self.server
        line = Line(
            lambda: server.tunnels.open(server.port, timeout=CONNECT_SECONDS),
            server.port,
            stop=self._stop.is_set,
            keep=server.bench.keeps_open,
        )
        try:
            self._connect(line)
            self._go.wait()
            while not self._stop.is_set() and (request := self._next(waiting)) is not None:
                sample = one(server, request, line)
                with self._lock:
                    self.samples.append(sample)
        except Stopped:
            pass
        except Exception as error:  # a fault of ours, told by the thread that waits for this one
            self._fault = error
        finally:
            line.close()

    def _connect(self, line: Line) -> None:
        """A connection that cannot be opened shows at the request that wants to use it."""
        try:
            line.open()
        except TransportError:
            line.close()
        finally:
            with self._lock:
                self._ready += 1

    def _next(self, waiting: Iterator[HttpRequest]) -> HttpRequest | None:
        with self._lock:
            return next(waiting, None)
