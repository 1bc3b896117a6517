"""A hook's request on real sockets: what is sent, what counts as done, and what is known when it is not."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from deployments.traffic.hook import KEY, Hook, How
from deployments.traffic.request import HookFailed, send
from lab.router import Router

WORKER = "http://10.0.0.9:30000"


def told(url: str, *, key: str = "", seconds: float = 5.0, ticks: list[int] | None = None, **more: str) -> str:
    hook = Hook(How.REQUEST, **({"method": "POST", "url": url} | more))
    answer = send(hook, key=key, seconds=seconds, tick=lambda: (ticks if ticks is not None else []).append(1))
    return f"{answer.status} {answer.text}"


@contextmanager
def says(text: bytes) -> Iterator[str]:
    """A server that answers one connection with ``text`` and then stays silent."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        kept: list[socket.socket] = []

        def serve() -> None:
            connection, _ = server.accept()
            kept.append(connection)
            connection.recv(65536)
            connection.sendall(text)

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/x"
        for connection in kept:
            connection.close()


def test_a_router_is_told_and_answers() -> None:
    with Router(backends={WORKER}) as router:
        assert told(f"{router.base}/remove_worker?url={WORKER}") == f'200 {{"ok": "{WORKER}"}}'
        assert router.backends == set()
        assert told(f"{router.base}/add_worker?url={WORKER}").startswith("200")
        assert router.backends == {WORKER}


def test_the_key_is_sent_in_its_place() -> None:
    with Router(key="s3cret-key") as router:
        url, header = f"{router.base}/add_worker?url={WORKER}", f"Authorization: Bearer {KEY}"
        with pytest.raises(HookFailed, match="answered 401") as failed:
            told(url)
        assert failed.value.reached
        assert told(url, key="s3cret-key", headers=header).startswith("200")


@pytest.mark.parametrize("status", [302, 404, 500])
def test_an_answer_that_says_no(status: int) -> None:
    with Router(refuses={"add_worker": status}) as router, pytest.raises(HookFailed) as failed:
        told(f"{router.base}/add_worker?url={WORKER}")
    assert failed.value.message == f'It answered {status}: {{"error": "not now"}}' and failed.value.reached


def test_nobody_listens_so_nothing_was_done() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(HookFailed, match="could not be reached from the panel's machine") as failed:
        told(f"http://127.0.0.1:{port}/x")
    assert not failed.value.reached


@pytest.mark.parametrize("text", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"])
def test_a_router_that_falls_silent_may_have_acted(text: bytes) -> None:
    ticks: list[int] = []
    with says(text) as url, pytest.raises(HookFailed, match="No answer") as failed:
        told(url, seconds=0.25, ticks=ticks)
    assert failed.value.reached and ticks, "the lease was renewed meanwhile"


def test_what_is_not_http() -> None:
    with says(b"SSH-2.0-OpenSSH_9.6\r\n") as url, pytest.raises(HookFailed, match="broke off") as failed:
        told(url, seconds=2.0)
    assert failed.value.reached
