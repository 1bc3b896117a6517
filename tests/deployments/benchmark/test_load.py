"""The requests of a level: so many at once, each timed, and none left under way."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from deployments.benchmark.load import BROKE_OFF, Load, Server
from deployments.engines.bench import OPENAI
from hosts.transport.base import ByteTunnel, LinkLost, no_tick
from hosts.transport.fake import FakeTransport
from hosts.tunnels import Tunnels

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(text: str) -> bytes:
    data = f"data: {text}\n\n".encode()
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


GOOD = [
    HEAD,
    chunk('{"choices": [{"text": "A"}], "usage": {"completion_tokens": 2}}'),
    chunk('{"choices": [{"text": "B"}], "usage": {"completion_tokens": 7}}') + b"0\r\n\r\n",
]


@dataclass
class Port:
    """A server's port; counts how many connections wait for an answer at the same time."""

    answer: list[bytes]
    waits: threading.Event = field(default_factory=threading.Event)
    busy: int = 0
    most: int = 0
    opened: int = 0
    closed: int = 0
    failure: BaseException | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def connect(self, _host: str, _port: int) -> ByteTunnel:
        with self.lock:
            self.opened += 1
        return _Connection(self)

    def changes(self, by: int) -> None:
        with self.lock:
            self.busy += by
            self.most = max(self.most, self.busy)


class _Connection:
    def __init__(self, port: Port) -> None:
        self.port, self.left = port, list[bytes]()

    def sendall(self, data: bytes) -> None:
        if self.port.failure:
            raise self.port.failure
        self.left = list(self.port.answer)
        self.port.changes(+1)

    def recv(self, n: int) -> bytes:
        if not self.port.waits.wait(0.01):
            raise TimeoutError
        piece = self.left.pop(0)
        if not self.left:
            self.port.changes(-1)
        return piece

    def settimeout(self, seconds: float | None) -> None: ...

    def close(self) -> None:
        with self.port.lock:
            self.port.closed += 1


def load(port: Port, *, at_once: int, requests: int) -> Load:
    transport = FakeTransport()
    transport.ports[30000] = port.connect
    tunnels = Tunnels(transport, open_link=FakeTransport)
    tunnels.prepare(30000, at_once, timeout=1)
    return Load(Server(tunnels, 30000, OPENAI), [OPENAI.request(f"{n}", 7) for n in range(requests)], at_once)


def test_so_many_at_once_and_each_is_timed() -> None:
    port = Port(GOOD)
    work = load(port, at_once=4, requests=10)

    def let_go_when_all_wait() -> None:
        if port.busy == 4:
            port.waits.set()

    samples = work.run(let_go_when_all_wait)
    assert len(samples) == 10 and port.most == 4
    assert port.opened == 1 + 4, "each place keeps its connection; one was opened to see what it is"
    assert port.closed == port.opened
    for sample in samples:
        assert (sample.tokens, sample.first_tokens, sample.error) == (7, 2, "")
        assert sample.first is not None and sample.last is not None
        assert sample.sent <= sample.first <= sample.last <= sample.ended


def test_a_connection_that_is_opened_between_two_requests_is_timed_apart() -> None:
    port, took = Port(GOOD), list[float]()
    port.waits.set()
    work = load(port, at_once=1, requests=2)
    open_tunnel = work.server.tunnels.open

    def slowly(number: int, *, timeout: float) -> ByteTunnel:
        began = time.monotonic()
        threading.Event().wait(0.1)
        took.append(time.monotonic() - began)
        return open_tunnel(number, timeout=timeout)

    work.server.tunnels.open = slowly  # type: ignore[method-assign]
    work.server = replace(work.server, bench=replace(OPENAI, keeps_open=False))
    first, second = work.run(no_tick)
    assert first.connecting < took[0] and took[1] <= second.connecting, "the first is open before it begins"


class Cancelled(Exception):
    pass


def test_a_cancel_ends_all_of_it_at_once() -> None:
    port = Port(GOOD)
    work = load(port, at_once=8, requests=100)
    began = time.monotonic()

    def cancel_when_all_wait() -> None:
        if port.busy == 8:
            raise Cancelled

    with pytest.raises(Cancelled):
        work.run(cancel_when_all_wait)
    assert time.monotonic() - began < 5
    assert port.closed == port.opened and work.samples == []
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("benchmark-")]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ([b"HTTP/1.1 503 X\r\nContent-Length: 4\r\n\r\nbusy"], "status 503: busy"),
        ([HEAD + b"0\r\n\r\n"], BROKE_OFF),
        ([HEAD, chunk('{"error": {"message": "died"}}') + b"0\r\n\r\n"], "died"),
        ([HEAD, b""], "did not answer"),
    ],
)
def test_what_goes_wrong_stands_in_the_sample(answer: list[bytes], error: str) -> None:
    port = Port(answer)
    port.waits.set()
    samples = load(port, at_once=2, requests=3).run(no_tick)
    assert len(samples) == 3 and all(error in sample.error for sample in samples)


def test_an_answer_in_one_piece_has_no_first_token() -> None:
    body = b'{"choices": [{"text": "A B"}], "usage": {"completion_tokens": 2}}'
    port = Port([f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body])
    port.waits.set()
    (sample,) = load(port, at_once=1, requests=1).run(no_tick)
    assert (sample.tokens, sample.first, sample.wait, sample.error) == (2, None, None, "")


@pytest.mark.parametrize("failure", [LinkLost("the link is gone"), ConnectionError("The tunnel is closed.")])
def test_a_link_that_breaks_is_the_failure_of_its_request(failure: BaseException) -> None:
    samples = load(Port(GOOD, failure=failure), at_once=1, requests=2).run(no_tick)
    assert len(samples) == 2 and all(sample.error for sample in samples)


def test_a_fault_of_ours_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    port = Port(GOOD)
    port.waits.set()
    work = load(port, at_once=1, requests=1)
    broken: Callable[[object], object] = lambda told: 1 / 0  # noqa: E731
    monkeypatch.setattr(work, "server", Server(work.server.tunnels, 30000, OPENAI.__class__(OPENAI.request, broken)))  # type: ignore[arg-type]
    with pytest.raises(ZeroDivisionError):
        work.run(no_tick)
