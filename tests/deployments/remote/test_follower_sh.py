"""Who follows a server that a container has started sees whether it lives, as the kernel tells it."""

import os
import signal
import sys
from pathlib import Path

import pytest

from deployments.remote.script import follower
from tests.deployments.remote.shell import Host, start_time, wait_for

pytestmark = pytest.mark.process

LEADER_ENDS = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_zombie_whose_threads_live_is_followed_until_they_have_ended(host: Host) -> None:
    server = host.spawn(sys.executable, "-S", "-c", LEADER_ENDS)
    wait_for(lambda: state(server) == "Z", what="only its threads live")
    started = start_time(server)
    host.program("docker", f'[ "$1" = inspect ] && cat {host.home}/told')
    told, launch = host.home / "told", host.home / "launch"
    told.write_text(f"{server} 0 2026-01-02T03:04:05Z\n")
    launch.mkdir()
    values = {"TOOL": "docker", "AS_ROOT": "", "CHANGE": "", "TEXT": "", "OLD": "", "START": "true", "FIND": "echo id"}
    (launch / "run").write_text(follower("container", values))
    host.spawn("sh", str(launch / "run"), str(launch))
    wait_for((launch / "record").exists, what="the record")
    assert (launch / "record").read_text().splitlines()[:2] == [f"pid {server}", f"start {started}"]
    told.write_text("0 137 2026-01-02T03:04:05Z\n")
    os.kill(server, signal.SIGKILL)
    wait_for((launch / "exit").exists, what="its end is seen")
    assert (launch / "exit").read_text() == "137\n"
