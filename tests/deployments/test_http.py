"""HTTP to a server's port: bounded in time and size, and a lost link is no answer of the server's."""

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from deployments import http
from deployments.engines.request import HttpRequest
from hosts.transport.base import LinkLost, no_tick
from hosts.transport.fake import FakeTransport

PORT = 30000
GET = HttpRequest("GET", "/metrics", timeout=5.0)
Serve = Callable[[socket.socket], None]


@pytest.fixture
def host() -> Iterator[Callable[[Serve], FakeTransport]]:
    """A fake host whose port is served by a function, once."""
    closing: list[Callable[[], None]] = []

    def make(serve: Serve) -> FakeTransport:
        ours, theirs = socket.socketpair()
        thread = threading.Thread(target=serve, args=(theirs,))
        thread.start()
        fake = FakeTransport()
        fake.ports[PORT] = lambda _host, _port: ours
        closing.extend([ours.close, thread.join, theirs.close])
        return fake

    yield make
    for close in closing:
        close()


def says(answer: bytes, *, then_close: bool = True) -> Serve:
    def serve(link: socket.socket) -> None:
        link.recv(65536)
        link.sendall(answer)
        if then_close:
            link.shutdown(socket.SHUT_WR)

    return serve


def test_an_answer(host: Callable[[Serve], FakeTransport]) -> None:
    got: list[bytes] = []

    def serve(link: socket.socket) -> None:
        got.append(link.recv(65536))
        link.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n")

    answer = http.ask(host(serve), PORT, HttpRequest("POST", "/v1", {"a": 1}), tick=no_tick)
    assert (answer.status, answer.body) == (200, b"abc")
    head, _, body = got[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1 HTTP/1.1\r\n") and b"Content-Length: 8" in head
    assert body == b'{"a": 1}' and b"Authorization" not in head


def test_a_key_is_sent_as_a_header(host: Callable[[Serve], FakeTransport]) -> None:
    got: list[bytes] = []

    def serve(link: socket.socket) -> None:
        got.append(link.recv(65536))
        link.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    http.ask(host(serve), PORT, GET, tick=no_tick, key="plain-key")
    assert b"\r\nAuthorization: Bearer plain-key\r\n" in got[0]


def test_a_redirect_is_not_followed(host: Callable[[Serve], FakeTransport]) -> None:
    serve = says(b"HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\nContent-Length: 0\r\n\r\n")
    assert http.ask(host(serve), PORT, GET, tick=no_tick).status == 302


def test_a_body_without_end_is_cut(host: Callable[[Serve], FakeTransport], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "LIMIT_BYTES", 1000)
    answer = http.ask(host(says(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 5000, then_close=False)), PORT, GET, tick=no_tick)
    assert 1000 <= len(answer.body) <= 5000


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"SSH-2.0-OpenSSH\r\n", "as HTTP"),
        (b"", "as HTTP|without an answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "as HTTP|without an answer"),
    ],
)
def test_no_http(host: Callable[[Serve], FakeTransport], answer: bytes, words: str) -> None:
    with pytest.raises(http.NoAnswer, match=words):
        http.ask(host(says(answer)), PORT, GET, tick=no_tick)


def test_nobody_listens() -> None:
    with pytest.raises(http.NoAnswer, match="Nothing accepts connections on port 30000"):
        http.ask(FakeTransport(), PORT, GET, tick=no_tick)


@pytest.mark.long
def test_silence_ends_in_time_and_ticks_meanwhile(host: Callable[[Serve], FakeTransport]) -> None:
    ticks: list[int] = []
    silent = HttpRequest("GET", "/", timeout=0.2)
    with pytest.raises(http.NoAnswer, match="in time"):
        http.ask(host(lambda link: link.recv(65536)), PORT, silent, tick=lambda: ticks.append(1))  # type: ignore[func-returns-value]
    assert ticks


def test_what_a_tick_raises_ends_it(host: Callable[[Serve], FakeTransport]) -> None:
    def tick() -> None:
        raise KeyError("cancelled")

    with pytest.raises(KeyError):
        http.ask(host(lambda link: link.recv(65536)), PORT, GET, tick=tick)  # type: ignore[func-returns-value]


class Broken:
    """A tunnel whose link breaks."""

    def sendall(self, data: bytes) -> None:
        pass

    def recv(self, n: int) -> bytes:
        raise LinkLost("the link broke")

    def settimeout(self, seconds: float | None) -> None:
        pass

    def close(self) -> None:
        pass


def test_a_link_that_broke_says_nothing_about_the_server() -> None:
    fake = FakeTransport()
    fake.ports[PORT] = lambda _host, _port: Broken()
    fake.alive = False
    with pytest.raises(LinkLost):
        http.ask(fake, PORT, GET, tick=no_tick)


def test_a_tunnel_that_broke_on_a_good_link_is_no_answer() -> None:
    fake = FakeTransport()
    fake.ports[PORT] = lambda _host, _port: Broken()
    with pytest.raises(http.NoAnswer):
        http.ask(fake, PORT, GET, tick=no_tick)


def test_who_listens_hears_the_answer_grow(host: Callable[[Serve], FakeTransport]) -> None:
    heard: list[bytes] = []
    whole = threading.Event()

    def listen(body: bytes) -> None:
        heard.append(body)
        whole.set()

    def serve(link: socket.socket) -> None:
        link.recv(65536)
        link.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n")
        assert whole.wait(10), "the first piece is heard before there is a second one"
        link.sendall(b"1\r\nc\r\n0\r\n\r\n")

    assert http.ask(host(serve), PORT, GET, tick=no_tick, heard=listen).body == b"abc"
    assert heard == [b"ab", b"abc"]
