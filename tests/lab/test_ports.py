"""The port verdict on real sockets, over real ssh and through pct: the truth is what lab/port_hold.py does there."""

import itertools
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import pytest

from deployments.decisions.port import PortVerdict
from deployments.plan.port import port_verdict
from hosts.keys import load_private_key
from hosts.probe.probe import SERVING, probe
from hosts.transport.base import PublicHostKey, Transport
from hosts.transport.pct import PctTransport
from hosts.transport.ssh import SshLogin, SshTarget, SshTransport, connect_ssh
from lab.fleet import Container, Fleet, Host

pytestmark = pytest.mark.lab

_ports = itertools.count(31000)


def connect(fleet: Fleet, host: Host) -> SshTransport:
    key_type, key_base64 = host.host_key_line.split()
    target = SshTarget(host.address, host.port, host.user, (PublicHostKey(key_type, key_base64),))
    return connect_ssh(target, login=SshLogin(key=load_private_key(fleet.client_key)), timeout=20)


@dataclass
class Place:
    """A machine and the panel's way to it."""

    fleet: Fleet
    machine: Host | Container
    transport: Transport

    def hold(self, kind: str, port: int) -> int:
        return self.fleet.faults.port_hold(self.machine, kind, port)

    def verdict(self, port: int) -> PortVerdict:
        facts = probe(self.transport, sections=(*SERVING, "port"), ports=[port], timeout=30)
        return port_verdict(facts, port)


@pytest.fixture(params=["ssh", "pct"])
def place(request: pytest.FixtureRequest, fleet: Fleet) -> Iterator[Place]:
    machine: Host | Container = fleet.host("gpu1") if request.param == "ssh" else fleet.container(129)
    with closing(connect(fleet, machine.node if isinstance(machine, Container) else machine)) as link:
        yield Place(fleet, machine, PctTransport(link, vmid=129) if isinstance(machine, Container) else link)
    fleet.faults.port_free(machine)
    fleet.faults.port_free(fleet.host("pve"))


@pytest.fixture
def port() -> int:
    """One for each test: what is left of a closed connection stays for a minute."""
    return next(_ports)


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        ("listens", "listens on every IPv4 address"),
        ("listens-one", "listens on 127.0.0.1"),
        ("listens-v6", "listens on every IPv6 address"),
        ("listens-both", "listens on every IPv6 address"),
        ("bound", "has bound every IPv4 address and does not listen"),
        ("bound-reuse", "has bound every IPv4 address and does not listen"),
        ("bound-one", "has bound 127.0.0.1 and does not listen"),
        ("connection", "uses it as its own end of a connection, from 127.0.0.1"),
    ],
)
def test_whoever_has_it_is_named(place: Place, port: int, kind: str, how: str) -> None:
    assert place.verdict(port) == PortVerdict(True)
    pid = place.hold(kind, port)
    verdict = place.verdict(port)
    assert verdict.free is False and how in verdict.text
    assert [(one.pid, one.user) for one in verdict.holders] == [(pid, "root")]
    assert f"port-hold {kind} {port}" in verdict.holders[0].name
    place.fleet.faults.port_free(place.machine)
    assert place.verdict(port).free is True


def test_of_two_that_share_it_both_are_named(place: Place, port: int) -> None:
    pids = {place.hold("twin", port), place.hold("twin", port)}
    assert {one.pid for one in place.verdict(port).holders} == pids


def test_closed_connections_do_not_keep_it(place: Place, port: int) -> None:
    place.hold("closed", port)
    verdict = place.verdict(port)
    assert verdict.free is True and "Closed connections are not quite gone" in verdict.text
    place.hold("listens", port)
    assert place.verdict(port).free is False


def test_unless_their_server_did_not_let_its_address_be_reused(place: Place, port: int) -> None:
    place.hold("closed-strict", port)
    verdict = place.verdict(port)
    assert verdict.free is False and not verdict.holders
    assert "one closed connection" in verdict.text and "comes free by itself" in verdict.text


def test_another_network_namespace_does_not_count(place: Place, port: int) -> None:
    place.hold("elsewhere", port)
    assert place.verdict(port) == PortVerdict(True)


def test_a_container_and_its_node_have_ports_of_their_own(fleet: Fleet, port: int) -> None:
    with closing(connect(fleet, fleet.host("pve"))) as link:
        node = Place(fleet, fleet.host("pve"), link)
        inside = Place(fleet, fleet.container(129), PctTransport(link, vmid=129))
        fleet.faults.port_hold(fleet.host("pve"), "listens", port)
        assert (node.verdict(port).free, inside.verdict(port).free) == (False, True)
        fleet.faults.port_free(fleet.host("pve"))
        fleet.faults.ct_port_hold(fleet.container(129), "bound", port)
        assert (node.verdict(port).free, inside.verdict(port).free) == (True, False)
        fleet.faults.ct_port_free(fleet.container(129))
