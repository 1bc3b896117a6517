"""What sudo says instead of doing it, as a sentence; and a look that it does not allow."""

import pytest

from hosts.probe.probe import probe, watch
from hosts.sudo import refusal
from hosts.transport.base import LinkLost, SudoRefused
from hosts.transport.fake import FakeTransport, Reply

ASKS = b"sudo: a password is required\n"


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (ASKS, "sudo asks for a password on this host."),
        (b"sh: 1: sudo: not found\n", "There is no sudo on this host."),
        (b"bash: line 1: sudo: command not found\n", "There is no sudo on this host."),
        (b"noise\nsudo: sorry, you must have a tty to run sudo\n", "sorry, you must have a tty"),
        (b"sudo: Ein Passwort ist notwendig\n", "sudo does not let the login in: Ein Passwort ist notwendig."),
        (b"sudo: unable to resolve host gpu1: Name or service not known\n" + ASKS, "sudo asks for a password"),
        (b"sudo: a terminal is required to read the password\n" + ASKS, "sudo asks for a password on this host."),
        (b"sudo: unable to resolve host gpu1\nbash: no such file\n", ""),
        (b"", ""),
        (b"\n@relaunch x begin\n my sudo: in a name\n", ""),
    ],
)
def test_what_sudo_says(output: bytes, words: str) -> None:
    assert words in refusal(output) if words else refusal(output) == ""


def test_a_look_that_sudo_refuses_is_said_to_be_that() -> None:
    host = FakeTransport().on("sudo", reply=Reply(stderr=ASKS, exit_status=1))
    with pytest.raises(SudoRefused, match="asks for a password") as refused:
        probe(host, sections=["host"], timeout=5, sudo=True)
    assert "NOPASSWD: ALL" in refused.value.hint and "/etc/sudoers.d" in refused.value.hint


def test_a_watch_that_sudo_refuses_is_said_to_be_that() -> None:
    host = FakeTransport().on("sudo", reply=Reply(chunks=(ASKS[:9], ASKS[9:])))
    with pytest.raises(SudoRefused, match="asks for a password"):
        list(watch(host, sections=["host"], every=1, slot="s", sudo=True))


def test_without_sudo_the_same_words_are_just_no_answer() -> None:
    host = FakeTransport().on("sh", reply=Reply(stderr=ASKS, exit_status=1))
    probe(host, sections=["host"], timeout=5)
    host = FakeTransport().on("sh", reply=Reply(chunks=(ASKS,)))
    with pytest.raises(LinkLost):
        list(watch(host, sections=["host"], every=1, slot="s"))
