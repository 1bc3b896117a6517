"""The node's `pct` does what Proxmox's does, odd corners included, and containers are nested machines."""

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.fleet import Container, Fleet, Node
from lab.processes import Process
from tests.lab.conftest import Ssh, ssh_words, wait_for

pytestmark = pytest.mark.lab

PCT_PATH = "/sbin:/bin:/usr/sbin:/usr/bin"


@pytest.fixture
def stopped(fleet: Fleet) -> Iterator[Container]:
    """Container 130, off before and after."""
    container = fleet.container(130)
    yield container
    if container.is_running:
        container.stop()


def environment(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines())


# -- the container as a machine


def test_a_container_is_a_machine_inside_the_node(pve: Node, ct129: Container) -> None:
    for kind in ("net", "pid", "uts", "mnt", "ipc"):
        pids = (pve.pid1, ct129.pid1)
        assert len({Path(f"/proc/{pid}/ns/{kind}").readlink() for pid in pids}) == 2, kind
    inside = {process.lab_pid: process.pid for process in ct129.processes()}
    on_node = {process.lab_pid: process.pid for process in pve.processes()}
    assert inside.keys() <= on_node.keys()
    assert inside[ct129.pid1] == 1
    assert on_node[ct129.pid1] > 1


def test_the_node_sees_container_processes_by_its_own_numbers(pve: Node, ssh: Ssh) -> None:
    script = (
        "setsid -f sleep 777 >/dev/null 2>&1; for d in /proc/[0-9]*; do grep -qs 777 $d/cmdline && cat $d/status; done"
    )
    answer = ssh(pve, f"pct exec 129 -- sh -c 'setsid -f sleep 777 >/dev/null 2>&1'; {script}")
    rows = [line.split()[1:] for line in answer.stdout.splitlines() if line.startswith("NSpid:")]
    assert [len(row) for row in rows if len(row) > 1] == [2]
    ssh(pve, "pkill -f '^sleep 777'")


def test_the_container_has_an_address_and_a_boot_id_of_its_own(pve: Node, ct129: Container, ssh: Ssh) -> None:
    shown = ssh(pve, "pct exec 129 -- sh -c 'ip -br -4 addr show eth0; cat /proc/sys/kernel/random/boot_id; hostname'")
    assert ct129.address in shown.stdout
    assert shown.stdout.split()[-1] == "llm-gpu"
    assert shown.stdout.split()[-2] != pve.boot_id


def test_only_its_cards_are_in_the_container(pve: Node, stopped: Container, ssh: Ssh) -> None:
    names = ssh(pve, "pct exec 129 -- sh -c 'ls -d /dev/nvidia*'").stdout.split()
    assert names == ["/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl"]
    stopped.start()
    assert ssh(pve, "pct exec 130 -- sh -c 'ls -d /dev/nvidia*'").stdout == ""
    assert ssh(pve, "pct exec 130 -- nvidia-smi").returncode == 127


def test_memory_held_in_the_container_is_seen_on_the_node(pve: Node, ssh: Ssh) -> None:
    hold = "setsid -f gpu-hold --gpu 1 --mib 3000 -- sleep 778 >/dev/null 2>&1"
    ssh(pve, f"pct exec 129 -- env PATH=/lab/bin:$PATH sh -c '{hold}'")
    query = "nvidia-smi --query-compute-apps=pid,used_memory --format=csv,noheader,nounits"
    wait_for(lambda: "3000" in ssh(pve, query).stdout)
    on_node = {str(p.pid) for p in pve.processes() if p.cmdline == ("sleep", "778")}
    assert ssh(pve, query).stdout.split(",")[0] in on_node
    ssh(pve, "pkill -f '^sleep 778'")
    wait_for(lambda: ssh(pve, query).stdout == "")


# -- exec


def test_exec_resets_path_and_lets_the_rest_of_the_session_in(pve: Node, ssh: Ssh) -> None:
    found = environment(ssh(pve, "SSL_CERT_DIR=/x WORD=w pct exec 129 -- env").stdout)
    assert found["PATH"] == PCT_PATH
    assert (found["container"], found["TERM"], found["WORD"]) == ("lxc", "linux", "w")
    assert (found["HOME"], found["USER"]) == ("/root", "root")
    assert "SSH_CONNECTION" in found
    assert "SSL_CERT_DIR" not in found


def test_exec_without_the_environment(pve: Node, ssh: Ssh) -> None:
    for option in ("--keep-env 0", "--keep-env=0", "-k 0"):
        assert environment(ssh(pve, f"pct exec 129 {option} -- env").stdout) == {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "container": "lxc",
            "TERM": "linux",
        }
    assert "HOME" in environment(ssh(pve, "pct exec 129 --keep-env 1 -- env").stdout)


def test_exec_goes_to_the_same_directory_or_to_the_root(pve: Node, ssh: Ssh) -> None:
    assert ssh(pve, "pct exec 129 -- pwd").stdout == "/root\n"
    assert ssh(pve, "cd /etc/pve && pct exec 129 -- pwd").stdout == "/\n"


def test_exec_passes_words_and_streams_untouched(pve: Node, ssh: Ssh) -> None:
    words = "pct exec 129 -- sh -c 'cat; printf \"<%s>\" \"$@\" >&2' x 'a  b' '$HOME' '' '*'"
    answer = ssh(pve, words, stdin="from outside")
    assert (answer.stdout, answer.stderr) == ("from outside", "<a  b><$HOME><><*>")


@pytest.mark.parametrize(
    ("command", "status"),
    [("exit 0", 0), ("exit 3", 3), ("exit 255", 255), ("kill -9 $$", 137), ("kill -TERM $$", 143)],
)
def test_exec_hands_the_exit_code_on(pve: Node, ssh: Ssh, command: str, status: int) -> None:
    assert ssh(pve, f"pct exec 129 -- sh -c '{command}'").returncode == status


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        ("exec 129 -- nosuch", 127, 'No such file or directory - Failed to exec "nosuch"'),
        ("exec 129 -- /etc", 126, 'Permission denied - Failed to exec "/etc"'),
        ("exec 129 nvidia-smi -L", 255, "Unknown option: l\n400 unable to parse option"),
        ("exec 129 bash -c x", 255, "Unknown option: c\n400 unable to parse option"),
        ("exec 129", 255, "missing command at /usr/share/perl5/PVE/CLI/pct.pm line "),
        ("exec 130 -- true", 255, "container '130' not running!"),
        ("exec 999 -- true", 2, "Configuration file 'nodes/pve/lxc/999.conf' does not exist"),
        ("exec abc -- true", 255, "400 Parameter verification failed."),
        ("status 999", 2, "Configuration file 'nodes/pve/lxc/999.conf' does not exist"),
        ("frobnicate", 255, "ERROR: unknown command 'pct frobnicate'"),
    ],
)
def test_refusals(pve: Node, ssh: Ssh, arguments: str, status: int, text: str) -> None:
    answer = ssh(pve, f"pct {arguments}")
    assert (answer.returncode, answer.stdout) == (status, "")
    assert text in answer.stderr


def test_without_the_dashes_an_option_of_the_command_may_vanish(pve: Node, ssh: Ssh) -> None:
    assert ssh(pve, "pct exec 129 echo a -k x b").stdout == "a b\n"


def test_exec_is_cheap(pve: Node) -> None:
    took = []
    for _ in range(10):
        begun = time.monotonic()
        pve.exec(["pct", "exec", "129", "--", "true"], timeout=10)
        took.append(time.monotonic() - begun)
    assert min(took) < 0.05, took  # about 0.01 s, with the way into the node


def test_a_command_outlives_its_helper(pve: Node, ct129: Container, fleet: Fleet) -> None:
    def found(word: str) -> list[Process]:
        return [process for process in pve.processes() if process.cmdline[:1] == (word,)]

    words = [*ssh_words(pve, key=fleet.client_key), "pct exec 129 -- sleep 779 >/dev/null 2>&1"]
    client = subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    wait_for(lambda: found("sleep"))
    helper = next(process for process in pve.processes() if "lxc-attach" in process.title)
    assert helper.cmdline[1:] == ("-n", "129", "--keep-env", "--", "sleep", "779")
    pve.exec(["kill", "-9", str(helper.pid)], timeout=10)
    client.communicate(timeout=10)
    status = Path(f"/proc/{found('sleep')[0].lab_pid}/status").read_text()
    assert f"PPid:\t{pve.pid1}\n" in status
    assert [process.cmdline for process in ct129.processes() if process.pid != 1] == [("sleep", "779")]
    pve.exec(["kill", "-9", str(found("sleep")[0].pid)], timeout=10)
    wait_for(lambda: not found("sleep"))


# -- list, status, config, start, stop


def test_list_has_fixed_columns(pve: Node, ct129: Container, stopped: Container, fleet: Fleet, ssh: Ssh) -> None:
    fleet.faults.ct_lock(stopped)
    assert ssh(pve, "pct list").stdout.splitlines() == [
        "VMID       Status     Lock         Name                ",
        "129        running                 llm-gpu             ",
        "130        stopped    backup       other               ",
    ]
    fleet.faults.ct_unlock(stopped)


def test_status_and_config(pve: Node, ct129: Container, ssh: Ssh) -> None:
    assert ssh(pve, "pct status 129").stdout == "status: running\n"
    assert ssh(pve, "pct status 130").stdout == "status: stopped\n"
    verbose = dict(line.split(": ") for line in ssh(pve, "pct status 129 --verbose").stdout.splitlines())
    assert list(verbose) == sorted(verbose)
    on_node = next(process.pid for process in pve.processes() if process.lab_pid == ct129.pid1)
    assert (verbose["pid"], verbose["name"], verbose["status"]) == (str(on_node), "llm-gpu", "running")
    config = ssh(pve, "pct config 129").stdout
    assert "hostname: llm-gpu\n" in config
    assert "dev0: /dev/nvidia0,gid=44\n" in config


def test_start_stop_shutdown_reboot(pve: Node, stopped: Container, ssh: Ssh) -> None:
    assert ssh(pve, "pct start 130").returncode == 0
    first = ssh(pve, "pct exec 130 -- cat /proc/sys/kernel/random/boot_id").stdout
    assert ssh(pve, "pct start 130").stdout == "CT 130 already running\n"
    assert ssh(pve, "pct reboot 130").returncode == 0
    assert ssh(pve, "pct exec 130 -- cat /proc/sys/kernel/random/boot_id").stdout != first
    assert ssh(pve, "pct shutdown 130").returncode == 0
    refused = ssh(pve, "pct stop 130")
    assert (refused.returncode, refused.stdout) == (255, "CT 130 not running\n")
    assert ssh(pve, "pct shutdown 130").stdout == "CT 130 not running\n"
    assert ssh(pve, "pct reboot 130").stdout == "VM 130 not running\n"


def test_a_deaf_process_lets_shutdown_fail_and_stop_succeed(pve: Node, stopped: Container, ssh: Ssh) -> None:
    stopped.start()
    ssh(pve, "pct exec 130 -- sh -c 'trap \"\" TERM; setsid -f sleep 780 >/dev/null 2>&1 </dev/null'")
    refused = ssh(pve, "pct shutdown 130 --timeout 1")
    assert (refused.returncode, refused.stdout) == (255, "container did not stop\n")
    assert ssh(pve, "pct status 130").stdout == "status: running\n"
    assert ssh(pve, "pct shutdown 130 --timeout 1 --forceStop 1").returncode == 0
    assert ssh(pve, "pct status 130").stdout == "status: stopped\n"


def test_a_hard_stop_ends_an_exec_with_137(pve: Node, stopped: Container, fleet: Fleet) -> None:
    stopped.start()
    words = [*ssh_words(pve, key=fleet.client_key), "pct exec 130 -- sleep 781"]
    client = subprocess.Popen(words, stdin=subprocess.PIPE)
    wait_for(lambda: [process for process in stopped.processes() if process.cmdline == ("sleep", "781")])
    stopped.stop()
    client.communicate(timeout=10)
    assert client.returncode == 128 + signal.SIGKILL


def test_locked_refuses_start_and_stop_and_lets_exec_in(pve: Node, ct129: Container, fleet: Fleet, ssh: Ssh) -> None:
    fleet.faults.ct_lock(ct129)
    for verb in ("start", "stop", "shutdown", "reboot"):
        answer = ssh(pve, f"pct {verb} 129")
        assert (answer.returncode, answer.stdout) == (255, "CT is locked (backup)\n")
    assert ssh(pve, "pct exec 129 -- true").returncode == 0
    assert "lock: backup\n" in ssh(pve, "pct status 129 --verbose").stdout
    assert ssh(pve, "pct unlock 129; pct status 129 --verbose | grep lock").returncode == 1


def test_frozen_is_running_and_exec_blocks_until_thawed(pve: Node, ct129: Container, fleet: Fleet, ssh: Ssh) -> None:
    fleet.faults.ct_freeze(ct129)
    assert ssh(pve, "pct status 129").stdout == "status: running\n"
    words = [*ssh_words(pve, key=fleet.client_key), "pct exec 129 -- echo thawed"]
    client = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    wait_for(lambda: [p for p in pve.processes() if p.cmdline[-2:] == ("echo", "thawed") and "attach" in p.title])
    with pytest.raises(subprocess.TimeoutExpired):
        client.wait(timeout=0.3)
    fleet.faults.ct_thaw(ct129)
    assert client.communicate(timeout=10)[0] == b"thawed\n"


def test_a_slow_start_of_pct(pve: Node, fleet: Fleet) -> None:
    fleet.faults.pct_slow(pve, 0.3)
    begun = time.monotonic()
    pve.exec(["pct", "exec", "129", "--", "true"], timeout=10)
    assert time.monotonic() - begun >= 0.3
    fleet.faults.pct_slow(pve, 0)
