"""What pct complains about, told by its text."""

from pathlib import Path

import pytest

from hosts.transport.base import (
    CommandTimeout,
    ContainerError,
    ContainerLocked,
    ContainerMissing,
    ContainerRefused,
    ContainerStopped,
    PctMissing,
    Transport,
)
from hosts.transport.fake import FakeTransport, Reply
from hosts.transport.local import LocalTransport
from hosts.transport.pct import PctTransport

COMPLAINTS = [
    ("container '129' not running!", 255, ContainerStopped),
    (
        "lxc-attach: 129: ../src/lxc/attach.c: get_attach_context: 406 Connection refused - Failed to get init pid",
        1,
        ContainerStopped,
    ),
    ("Configuration file 'nodes/pve/lxc/129.conf' does not exist", 2, ContainerMissing),
    ("CT is locked (backup)", 255, ContainerLocked),
    ("can't lock file '/run/lock/lxc/pve-config-129.lock' - got timeout", 255, ContainerLocked),
    ("please run as root", 1, ContainerRefused),
    ("sudo: a password is required", 1, ContainerRefused),
    ("400 Parameter verification failed.\nvmid: type check ('integer') failed", 255, ContainerError),
    ("bash: line 1: pct: command not found", 127, PctMissing),
    ("pct: No such file or directory", 127, PctMissing),
]


def node_that_says(stderr: str, status: int) -> Transport:
    return FakeTransport().on("pct", reply=Reply(stderr=stderr.encode() + b"\n", exit_status=status))


@pytest.mark.parametrize(("text", "status", "kind"), COMPLAINTS)
def test_a_complaint_becomes_its_error(text: str, status: int, kind: type[ContainerError]) -> None:
    with pytest.raises(ContainerError) as caught:
        PctTransport(node_that_says(text, status), vmid=129).run(["true"], timeout=5)
    assert type(caught.value) is kind
    assert "129" in str(caught.value)


@pytest.mark.parametrize(("text", "status", "kind"), COMPLAINTS)
def test_a_stream_tells_it_too(text: str, status: int, kind: type[ContainerError]) -> None:
    with PctTransport(node_that_says(text, status), vmid=129).stream(["true"]) as stream:
        assert stream.read(timeout=1)
        with pytest.raises(kind):
            stream.read(timeout=1)


def test_a_commands_own_failure_is_its_own() -> None:
    node = FakeTransport().on("pct", reply=Reply(stderr=b"cat: /x: No such file\n", exit_status=1))
    assert PctTransport(node, vmid=129).run(["cat", "/x"], timeout=5).exit_status == 1


def test_the_command_has_its_path_and_its_two_dashes() -> None:
    node = FakeTransport().on("pct", reply=Reply())
    PctTransport(node, vmid=129).run(["nvidia-smi", "-L"], timeout=5)
    path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    assert node.commands() == [("pct", "exec", "129", "--", "env", path, "nvidia-smi", "-L")]


def test_sudo_goes_in_front_of_pct() -> None:
    node = FakeTransport().on("sudo", reply=Reply())
    PctTransport(node, vmid=129, sudo=True).run(["true"], timeout=5)
    assert node.commands()[0][:5] == ("sudo", "-n", "pct", "exec", "129")


@pytest.mark.long
def test_a_frozen_container_is_a_time_out_that_says_so(fake_pct: Path) -> None:
    with pytest.raises(CommandTimeout) as caught:
        PctTransport(LocalTransport(), vmid=133).run(["true"], timeout=0.5)
    assert "frozen" in caught.value.hint


def test_a_machine_without_pct_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(PctMissing):
        PctTransport(LocalTransport(), vmid=129).run(["true"], timeout=5)
