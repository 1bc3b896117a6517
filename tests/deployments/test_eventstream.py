"""A streamed answer, piece by piece, over a scripted connection."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from deployments import eventstream
from deployments.engines.request import HttpRequest
from deployments.eventstream import Line, Refused, Stopped
from deployments.http import NoAnswer
from hosts.transport.base import ConnectRefused

ASK = HttpRequest("POST", "/generate", {"text": "A"}, timeout=5.0)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"
Answer = bytes | BaseException | None


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


class Tunnel:
    """Says ``answers`` one after the other; None is a silence."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.sent: list[bytes] = []
        self.closed = False

    def sendall(self, data: bytes) -> None:
        self.sent.append(data)

    def recv(self, n: int) -> bytes:
        answer = self.answers.pop(0) if self.answers else b""
        if isinstance(answer, BaseException):
            raise answer
        if answer is None:
            raise TimeoutError
        return answer

    def settimeout(self, seconds: float | None) -> None:
        pass

    def close(self) -> None:
        self.closed = True


def line(*tunnels: Tunnel, stop: Callable[[], bool] = lambda: False) -> Line:
    left = list(tunnels)

    def open_tunnel() -> Tunnel:
        if not left:
            raise ConnectRefused("Port 30000: nothing listens there.")
        return left.pop(0)

    return Line(open_tunnel, 30000, stop=stop)


def told(of: Line, request: HttpRequest = ASK, key: str = "") -> list[dict[str, object]]:
    return [dict(piece) for _, piece in of.ask(request, key=key)]


def test_pieces_come_one_by_one_however_they_are_cut() -> None:
    whole = chunk(b'data: {"n": 1}\n\n') + chunk(b'data: {"n": 2}\r\n\r\n: ping\n\ndata: [DONE]\n\n') + END
    for cut in (1, 7, 40, len(whole)):
        pieces = [whole[at : at + cut] for at in range(0, len(whole), cut)]
        assert told(line(Tunnel(HEAD, *pieces))) == [{"n": 1}, {"n": 2}]


def test_the_moment_of_a_piece_is_when_its_bytes_came(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(100))
    monkeypatch.setattr(eventstream.time, "monotonic", lambda: float(next(clock)))
    of = line(Tunnel(HEAD + chunk(b'data: {"n": 1}\n'), chunk(b'data: {"n": 2}\ndata: {"n": 3}\n'), END))
    first, second, third = (at for at, _ in of.ask(HttpRequest("POST", "/generate", {}, timeout=1000)))
    assert of.sent < first < second == third


def test_an_answer_that_is_not_streamed_is_one_piece() -> None:
    of = line(Tunnel(b'HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n{"n": 1}'))
    assert told(of) == [{"n": 1}] and not of.streamed


def test_a_connection_that_the_server_keeps_open_carries_the_next_request() -> None:
    tunnel = Tunnel(HEAD + chunk(b'data: {"n": 1}\n') + END, HEAD + chunk(b'data: {"n": 2}\n') + END)
    of = line(tunnel)
    assert told(of) == [{"n": 1}] and told(of) == [{"n": 2}]
    assert not tunnel.closed and len(tunnel.sent) == 2


def test_one_that_is_not_to_be_kept_says_so_and_is_closed() -> None:
    first, second = (Tunnel(HEAD + chunk(b'data: {"n": 1}\n') + END) for _ in range(2))
    left = [first, second]
    of = Line(lambda: left.pop(0), 30000, stop=lambda: False, keep=False)
    assert told(of) == told(of) == [{"n": 1}]
    assert first.closed and b"Connection: close" in first.sent[0] and len(second.sent) == 1


def test_one_that_the_server_closes_is_opened_anew() -> None:
    first = Tunnel(b'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 8\r\n\r\n{"n": 1}')
    of = line(first, Tunnel(HEAD + chunk(b'data: {"n": 2}\n') + END))
    assert told(of) == [{"n": 1}] and first.closed and told(of) == [{"n": 2}]


@pytest.mark.parametrize("gone", [b"", ConnectionResetError("reset")])
def test_one_that_was_closed_while_it_was_idle_is_not_a_failed_request(gone: Answer) -> None:
    idle = Tunnel(gone)
    of = line(idle, Tunnel(HEAD + chunk(b'data: {"n": 2}\n') + END))
    of.open()
    assert told(of) == [{"n": 2}] and idle.closed


def test_a_server_that_closes_every_connection_gives_no_answer() -> None:
    with pytest.raises(NoAnswer, match="closed the connection without an answer"):
        told(line(Tunnel(b"")))


def test_another_status_tells_what_the_server_said() -> None:
    tunnel = Tunnel(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 7\r\n\r\nno room")
    with pytest.raises(Refused, match="status 503: no room"):
        told(line(tunnel))
    assert tunnel.closed


@pytest.mark.parametrize(
    "answers", [(b"SSH-2.0-OpenSSH\r\n",), (HEAD + chunk(b'data: {"n": 1}\n'), b""), (HEAD, ConnectionResetError("x"))]
)
def test_what_is_cut_or_no_http_is_no_answer(answers: tuple[Answer, ...]) -> None:
    tunnel = Tunnel(*answers)
    with pytest.raises(NoAnswer, match="did not answer /generate as HTTP"):
        told(line(tunnel))
    assert tunnel.closed


def test_a_stop_is_heeded_while_nothing_comes_and_hangs_up() -> None:
    tunnel = Tunnel(HEAD, None, None)
    asked = iter([False, False, True])
    with pytest.raises(Stopped):
        told(line(tunnel, stop=lambda: next(asked)))
    assert tunnel.closed


def test_the_key_is_sent_and_shown_to_nobody() -> None:
    tunnel = Tunnel(HEAD + END)
    told(line(tunnel), key="sk-secret")
    assert b"Authorization: Bearer sk-secret" in tunnel.sent[0]
    with pytest.raises(Refused) as refused:
        told(line(Tunnel(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno")), key="sk-secret")
    assert "sk-secret" not in str(refused.value)


def test_a_port_without_a_listener_is_told_as_it_is() -> None:
    with pytest.raises(ConnectRefused):
        told(line())


def test_no_answer_in_time() -> None:
    with pytest.raises(NoAnswer, match="No whole answer in time"):
        told(line(Tunnel(HEAD, *[None] * 9)), HttpRequest("POST", "/generate", {}, timeout=-1.0))
