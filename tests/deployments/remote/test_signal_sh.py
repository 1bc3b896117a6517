"""Who may signal whom: the login its own, root by sudo the others', and nobody a process that is not that one."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deployments.remote import script
from deployments.remote.script import Said
from tests.deployments.remote.shell import Host, lives, said_of, sent, start_time, temporary_host, wait_for

pytestmark = pytest.mark.process

NOBODY = 65534
PARTS = [Path(script.__file__).with_name(name) for name in ("process.sh", "signal.sh")]
root_only = pytest.mark.skipif(os.getuid() != 0, reason="only root can be two users")


def sleeper(host: Host) -> tuple[int, int]:
    pid = host.spawn("sleep", "60")
    return pid, start_time(pid)


def signal_it(host: Host, who: tuple[int, int], *, sudo: str, preexec: Callable[[], None] | None = None) -> list[Said]:
    word = f"{who[0]}:{who[1]}"
    values = {"signal": "TERM", "targets": word, "watched": word, "through": "", "seconds_max": 1, "sudo": sudo}
    return host.run(host.script("signal", "stop", **values), preexec=preexec)


def as_nobody() -> None:
    """For a child."""
    os.setgid(NOBODY)
    os.setuid(NOBODY)


@pytest.fixture
def open_host() -> Iterator[Host]:
    """A home that another user may use too, with all above it."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o777)
        with temporary_host(Path(directory)) as made:
            yield made


def test_an_own_process_needs_no_sudo(host: Host) -> None:
    host.program("sudo", f"touch {host.home}/asked")
    who = sleeper(host)
    assert sent(signal_it(host, who, sudo="1")) == [f"TERM {who[0]}"]
    assert not (host.home / "asked").exists() and not lives(who[0])


def test_a_line_break_in_its_name_makes_no_process_gone(host: Host) -> None:
    """The kernel writes it as it is, so that its fields stand in the second line."""
    name = "import ctypes, time; ctypes.CDLL(None).prctl(15, b'\\n77 (x', 0, 0, 0); time.sleep(60)"
    pid = host.spawn(sys.executable, "-S", "-c", name)
    wait_for(lambda: Path(f"/proc/{pid}/comm").read_bytes() == b"\n77 (x\n", what="its new name")
    assert sent(signal_it(host, (pid, start_time(pid)), sudo="")) == [f"TERM {pid}"]
    assert not lives(pid)


@root_only
@pytest.mark.parametrize(
    ("sudo", "program", "word", "text"),
    [
        ("", "exit 0", "denied", ""),
        ("1", "echo 'sudo: a password is required' >&2; exit 1", "nosudo", " sudo: a password is required"),
        ("1", "echo one; echo 'sudo: no tty present' >&2; exit 1", "nosudo", " sudo: no tty present"),
        ("1", "exit 127", "nosudo", ""),
        ("1", 'shift; exec "$@"', "denied", ""),
    ],
)
def test_anothers_process(open_host: Host, sudo: str, program: str, word: str, text: str) -> None:
    open_host.program("sudo", program)
    who = sleeper(open_host)
    said = signal_it(open_host, who, sudo=sudo, preexec=as_nobody)
    assert said_of(said, word) == [f"{who[0]}{text}"]
    assert lives(who[0])


def by_root(who: tuple[int, int]) -> int:
    """What the shell of root's is sent."""
    code = f'. {PARTS[0]}; . {PARTS[1]}; sh -c "$BY_ROOT" sh KILL {who[0]} {who[1]}'
    return subprocess.run(["sh", "-c", code], check=False, timeout=20).returncode


def test_root_looks_once_more_who_it_is(host: Host) -> None:
    pid, start = sleeper(host)
    assert by_root((pid, start + 1)) == 3 and lives(pid)
    assert by_root((pid, start)) == 0
    wait_for(lambda: not lives(pid), what="its end")
    assert by_root((pid, start)) == 3


@root_only
def test_what_not_even_root_may(open_host: Host) -> None:
    who = sleeper(open_host)
    copy = open_host.home / "signal.sh"
    copy.write_text("".join(part.read_text() for part in PARTS))
    code = f'. {copy}; sh -c "$BY_ROOT" sh KILL {who[0]} {who[1]}'
    ran = subprocess.run(["sh", "-c", code], preexec_fn=as_nobody, check=False, timeout=20)
    assert ran.returncode == 4 and lives(who[0])


SAYS_NO = """
kill() {
    if [ "$LC_ALL" = C ]; then echo "kill: (1): Operation not permitted"; else echo "kill: (1): Nicht erlaubt"; fi >&2
    return 1
}
"""


def test_a_hidden_process_is_known_in_every_language(host: Host) -> None:
    """By the words of kill, which speaks as the login does."""
    common = PARTS[0].with_name("common.sh")
    code = f'TOKEN=t; . {PARTS[0]}; . {common}; HIDES=1; {SAYS_NO} is_hidden 1 && say hidden; say "$LC_ALL"'
    env = {**host.env(), "LC_ALL": "de_DE.UTF-8"}
    ran = subprocess.run(["sh", "-c", code], env=env, capture_output=True, check=True, timeout=20, text=True)
    assert ran.stdout.splitlines() == ["@t hidden", "@t de_DE.UTF-8", "@t end"], "its own language stays the login's"
