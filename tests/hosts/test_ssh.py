"""What only a real SSH server can do to us."""

import signal
import socket
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from hosts.keys import load_private_key
from hosts.transport.base import (
    AddressError,
    AuthenticationError,
    BannerError,
    CommandTimeout,
    ConnectRefused,
    ConnectTimeout,
    ForwardingForbidden,
    HostKeyChanged,
    HostKeyUnknown,
    LinkDown,
    LinkLost,
)
from hosts.transport.ssh import SshLogin, SshTarget, connect_ssh
from tests.hosts.conftest import Sshd, free_port, make_key, running_sshd, wait_until
from tests.hosts.transport_contract import echo_server

pytestmark = pytest.mark.process


def test_an_unknown_host_key_is_refused_and_shown(sshd: Sshd) -> None:
    with pytest.raises(HostKeyUnknown) as caught:
        connect_ssh(sshd.target(pinned=()), login=sshd.login(), timeout=10)
    assert caught.value.key == sshd.host_key
    assert caught.value.key.fingerprint.startswith("SHA256:")


def test_a_changed_host_key_is_refused_with_both_keys(sshd: Sshd, tmp_path: Path) -> None:
    other = make_key(tmp_path / "other")
    with pytest.raises(HostKeyChanged) as caught:
        connect_ssh(sshd.target(pinned=(other,)), login=sshd.login(), timeout=10)
    assert (caught.value.expected, caught.value.key) == ((other,), sshd.host_key)


def test_a_host_key_of_another_kind_counts_as_changed(sshd: Sshd, tmp_path: Path) -> None:
    other = make_key(tmp_path / "other", "-t", "ecdsa")
    with pytest.raises(HostKeyChanged):
        connect_ssh(sshd.target(pinned=(other,)), login=sshd.login(), timeout=10)


def test_a_refused_login_is_tried_once(own_sshd: Sshd, tmp_path: Path) -> None:
    make_key(tmp_path / "stranger")
    login = SshLogin(key=load_private_key(tmp_path / "stranger"))
    with pytest.raises(AuthenticationError) as caught:
        connect_ssh(own_sshd.target(), login=login, timeout=10)
    assert "authorized_keys" in caught.value.hint
    assert own_sshd.log.read_text().count("Connection from") - 1 == 1  # the other one is the fixture's look


def test_no_key_at_all_is_a_refused_login(sshd: Sshd) -> None:
    with pytest.raises(AuthenticationError):
        connect_ssh(sshd.target(), login=SshLogin(), timeout=10)


def test_a_closed_port_refuses() -> None:
    target = SshTarget("127.0.0.1", free_port(), "root", allow_local=True)
    with pytest.raises(ConnectRefused):
        connect_ssh(target, login=SshLogin(), timeout=5)


def test_this_machine_is_no_ssh_host_unless_allowed() -> None:
    with pytest.raises(AddressError):
        connect_ssh(SshTarget("127.0.0.1", 22, "root"), login=SshLogin(), timeout=5)


def test_a_name_that_leads_to_this_machine_is_refused_too() -> None:
    with pytest.raises(AddressError):
        connect_ssh(SshTarget("localhost", 22, "root"), login=SshLogin(), timeout=5)


def test_a_server_of_another_kind_is_told_apart() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for _ in range(2):
                link, _ = server.accept()
                link.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")
                link.close()

        threading.Thread(target=serve, daemon=True).start()
        target = SshTarget("127.0.0.1", server.getsockname()[1], "root", allow_local=True)
        with pytest.raises(BannerError):
            connect_ssh(target, login=SshLogin(), timeout=10)


def test_a_server_that_says_nothing_meets_our_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        target = SshTarget("127.0.0.1", server.getsockname()[1], "root", allow_local=True)
        begun = time.monotonic()
        with pytest.raises(ConnectTimeout):
            connect_ssh(target, login=SshLogin(), timeout=1)
        assert time.monotonic() - begun < 4


def test_a_lost_link_is_not_an_end(own_sshd: Sshd) -> None:
    link = own_sshd.connect()
    with link.stream(["sh", "-c", "echo ready; sleep 30"]) as stream:
        assert stream.read(timeout=10) == b"ready\n"
        own_sshd.signal_sessions(signal.SIGKILL)
        with pytest.raises(LinkLost):
            while stream.read(timeout=10) != b"":
                pass
    assert not link.is_alive(timeout=2)
    with pytest.raises(LinkDown):
        link.run(["true"], timeout=5)
    link.close()


def test_a_link_lost_while_a_command_runs(own_sshd: Sshd) -> None:
    link = own_sshd.connect()
    killed = False

    def tick() -> None:
        nonlocal killed
        if not killed:
            own_sshd.signal_sessions(signal.SIGKILL)
            killed = True

    with pytest.raises(LinkLost):
        link.run(["sleep", "30"], timeout=20, tick=tick)
    link.close()


def test_a_frozen_server_meets_our_deadline(own_sshd: Sshd) -> None:
    link = own_sshd.connect()
    own_sshd.signal_sessions(signal.SIGSTOP)
    begun = time.monotonic()
    with pytest.raises(CommandTimeout):
        link.run(["true"], timeout=1.5)
    assert not link.is_alive(timeout=1)
    link.close()
    assert time.monotonic() - begun < 7


def test_a_frozen_server_cannot_hold_a_large_write(own_sshd: Sshd) -> None:
    link = own_sshd.connect()
    ticks: list[float] = []

    def tick() -> None:
        if not ticks:
            own_sshd.signal_sessions(signal.SIGSTOP)
        ticks.append(time.monotonic())

    with pytest.raises(CommandTimeout):
        link.run(["sh", "-c", "sleep 2; cat"], stdin=b"x" * 20_000_000, timeout=4, tick=tick)
    assert max(later - earlier for earlier, later in pairwise(ticks)) <= 1.0
    link.close()


def test_connecting_to_a_frozen_server_meets_our_deadline(own_sshd: Sshd) -> None:
    own_sshd.process.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(ConnectTimeout):
            own_sshd.connect(timeout=1.5)
    finally:
        own_sshd.process.send_signal(signal.SIGCONT)


def test_a_port_is_reached_by_a_relay_where_forwarding_is_off(closed_sshd: Sshd) -> None:
    link = closed_sshd.connect()
    with pytest.raises(ForwardingForbidden):
        link.open_channel_to("127.0.0.1", 1, timeout=5)
    with echo_server() as port:
        tunnel = link.open_tcp(port, timeout=10)
        tunnel.settimeout(10)
        tunnel.sendall(b"hello")
        assert tunnel.recv(100) == b"HELLO"
        tunnel.close()
    with pytest.raises(ConnectRefused):
        link.open_tcp(1, timeout=10)
    link.close()


def test_one_host_is_reached_through_another(sshd: Sshd, own_sshd: Sshd) -> None:
    jump = sshd.connect()
    link = connect_ssh(own_sshd.target(), login=own_sshd.login(), timeout=10, via=jump)
    assert link.run(["cat"], stdin=b"x" * 300_000, timeout=10).stdout == b"x" * 300_000
    link.close()
    assert not jump.is_alive(timeout=1)


def test_weak_algorithms_are_not_offered(tmp_path: Path) -> None:
    with (
        running_sshd(tmp_path, extra="Ciphers aes128-cbc\nMACs hmac-sha1") as server,
        pytest.raises(BannerError),
    ):
        server.connect(timeout=5)


@pytest.fixture
def narrow_sshd(tmp_path: Path) -> Iterator[Sshd]:
    with running_sshd(tmp_path, extra="MaxSessions 2") as server:
        yield server


def test_channels_are_given_back(narrow_sshd: Sshd) -> None:
    link = narrow_sshd.connect()
    for _ in range(12):
        assert link.run(["true"], timeout=10).exit_status == 0
    link.close()


def test_a_stream_that_is_closed_gives_its_channel_back(sshd: Sshd) -> None:
    link = sshd.connect()
    for _ in range(12):
        with link.stream(["echo", "on"]) as stream:
            assert stream.read(timeout=10) == b"on\n"
            assert stream.read(timeout=10) == b""
    assert link.run(["true"], timeout=10).exit_status == 0
    assert link.is_alive(timeout=5)
    link.close()


def test_a_link_worn_out_by_commands_that_never_end_says_so(narrow_sshd: Sshd) -> None:
    link = narrow_sshd.connect()
    for _ in range(2):
        with pytest.raises(CommandTimeout):
            link.run(["sleep", "20"], timeout=0.5)
    wait_until(lambda: not link.is_alive(timeout=2), seconds=5, what="the link says it is worn out")
    with pytest.raises(LinkDown):
        link.run(["true"], timeout=5)
    link.close()
