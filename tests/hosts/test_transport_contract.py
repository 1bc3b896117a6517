"""The one contract, against every transport that ships."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hosts.transport.base import Transport
from hosts.transport.fake import FakeTransport
from hosts.transport.local import LocalTransport
from hosts.transport.pct import PctTransport
from tests.hosts.conftest import Sshd
from tests.hosts.fake_script import contract_fake
from tests.hosts.transport_contract import TransportContract, echo_server

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def echo_port() -> Iterator[int]:
    with echo_server() as port:
        yield port


class TestLocal(TransportContract):
    @pytest.fixture
    def transport(self) -> Transport:
        return LocalTransport()


class TestSsh(TransportContract):
    @pytest.fixture
    def transport(self, sshd: Sshd) -> Iterator[Transport]:
        link = sshd.connect()
        yield link
        link.close()


class TestPctOverLocal(TransportContract):
    @pytest.fixture
    def transport(self, fake_pct: Path) -> Transport:
        return PctTransport(LocalTransport(), vmid=129)


class TestFake(TransportContract):
    @pytest.fixture
    def transport(self, echo_port: int) -> FakeTransport:
        return contract_fake(echo_port)
