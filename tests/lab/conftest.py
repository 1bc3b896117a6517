"""A small fleet for the tests of this directory: two hosts, one without a driver, and a node with containers."""

import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import pytest

from lab import namespaces
from lab.fleet import L40S, CardSpec, Container, ContainerSpec, Fleet, Host, HostSpec, Node, NodeSpec

OPTIONS = (
    "StrictHostKeyChecking=no",
    "UserKnownHostsFile=/dev/null",
    "LogLevel=ERROR",
    "IdentitiesOnly=yes",
    "KexAlgorithms=curve25519-sha256",  # a third of the time of the default
)

ODD_CARDS = [
    CardSpec(name="NVIDIA H200", memory_mib=143771, reserved_mib=614, mig=("3g.71gb", "1g.18gb")),
    CardSpec(name="NVIDIA GB10", memory_mib=122572, kind="unified", bus_id="0000000F:01:00.0"),
    CardSpec(name="NVIDIA GeForce RTX 4080 SUPER", memory_mib=16376, reserved_mib=434, kind="desktop"),
]


class Ssh(Protocol):
    def __call__(
        self, host: Host, command: str, *, user: str = "root", stdin: str = "", key: Path | None = None
    ) -> "subprocess.CompletedProcess[str]": ...


def wait_for(condition: Callable[[], object], *, timeout: float = 10) -> None:
    """Poll until true; fails the test after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.01)


def ssh_words(host: Host, *, key: Path, user: str = "root", extra: Sequence[str] = ()) -> list[str]:
    options = [word for option in OPTIONS for word in ("-o", option)]
    return ["ssh", "-i", str(key), *options, *extra, f"{user}@{host.address}"]


@pytest.fixture(scope="package")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    if not namespaces.is_inside():
        pytest.fail(
            "These tests need the simulated fleet: run them by `python -m lab enter -- pytest tests/lab`.",
            pytrace=False,
        )
    containers = {
        129: ContainerSpec(name="llm-gpu", cards=[0, 1]),
        130: ContainerSpec(name="other", cards=(), running=False),
    }
    with Fleet(
        tmp_path_factory.mktemp("fleet"),
        hosts=[
            HostSpec(name="gpu1", cards=[L40S] * 2, disk_mib=64),
            HostSpec(name="bare", driver=False),
            HostSpec(name="swapped", cards=[CardSpec(minor=5), CardSpec(minor=2)]),
            HostSpec(name="odd", cards=ODD_CARDS),
        ],
        nodes=[
            NodeSpec(name="pve", cards=[CardSpec(memory_mib=97887)] * 4, containers=containers),
            NodeSpec(
                name="pve2",
                cards=[CardSpec(minor=minor) for minor in (3, 2, 1, 0)],
                containers={231: ContainerSpec(name="last-two", cards=[2, 3])},
            ),
        ],
    ) as running:
        yield running


@pytest.fixture
def gpu1(fleet: Fleet) -> Host:
    return fleet.host("gpu1")


@pytest.fixture
def pve(fleet: Fleet) -> Node:
    return fleet.node("pve")


@pytest.fixture
def ct129(fleet: Fleet) -> Container:
    return fleet.container(129)


@pytest.fixture
def ssh(fleet: Fleet) -> Ssh:
    """Run a command line on a host through the real ssh client."""

    def run(
        host: Host, command: str, *, user: str = "root", stdin: str = "", key: Path | None = None
    ) -> "subprocess.CompletedProcess[str]":
        words = [*ssh_words(host, key=key or fleet.client_key, user=user), command]
        return subprocess.run(words, input=stdin, capture_output=True, text=True, timeout=30)

    return run
