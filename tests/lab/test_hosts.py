"""A simulated host is a machine of its own: network, processes, files, sshd, GPUs."""

import signal
import socket
import subprocess
from pathlib import Path

import pytest

from lab import tree
from lab.fleet import Container, Fleet, Host
from tests.lab.conftest import Ssh, ssh_words, wait_for

pytestmark = pytest.mark.lab

DEVICES = "fd full null nvidia-uvm nvidia0 nvidia1 nvidiactl ptmx pts random shm stderr stdin stdout tty urandom zero"


def test_ssh_arrives_on_a_machine_of_its_own(gpu1: Host, ssh: Ssh) -> None:
    answer = ssh(gpu1, "hostname; id -un; cat /proc/sys/kernel/random/boot_id; cat /proc/1/comm")
    assert answer.stdout.split() == ["gpu1", "root", gpu1.boot_id, "init"]
    assert gpu1.boot_id != Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def test_every_namespace_is_separate(fleet: Fleet, gpu1: Host) -> None:
    for kind in ("net", "pid", "uts", "ipc", "mnt"):
        pids = [1, gpu1.pid1, fleet.host("bare").pid1, fleet.host("pve").pid1]
        assert len({Path(f"/proc/{pid}/ns/{kind}").readlink() for pid in pids}) == len(pids), kind


def test_exit_status_and_streams_are_kept_apart(gpu1: Host, ssh: Ssh) -> None:
    answer = ssh(gpu1, "cat; echo problem >&2; exit 7", stdin="hello\n")
    assert (answer.returncode, answer.stdout, answer.stderr) == (7, "hello\n", "problem\n")


def test_usr_cannot_be_written_and_home_can(gpu1: Host, ssh: Ssh) -> None:
    assert "Read-only" in ssh(gpu1, "touch /usr/bin/mine").stderr
    assert "Read-only" in ssh(gpu1, "touch /lab/bin/mine").stderr
    assert ssh(gpu1, "echo text > /root/file && cat /root/file").stdout == "text\n"
    assert (gpu1.root / "root/file").read_text() == "text\n"


def test_path_begins_with_the_labs_commands(gpu1: Host, ssh: Ssh) -> None:
    assert ssh(gpu1, "echo $PATH").stdout.startswith("/lab/bin:/usr/local/sbin:")
    assert ssh(gpu1, "command -v gpu-hold").stdout == "/lab/bin/gpu-hold\n"


def test_dev_is_small_and_its_own(gpu1: Host, ssh: Ssh) -> None:
    assert sorted(ssh(gpu1, "ls /dev").stdout.split()) == DEVICES.split()
    assert ssh(gpu1, "head -c 4 /dev/zero | wc -c; echo gone > /dev/null").stdout.strip() == "4"


def test_an_open_card_shows_as_its_device_file(gpu1: Host, ssh: Ssh) -> None:
    assert ssh(gpu1, "exec 9<>/dev/nvidia0; readlink /proc/self/fd/9 /proc/$$/fd/9").stdout.split() == [
        "/dev/nvidia0",
        "/dev/nvidia0",
    ]


def test_driver_is_found_without_any_environment(gpu1: Host, ssh: Ssh) -> None:
    listed = ssh(gpu1, "env -i /usr/bin/nvidia-smi -L").stdout.splitlines()
    assert [line.split(": ")[1].split(" (")[0] for line in listed] == ["NVIDIA L40S", "NVIDIA L40S"]
    assert gpu1.cards[1].uuid in listed[1]
    load = "import ctypes; print(ctypes.CDLL('libnvidia-ml.so.1').nvmlInit_v2())"
    assert ssh(gpu1, f'env -i /usr/bin/python3 -c "{load}"').stdout == "0\n"
    assert ssh(gpu1, "env -i PATH=/sbin:/bin:/usr/sbin:/usr/bin sh -c 'command -v nvidia-smi'").returncode == 0


def test_a_host_without_driver_has_no_nvidia_smi(fleet: Fleet, ssh: Ssh) -> None:
    assert ssh(fleet.host("bare"), "nvidia-smi").returncode == 127


def test_the_projects_own_python_runs(gpu1: Host, ssh: Ssh) -> None:
    code = "import sys, lab.specs; print(sys.version_info.major)"
    assert ssh(gpu1, f"python -c '{code}'").stdout == "3\n"


def test_the_plain_login_has_no_rights(gpu1: Host, ssh: Ssh) -> None:
    if tree.one_user_only():
        assert tree.LOGIN not in (gpu1.root / "etc/passwd").read_text()
        return
    assert ssh(gpu1, "id -un; id -u", user="llm").stdout.split() == ["llm", "1000"]
    assert "denied" in ssh(gpu1, "touch /root/mine", user="llm").stderr
    assert ssh(gpu1, "nvidia-smi -L | wc -l; python -c 'print(3)'", user="llm").stdout.split() == ["2", "3"]


@pytest.mark.skipif("tree.one_user_only()", reason="no second login with one user id only")
def test_sudo_lets_in_whom_the_machine_allows(gpu1: Host, ssh: Ssh) -> None:
    refused = ssh(gpu1, "sudo -n id -u", user="llm")
    assert (refused.returncode, refused.stderr) == (1, "sudo: a password is required\n")
    gpu1.allow_sudo("llm")
    told = ssh(gpu1, "cd /tmp; X=1 sudo -n sh -c 'id -u; echo $HOME ${X-gone} $SUDO_USER; pwd'", user="llm")
    assert told.stdout.split() == ["0", "/root", "gone", "llm", "/tmp"]
    assert ssh(gpu1, "sudo -n no-such-command", user="llm").stderr == "sudo: no-such-command: command not found\n"
    gpu1.allow_sudo()
    assert ssh(gpu1, "sudo -n true", user="llm").returncode == 1


def test_only_authorized_keys_get_in(gpu1: Host, ssh: Ssh, tmp_path: Path) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    assert "Permission denied" in ssh(gpu1, "true", key=key).stderr
    gpu1.authorize(key.with_suffix(".pub").read_text())
    assert ssh(gpu1, "true", key=key).returncode == 0


def test_host_key_is_the_one_that_sshd_shows(gpu1: Host) -> None:
    scan = ["ssh-keyscan", "-t", "ed25519", gpu1.address]
    shown = subprocess.run(scan, capture_output=True, text=True, timeout=30).stdout
    assert gpu1.host_key_line in shown


def test_many_connections_at_once_all_get_a_banner(gpu1: Host) -> None:
    links = [socket.create_connection((gpu1.address, 22), timeout=20) for _ in range(40)]
    try:
        assert all(link.recv(8) == b"SSH-2.0-" for link in links)
    finally:
        for link in links:
            link.close()


def test_a_terminal_can_be_asked_for(fleet: Fleet, gpu1: Host) -> None:
    words = [*ssh_words(gpu1, key=fleet.client_key, extra=["-tt"]), "tty"]
    answer = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30)
    assert answer.stdout.startswith("/dev/pts/")


def test_init_reaps_orphans(gpu1: Host, ct129: Container) -> None:
    for machine in (gpu1, ct129):  # the container's init has no child of its own
        before = {process.pid for process in machine.processes()}
        for _ in range(5):
            machine.exec(["sh", "-c", "setsid -f sleep 0.05 >/dev/null 2>&1 </dev/null"], timeout=10)
        wait_for(lambda: {process.pid for process in machine.processes()} <= before)  # noqa: B023 - used at once


def test_a_command_outlives_the_ssh_client(fleet: Fleet, gpu1: Host) -> None:
    def sleepers() -> list[int]:
        return [process.lab_pid for process in gpu1.processes() if process.cmdline == ("sleep", "4321")]

    client = subprocess.Popen([*ssh_words(gpu1, key=fleet.client_key), "exec sleep 4321"], stdin=subprocess.PIPE)
    wait_for(sleepers)
    client.send_signal(signal.SIGKILL)
    client.communicate(timeout=10)
    wait_for(lambda: len([process for process in gpu1.processes() if "sshd: root" in process.title]) == 0)
    assert sleepers()
    assert gpu1.exec(["pkill", "-f", "sleep 4321"], timeout=10).returncode == 0
    wait_for(lambda: not sleepers())


def test_exec_from_outside(gpu1: Host) -> None:
    answer = gpu1.exec(["sh", "-c", "cat; echo $WORD $HOME; exit 3"], stdin=b"in ", timeout=10, env={"WORD": "w"})
    assert (answer.returncode, answer.stdout) == (3, b"in w /root\n")
    with pytest.raises(subprocess.TimeoutExpired):
        gpu1.exec(["sleep", "60"], timeout=0.2)


def test_processes_are_numbered_as_inside(gpu1: Host) -> None:
    found = gpu1.processes()
    assert found[0].pid == 1
    assert found[0].lab_pid == gpu1.pid1
    assert found[0].cmdline == ("/sbin/init",)
