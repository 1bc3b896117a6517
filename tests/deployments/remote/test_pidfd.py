"""A pid that becomes another process's between the comparison and the signal, on a real process table."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from deployments.remote import script
from deployments.remote.script import Said
from tests.deployments.remote.shell import Host, lives, said_of, start_time, wait_for

pytestmark = pytest.mark.process

SIGNAL_SH = Path(script.__file__).with_name("signal.sh")
PYTHON = b"SYSTEM_PYTHON=/usr/bin/python3"
NAMESPACE = ["unshare", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"]
has_system_python = pytest.mark.skipif(not Path("/usr/bin/python3").exists(), reason="no system Python")

ZOMBIE_LEADER = """
import ctypes, os, threading, time
threading.Thread(target=lambda: (open({flag!r}, "w"), time.sleep(60))).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def by_pidfd_text() -> str:
    return SIGNAL_SH.read_text().partition("BY_PIDFD='")[2].partition("\n'\n")[0]


def signal_them(host: Host, *words: str, python: bytes = PYTHON, name: str = "TERM") -> list[Said]:
    values = {"signal": name, "targets": list(words), "watched": list(words), "through": "", "seconds_max": 2}
    made = host.script("signal", "stop", sudo="", **values)
    assert made.stdin.count(PYTHON) == 1
    return host.run(replace(made, stdin=made.stdin.replace(PYTHON, python)))


@pytest.mark.parametrize(
    ("when", "result"),
    [
        ("never", "sent it ended"),
        ("before", "gone it lives"),
        ("opened", "gone it lives"),
        ("compared", "gone it lives"),
    ],
)
def test_who_has_got_the_pid_meanwhile_is_not_signalled(when: str, result: str) -> None:
    helper = Path(__file__).with_name("pid_reuse.py")
    command = [*NAMESPACE, sys.executable, "-S", str(helper), when, by_pidfd_text()]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    if "unshare" in ran.stderr:
        pytest.skip(ran.stderr)
    assert ran.stdout.strip() == result, ran.stderr


@has_system_python
def test_all_go_through_one_python_and_each_is_told(host: Host) -> None:
    pids = [host.spawn("sleep", "60") for _ in range(3)]
    words = [f"{pid}:{start_time(pid)}" for pid in pids[:2]] + [f"{pids[2]}:{start_time(pids[2]) + 1}"]
    said = signal_them(host, *words)
    assert said_of(said, "sent") == [f"TERM {pid} pidfd" for pid in pids[:2]]
    assert said_of(said, "gone") == [str(pids[2])] and lives(pids[2])
    assert not lives(pids[0]) and not lives(pids[1])


@pytest.mark.parametrize("python", ["/nowhere/python3", "{bin}/python3"])
def test_without_pidfds_it_is_compared_and_sent_by_the_shell(host: Host, python: str) -> None:
    """No Python, or an old one, which says nothing but an error."""
    host.program("python3", "echo AttributeError >&2; exit 1")
    pid, other = host.spawn("sleep", "60"), host.spawn("sleep", "60")
    used = f"SYSTEM_PYTHON={python.format(bin=host.bin)}".encode()
    said = signal_them(host, f"{pid}:{start_time(pid)}", f"{other}:{start_time(other) - 1}", python=used)
    assert said_of(said, "sent") == [f"TERM {pid}"] and said_of(said, "gone") == [str(other)]
    assert not lives(pid) and lives(other)


@has_system_python
def test_a_dead_leader_with_live_threads_gets_its_signal(host: Host) -> None:
    flag = host.home / "ready"
    pid = host.spawn(sys.executable, "-S", "-c", ZOMBIE_LEADER.format(flag=str(flag)))
    wait_for(flag.exists, what="its thread")
    wait_for(lambda: not lives(pid), what="the end of its first thread")
    assert os.path.exists(f"/proc/{pid}")  # noqa: PTH110
    said = signal_them(host, f"{pid}:{start_time(pid)}", name="KILL")
    assert said_of(said, "sent")[0].startswith(f"KILL {pid}")
    assert said_of(said, "alive")[-1] == ""
