"""Every fault shows as it would on a real machine, and the way back leads back."""

import socket
import subprocess
from collections.abc import Iterator

import pytest

from lab.fleet import Container, Fleet, Host, Node
from tests.lab.conftest import Ssh, ssh_words, wait_for

pytestmark = pytest.mark.lab

MEMORY = "nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -i 0"
APPS = "nvidia-smi --query-compute-apps=pid,used_memory --format=csv,noheader,nounits"


@pytest.fixture(autouse=True)
def healthy(fleet: Fleet) -> Iterator[None]:
    """A test that fails half-way leaves no hanging nvidia-smi to the next one."""
    yield
    for machine in fleet.machines:
        fleet.faults.gpu(machine, "none")


def test_a_pulled_cable_is_silent(fleet: Fleet, gpu1: Host, ssh: Ssh) -> None:
    fleet.faults.link_down(gpu1)
    with pytest.raises(TimeoutError):
        socket.create_connection((gpu1.address, 22), timeout=0.5)
    fleet.faults.link_up(gpu1)
    assert ssh(gpu1, "true").returncode == 0


def test_stopped_sshd_refuses_and_leaves_sessions(fleet: Fleet, gpu1: Host, ssh: Ssh) -> None:
    words = [*ssh_words(gpu1, key=fleet.client_key), "echo begun; read line; echo $line"]
    session = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert session.stdout is not None
    assert session.stdout.readline() == b"begun\n"
    fleet.faults.sshd_stop(gpu1)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((gpu1.address, 22), timeout=5)
    assert session.communicate(b"still here\n", timeout=10)[0] == b"still here\n"
    fleet.faults.sshd_start(gpu1)
    assert ssh(gpu1, "true").returncode == 0


def test_frozen_sshd_accepts_and_says_nothing(fleet: Fleet, gpu1: Host, ssh: Ssh) -> None:
    fleet.faults.sshd_freeze(gpu1)
    with socket.create_connection((gpu1.address, 22), timeout=5) as link:
        link.settimeout(0.3)
        with pytest.raises(TimeoutError):
            link.recv(8)
        fleet.faults.sshd_thaw(gpu1)
        link.settimeout(5)
        assert link.recv(8) == b"SSH-2.0-"
    assert ssh(gpu1, "true").returncode == 0


def test_dropped_sessions_leave_what_they_started(fleet: Fleet, gpu1: Host) -> None:
    words = [*ssh_words(gpu1, key=fleet.client_key), "exec sleep 4322"]
    session = subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    wait_for(lambda: [p for p in gpu1.processes() if p.cmdline == ("sleep", "4322")])
    fleet.faults.sessions_drop(gpu1)
    session.communicate(timeout=10)
    assert session.returncode == 255
    assert gpu1.exec(["pkill", "-f", "^sleep 4322"], timeout=10).returncode == 0


def test_another_host_key(fleet: Fleet, gpu1: Host) -> None:
    before = gpu1.host_key_line
    fleet.faults.host_key_swap(gpu1)
    swapped = gpu1.host_key_line
    scan = ["ssh-keyscan", "-t", "ed25519", gpu1.address]
    assert swapped in subprocess.run(scan, capture_output=True, text=True, timeout=30).stdout
    assert swapped != before
    fleet.faults.host_key_restore(gpu1)
    assert gpu1.host_key_line == before


def test_a_full_disk(fleet: Fleet, gpu1: Host, ssh: Ssh) -> None:
    fleet.faults.disk_full(gpu1)
    answer = ssh(gpu1, "head -c 100000 /dev/zero > /root/big")
    assert answer.returncode == 1
    assert "No space left on device" in answer.stderr
    assert ssh(gpu1, "df --output=avail /root | tail -1").stdout.strip() == "0"
    fleet.faults.disk_free(gpu1)
    assert ssh(gpu1, "head -c 100000 /dev/zero > /root/big && rm /root/big").returncode == 0


def test_a_disk_has_its_size(gpu1: Host, ssh: Ssh) -> None:
    assert ssh(gpu1, "df -m --output=size /root /var/log | tail -1").stdout.strip() == "64"
    assert "No space left" in ssh(gpu1, "head -c 70M /dev/zero > /var/log/big; rm /var/log/big").stderr


def test_another_boot_id(fleet: Fleet, gpu1: Host, ssh: Ssh) -> None:
    before = ssh(gpu1, "cat /proc/sys/kernel/random/boot_id").stdout
    fleet.faults.boot_id_change(gpu1)
    assert ssh(gpu1, "cat /proc/sys/kernel/random/boot_id").stdout not in ("", before)


def test_a_reboot_ends_all_and_keeps_the_disk(fleet: Fleet, gpu1: Host, ssh: Ssh) -> None:
    before = ssh(gpu1, "touch /root/kept /run/lost /tmp/lost; cat /proc/sys/kernel/random/boot_id").stdout
    fleet.faults.gpu_hold(gpu1, 0, 500)
    fleet.faults.reboot(gpu1)
    answer = ssh(gpu1, "ls /root/kept /run/lost /tmp/lost; cat /proc/sys/kernel/random/boot_id")
    assert answer.stdout.split()[0] == "/root/kept"
    assert answer.stdout.split()[1:] != [before.strip()]
    assert answer.stderr.count("No such file") == 2
    assert [process.cmdline for process in gpu1.processes() if "sleep" in process.cmdline] == []
    assert ssh(gpu1, MEMORY).stdout == "0\n"


def test_power_off_is_silent_and_on_is_back(fleet: Fleet, gpu1: Host, ssh: Ssh) -> None:
    fleet.faults.power_off(gpu1)
    with pytest.raises(TimeoutError):
        socket.create_connection((gpu1.address, 22), timeout=0.5)
    fleet.faults.power_on(gpu1)
    assert ssh(gpu1, "true").returncode == 0


def test_a_node_comes_back_with_its_containers(fleet: Fleet, pve: Node, ct129: Container, ssh: Ssh) -> None:
    fleet.faults.reboot(pve)
    assert ssh(pve, "pct exec 129 -- hostname").stdout == "llm-gpu\n"
    assert not fleet.container(130).is_running


def test_containers_stop_and_start(fleet: Fleet, pve: Node, ct129: Container, ssh: Ssh) -> None:
    fleet.faults.ct_stop(ct129)
    assert ssh(pve, "pct status 129").stdout == "status: stopped\n"
    fleet.faults.ct_start(ct129)
    assert ssh(pve, "pct exec 129 -- nvidia-smi -L").stdout.count("GPU ") >= 2


def test_gpu_faults_show_in_nvidia_smi(fleet: Fleet, gpu1: Host, ssh: Ssh) -> None:
    fleet.faults.gpu(gpu1, "no-driver")
    assert ssh(gpu1, "nvidia-smi -L").returncode == 9
    fleet.faults.gpu(gpu1, "hang", "30")
    assert ssh(gpu1, "timeout -s KILL 0.3 nvidia-smi -L; echo $?").stdout == "137\n"
    fleet.faults.gpu(gpu1, "none")
    assert ssh(gpu1, "nvidia-smi -L").returncode == 0


def test_gpu_faults_add_up(fleet: Fleet, gpu1: Host, ssh: Ssh) -> None:
    fleet.faults.gpu(gpu1, "cell", "0", "memory.used", "[Unknown Error]")
    fleet.faults.gpu_add(gpu1, "cell", "1", "memory.used", "[N/A]")
    assert ssh(gpu1, MEMORY.replace(" -i 0", "")).stdout == "[Unknown Error]\n[N/A]\n"


def test_a_container_alone_can_lose_its_gpus(fleet: Fleet, pve: Node, ct129: Container, ssh: Ssh) -> None:
    fleet.faults.ct_gpu(ct129, "unknown-error")
    inside = ssh(pve, "pct exec 129 -- nvidia-smi -L")
    assert (inside.returncode, inside.stdout) == (255, "Failed to initialize NVML: Unknown Error\n")
    assert ssh(pve, "nvidia-smi -L").returncode == 0
    fleet.faults.ct_gpu(ct129, "none")
    assert ssh(pve, "pct exec 129 -- nvidia-smi -L").returncode == 0


def test_a_container_does_not_see_who_holds_its_cards_outside(fleet: Fleet, pve: Node, ssh: Ssh) -> None:
    fleet.faults.gpu_hold(pve, 0, 700)
    assert ssh(pve, f"pct exec 129 -- {MEMORY}").stdout == "700\n"
    assert ssh(pve, f"pct exec 129 -- {APPS}").stdout == ""
    assert ssh(pve, APPS).stdout.endswith(", 700\n")
    pve.exec(["pkill", "-9", "-f", "^sleep 86400"], timeout=10)


def test_leaked_memory_has_no_owner(fleet: Fleet, gpu1: Host, ssh: Ssh) -> None:
    fleet.faults.gpu_leak(gpu1, 0, 4000)
    assert ssh(gpu1, f"{MEMORY}; {APPS}").stdout == "4000\n"
    fleet.faults.gpu_clear(gpu1)
    assert ssh(gpu1, MEMORY).stdout == "0\n"


def test_a_stranger_holds_memory(fleet: Fleet, gpu1: Host, ssh: Ssh) -> None:
    fleet.faults.gpu_hold(gpu1, 0, 700)
    pid, held = ssh(gpu1, APPS).stdout.split(",")
    assert int(held) == 700
    gpu1.exec(["kill", "-9", pid], timeout=10)
    wait_for(lambda: ssh(gpu1, MEMORY).stdout == "0\n")
