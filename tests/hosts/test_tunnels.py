"""How many links it takes to have many connections at once."""

from __future__ import annotations

import threading

import pytest

from hosts.transport.base import ByteTunnel, LinkBusy
from hosts.transport.fake import FakeTransport, Reply
from hosts.transport.relay import StreamTunnel
from hosts.tunnels import ON_LENT_LINK, ON_OWN_LINK, Tunnels

PORT = 30000


class Direct:
    """A forwarded port."""

    def sendall(self, data: bytes) -> None: ...

    def recv(self, n: int) -> bytes:
        return b""

    def settimeout(self, seconds: float | None) -> None: ...

    def close(self) -> None: ...


def relayed(transport: FakeTransport) -> FakeTransport:
    """Each of its connections is a command."""
    transport.on("sh", reply=Reply(stdout=b"relay"))

    def connect(host: str, port: int) -> ByteTunnel:
        return StreamTunnel(transport.stream(["sh"], keep_stdin_open=True))

    transport.ports[PORT] = connect
    return transport


class Opened:
    """Further links, and how many there were."""

    def __init__(self) -> None:
        self.links: list[FakeTransport] = []

    def __call__(self) -> FakeTransport:
        self.links.append(relayed(FakeTransport()))
        return self.links[-1]


def test_forwarded_ports_need_no_further_link() -> None:
    lent, more = FakeTransport(), Opened()
    lent.ports[PORT] = lambda _host, _port: Direct()
    with Tunnels(lent, open_link=more) as tunnels:
        tunnels.prepare(PORT, 64, timeout=1)
        for _ in range(64):
            tunnels.open(PORT, timeout=1)
    assert more.links == [] and not lent.closed


@pytest.mark.parametrize(("at_once", "links"), [(1, 0), (ON_LENT_LINK, 0), (ON_LENT_LINK + 1, 1), (32, 4)])
def test_commands_are_spread_over_as_many_links_as_it_takes(at_once: int, links: int) -> None:
    lent, more = relayed(FakeTransport()), Opened()
    with Tunnels(lent, open_link=more) as tunnels:
        tunnels.prepare(PORT, at_once, timeout=1)
        for _ in range(at_once):
            tunnels.open(PORT, timeout=1)
        assert len(more.links) == links
        assert all(link.counters.execs <= ON_OWN_LINK for link in more.links)
        assert lent.counters.execs <= ON_LENT_LINK + 1, "one to see what a connection is"
    assert all(link.closed for link in more.links) and not lent.closed


def test_a_closed_connection_gives_its_room_back_once() -> None:
    with Tunnels(relayed(FakeTransport()), open_link=Opened()) as tunnels:
        tunnels.prepare(PORT, 1, timeout=1)
        held = [tunnels.open(PORT, timeout=1) for _ in range(ON_LENT_LINK)]
        with pytest.raises(LinkBusy):
            tunnels.open(PORT, timeout=1)
        held[0].close()
        held[0].close()
        tunnels.open(PORT, timeout=1)
        with pytest.raises(LinkBusy):
            tunnels.open(PORT, timeout=1)


def test_a_connection_that_fails_takes_no_room() -> None:
    lent = relayed(FakeTransport())
    with Tunnels(lent, open_link=Opened()) as tunnels:
        tunnels.prepare(PORT, 1, timeout=1)
        connect = lent.ports.pop(PORT)
        for _ in range(ON_LENT_LINK + 1):
            with pytest.raises(Exception, match="nothing listens"):
                tunnels.open(PORT, timeout=1)
        lent.ports[PORT] = connect
        tunnels.open(PORT, timeout=1)


def test_threads_never_get_more_room_than_there_is() -> None:
    more = Opened()
    with Tunnels(relayed(FakeTransport()), open_link=more) as tunnels:
        tunnels.prepare(PORT, 16, timeout=1)
        room = ON_LENT_LINK + ON_OWN_LINK * len(more.links)
        held: list[ByteTunnel] = []
        threads = [threading.Thread(target=lambda: held.append(tunnels.open(PORT, timeout=1))) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(held) == 16 <= room
