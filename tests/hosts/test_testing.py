"""The connection test: each finding in words, with what to do about it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from hosts import links, testing
from hosts.forms import HostForm
from hosts.models import Gpu, Host, HostTest
from hosts.probe.facts import HostFacts
from hosts.probe.fake import answer, is_probe
from hosts.probe.frames import Unknown
from hosts.transport.base import (
    AuthenticationError,
    ContainerStopped,
    HostKeyUnknown,
    LinkLost,
    PublicHostKey,
    TransportError,
)
from hosts.transport.fake import FakeTransport, Reply
from tests.deployments.machine import Machine, Proc, idle_machine
from tests.factories import make_host

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _keep_the_tests_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testing, "close_old_connections", lambda: None)


def run(
    monkeypatch: pytest.MonkeyPatch,
    machine: Machine,
    *,
    refuses: TransportError | None = None,
    missing_tools: str = "",
    breaks: bool | TransportError = False,
    host: Host | None = None,
) -> dict[str, dict[str, str]]:
    """Test a host that is ``machine``; the findings by label."""
    fake = FakeTransport()
    fake.on(
        is_probe, reply=(LinkLost("gone") if breaks is True else breaks) if breaks else answer(machine.sections((".",)))
    )
    fake.on("sh", "-c", reply=Reply(stdout=missing_tools.encode()))

    @contextlib.contextmanager
    def borrow(host: Host) -> Iterator[FakeTransport]:
        if refuses is not None:
            raise refuses
        yield fake

    monkeypatch.setattr(links, "borrow", borrow)
    test = HostTest.objects.create(host=host or make_host(reach=Host.Reach.UNKNOWN))
    testing.run_test(test.pk)
    test.refresh_from_db()
    assert test.started_at is not None and test.finished_at is not None
    return {finding["label"]: finding for finding in test.findings}


def test_a_host_that_is_all_right(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = idle_machine().add(Proc(9, 90, "trainer", "python train.py", cards=(0,)))
    found = run(monkeypatch, machine)
    assert {label: finding["status"] for label, finding in found.items()} == {
        "Connection": "ok", "Host": "ok", "Cards": "ok", "Who holds the cards": "ok", "Disk": "ok", "Tools": "ok",
    }  # fmt: skip
    assert "gpu-machine" in found["Host"]["detail"]
    assert "2 x NVIDIA L40S" in found["Cards"]["detail"]
    assert found["Who holds the cards"]["detail"] == "1 processes: python train.py."
    assert Gpu.objects.count() == 2 and Host.objects.get().reach == Host.Reach.REACHABLE


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (AuthenticationError("The login was refused."), "authorized_keys"),
        (HostKeyUnknown("The key is not trusted.", key=PublicHostKey("ssh-ed25519", "AAAA")), "fingerprint"),
    ],
)
def test_a_host_that_lets_nobody_in(monkeypatch: pytest.MonkeyPatch, error: TransportError, hint: str) -> None:
    found = run(monkeypatch, idle_machine(), refuses=error)
    assert found["Connection"]["status"] == "not ok" and found["Connection"]["detail"] == str(error)
    assert hint in found["Connection"]["hint"]
    host = Host.objects.get()
    assert host.reach == Host.Reach.UNREACHABLE
    assert host.keys.count() == (1 if isinstance(error, HostKeyUnknown) else 0)


def test_a_link_that_breaks_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, idle_machine(), breaks=True)["Connection"]["status"] == "not ok"


@pytest.mark.parametrize(
    ("section", "content", "label", "status", "words"),
    [
        ("host", None, "Host", "unknown", "POSIX shell"),
        ("gpus", ("nvidia-smi: not found", 127), "Cards", "not ok", "NVIDIA driver"),
        ("fds", None, "Who holds the cards", "unknown", ""),
        ("disk.0", None, "Disk", "unknown", ""),
    ],
)
def test_what_is_wrong_is_found(
    monkeypatch: pytest.MonkeyPatch, section: str, content: tuple[str, int] | None, label: str, status: str, words: str
) -> None:
    machine = idle_machine()
    machine.broken[section] = content
    finding = run(monkeypatch, machine)[label]
    assert finding["status"] == status and words in finding["hint"] and finding["detail"]


def test_a_login_that_may_not_see_all(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = idle_machine()
    machine.partial = True
    finding = run(monkeypatch, machine)["Who holds the cards"]
    assert finding["status"] == "unknown"
    assert finding["hint"].startswith("Log in as root") and str(HostForm().fields["sudo"].label) in finding["hint"]


def test_a_full_disk_and_missing_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = idle_machine()
    machine.free_mib = 63
    found = run(monkeypatch, machine, missing_tools="flock\nawk\n")
    assert found["Disk"]["status"] == "not ok" and "63 MiB" in found["Disk"]["detail"]
    assert found["Tools"]["detail"] == "Missing: flock, awk."
    assert found["Tools"]["hint"] == "Install util-linux, mawk or gawk on the host."


def test_rung_twice_it_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    run(monkeypatch, idle_machine())
    test = HostTest.objects.get()
    testing.run_test(test.pk)
    testing.run_test(12345)
    again = HostTest.objects.get()
    assert again.findings == test.findings and again.finished_at == test.finished_at


def test_a_container_that_does_not_run_was_not_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is open is the link of its node: said as "Connected" it would stand above "is not running"."""
    box = make_host(name="ct", transport="pct", via=make_host(name="pve"), vmid=130, address="")
    stopped = ContainerStopped("Container 130 is not running.")
    found = run(monkeypatch, idle_machine(), host=box, breaks=stopped)
    test = HostTest.objects.get()
    assert len(test.findings) == 1 and found["Connection"]["status"] == "not ok"
    box.refresh_from_db()
    assert box.is_off
    found = run(monkeypatch, idle_machine(), host=box)
    assert found["Connection"] == {
        "label": "Connection",
        "status": "ok",
        "detail": "Connected to container 130 of pve.",
        "hint": "",
    }


@pytest.mark.parametrize(
    ("seconds", "words"), [(3_600, "up for 1 h."), (600, "up for 10 min."), (400_000, "up for 4 d.")]
)
def test_how_long_it_is_up_reads_as_a_sentence(monkeypatch: pytest.MonkeyPatch, seconds: float, words: str) -> None:
    read = testing.probe

    def probe(*args: Any, **values: Any) -> HostFacts:
        found = read(*args, **values)
        assert not isinstance(found.host, Unknown)
        return replace(found, host=replace(found.host, uptime_seconds=seconds))

    monkeypatch.setattr(testing, "probe", probe)
    assert run(monkeypatch, idle_machine())["Host"]["detail"].endswith(words)
