"""Processes that hold a card in ways that are easily missed, as a look around on the machine finds them."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from lab import stuck
from lab.fleet import Container, Fleet, Host, Node
from lab.processes import Process
from tests.lab.conftest import Ssh, wait_for

pytestmark = pytest.mark.lab

USED = "nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -i 0"
APPS = "nvidia-smi --query-compute-apps=pid,process_name,used_memory --format=csv,noheader,nounits"
with_fuse = pytest.mark.skipif(not stuck.is_possible(), reason="needs /dev/fuse")


@pytest.fixture(autouse=True)
def clean(fleet: Fleet, gpu1: Host, pve: Node) -> Iterator[None]:
    yield
    for machine in (gpu1, pve):
        fleet.faults.gpu_unstick(machine)
        for process in machine.processes():
            if process.title.startswith(("gpu-odd", "sleep 86400", "tmux", "-bash")) or process.state == "Z":
                with suppress(ProcessLookupError):
                    os.kill(process.lab_pid, signal.SIGKILL)
        wait_for(lambda machine=machine: machine.exec(USED.split(), timeout=10).stdout == b"0\n")


def holder(host: Host, title: str) -> Process:
    return next(process for process in host.processes() if process.title.startswith(title))


def state_of(process: Process) -> str:
    """Empty when it is gone."""
    try:
        return Path(f"/proc/{process.lab_pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def is_gone(process: Process) -> bool:
    return state_of(process) in ("", "Z")


@with_fuse
def test_a_stuck_process_survives_sigkill_and_keeps_its_memory(fleet: Fleet, gpu1: Host, ssh: Ssh) -> None:
    fleet.faults.gpu_stuck(gpu1, 0, 3000)
    process = holder(gpu1, "gpu-odd stuck")
    wait_for(lambda: state_of(process) == "D")
    ssh(gpu1, f"kill {process.pid}; kill -9 {process.pid}")
    pending = ssh(gpu1, f"sed -n 's/^S.*Pnd:\\t//p' /proc/{process.pid}/status").stdout.split()
    assert any(int(word, 16) & 1 << 8 for word in pending), "the kernel has the SIGKILL, and cannot deliver it"
    assert state_of(process) == "D"
    assert ssh(gpu1, f"{USED}; {APPS}").stdout == f"3000\n{process.pid}, gpu-odd, 3000\n"
    fleet.faults.gpu_unstick(gpu1)
    wait_for(lambda: is_gone(process))
    assert ssh(gpu1, USED).stdout == "0\n"
    assert "lab-stuck" not in ssh(gpu1, "cat /proc/mounts").stdout


@with_fuse
def test_what_is_stuck_comes_back_by_itself_in_time(fleet: Fleet, gpu1: Host, ssh: Ssh) -> None:
    fleet.faults.gpu_stuck(gpu1, 0, 100, 1.0)
    process = holder(gpu1, "gpu-odd stuck")
    os.kill(process.lab_pid, signal.SIGKILL)
    wait_for(lambda: is_gone(process), timeout=5)


@with_fuse
def test_a_machine_with_a_stuck_process_can_be_switched_off(fleet: Fleet, gpu1: Host, ssh: Ssh) -> None:
    fleet.faults.gpu_stuck(gpu1, 0, 100)
    fleet.faults.reboot(gpu1)
    assert ssh(gpu1, f"{USED}; {APPS}").stdout == "0\n"


@with_fuse
def test_a_process_of_a_container_can_be_stuck(fleet: Fleet, pve: Node, ct129: Container, ssh: Ssh) -> None:
    fleet.faults.ct_stuck(ct129, 0, 200)
    process = holder(pve, "gpu-odd stuck")
    ssh(pve, f"pct exec 129 -- kill -9 {process.own_pid}")
    wait_for(lambda: state_of(process) == "D")
    assert ssh(pve, f"pct exec 129 -- {APPS}").stdout == f"{process.own_pid}, gpu-odd, 200\n"
    fleet.faults.gpu_unstick(pve)
    wait_for(lambda: is_gone(process))


def test_without_fuse_it_is_in_the_same_state_but_dies(
    fleet: Fleet, gpu1: Host, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stuck, "is_possible", lambda: False)
    fleet.faults.gpu_stuck(gpu1, 0, 300)
    assert "SIGKILL ends it" in capsys.readouterr().err
    process = holder(gpu1, "gpu-odd vfork")
    wait_for(lambda: state_of(process) == "D")
    os.kill(process.lab_pid, signal.SIGKILL)
    wait_for(lambda: is_gone(process))


def test_a_zombie_leader_holds_by_its_other_thread(fleet: Fleet, gpu1: Host, ssh: Ssh) -> None:
    fleet.faults.gpu_odd(gpu1, "zombie-leader", 0, 400)
    wait_for(lambda: [process for process in gpu1.processes() if process.state == "Z"])
    pid = next(process.pid for process in gpu1.processes() if process.state == "Z")
    assert ssh(gpu1, f"{USED}; {APPS}").stdout == f"400\n{pid}, [Not Found], 400\n"
    assert ssh(gpu1, "fuser /dev/nvidia0 2>/dev/null").stdout == ""
    assert ssh(gpu1, f"ls -A /proc/{pid}/fd").stdout == ""
    assert "/dev/nvidia0" in ssh(gpu1, f"readlink /proc/{pid}/task/*/fd/*").stdout
    ssh(gpu1, f"kill -9 {pid}")
    wait_for(lambda: ssh(gpu1, USED).stdout == "0\n")


def test_a_card_can_be_open_in_one_thread_only(fleet: Fleet, gpu1: Host, ssh: Ssh) -> None:
    fleet.faults.gpu_odd(gpu1, "thread-files", 0, 500)
    process = holder(gpu1, "gpu-odd thread-files")
    assert ssh(gpu1, APPS).stdout == f"{process.pid}, gpu-odd, 500\n"
    assert "nvidia" not in ssh(gpu1, f"readlink /proc/{process.pid}/fd/*").stdout
    assert "/dev/nvidia0" in ssh(gpu1, f"readlink /proc/{process.pid}/task/*/fd/*").stdout


def test_two_holders_of_one_session(fleet: Fleet, gpu1: Host, ssh: Ssh) -> None:
    fleet.faults.gpu_session(gpu1, 0, 600)
    assert ssh(gpu1, USED).stdout == "1200\n"
    pids = [line.split(", ")[0] for line in ssh(gpu1, APPS).stdout.splitlines()]
    rows = ssh(gpu1, f"ps -o sid=,ppid= -p {','.join(pids)}").stdout.splitlines()
    assert len(rows) == 2
    assert len(set(rows)) == 1
    session = rows[0].split()[0]
    assert ssh(gpu1, f"ps -o sid=,args= -p {session}").stdout.split()[:2] == [session, "-bash"]


def test_a_holder_in_tmux(fleet: Fleet, gpu1: Host, ssh: Ssh) -> None:
    fleet.faults.gpu_tmux(gpu1, 0, 700)
    pid = ssh(gpu1, APPS).stdout.split(",")[0]
    shell, session = ssh(gpu1, f"ps -o ppid=,sid= -p {pid}").stdout.split()
    assert shell == session
    server = ssh(gpu1, f"ps -o ppid= -p {shell}").stdout.strip()
    assert ssh(gpu1, f"cat /proc/{server}/comm").stdout == "tmux: server\n"
    assert ssh(gpu1, f"ps -o pid=,ppid=,sid=,args= -p {server}").stdout.split() == [
        *(server, "1", server, "tmux", "new-session", "-d", "-s", "main")
    ]
    assert "nvidia" not in ssh(gpu1, f"readlink /proc/{server}/fd/*").stdout
