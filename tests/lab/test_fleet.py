"""The lab as a whole: its namespaces, its command line, its cost, its ledger. These tests nest a lab in a lab."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import ledger, namespaces, processes
from lab.fleet import Fleet, Host, HostSpec, MachineError, demo_specs
from lab.paths import FleetPaths
from tests.lab.conftest import Ssh, wait_for

pytestmark = pytest.mark.lab

REPOSITORY = Path(__file__).resolve().parents[2]
LAB = [sys.executable, "-m", "lab"]


def lab(*words: str, environment: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*LAB, *words], cwd=REPOSITORY, capture_output=True, text=True, timeout=60, env=environment)


def outside() -> dict[str, str]:
    """The environment of a shell that is in no lab."""
    return {name: value for name, value in os.environ.items() if not name.startswith("LAB_")}


def start_lab(*words: str, output: Path) -> "subprocess.Popen[bytes]":
    """A lab in the background, as from another shell."""
    with output.open("w") as file:
        return subprocess.Popen([*LAB, *words], cwd=REPOSITORY, stdout=file, stderr=file, env=outside())


def descendants(pid: int) -> set[tuple[int, str]]:
    """Every process below `pid`, with its start time."""
    children: dict[int, list[int]] = {}
    started: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split() if entry.name.isdigit() else []
        except OSError:
            continue
        if fields:
            children.setdefault(int(fields[1]), []).append(int(entry.name))
            started[int(entry.name)] = fields[19]
    found, waiting = set(), [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        waiting += below
        found |= {(child, started[child]) for child in below}
    return found


def alive(found: set[tuple[int, str]]) -> set[tuple[int, str]]:
    return {(pid, start) for pid, start in found if (stat := _stat(pid)) and stat[19] == start and stat[0] not in "ZX"}


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


# -- enter


def test_enter_hands_on_words_streams_and_the_exit_code() -> None:
    answer = lab("enter", "--", "sh", "-c", 'echo "$1"; echo problem >&2; exit 7', "x", "a  b")
    assert (answer.returncode, answer.stdout, answer.stderr) == (7, "a  b\n", "problem\n")
    assert lab("enter", "--", "sh", "-c", "kill -9 $$").returncode == 137


def test_enter_gives_a_network_with_only_a_loopback_that_is_up() -> None:
    answer = lab("enter", "--", "ip", "-br", "addr")
    assert answer.stdout.split()[:3] == ["lo", "UNKNOWN", "127.0.0.1/8"]
    assert len(answer.stdout.splitlines()) == 1


def test_enter_needs_a_command_that_exists() -> None:
    assert "needs a command" in lab("enter").stderr
    missing = lab("enter", "--", "/no/such/command")
    assert (missing.returncode, missing.stderr) == (1, "Cannot run /no/such/command: No such file or directory.\n")


def test_a_socket_bound_outside_serves_the_outside(tmp_path: Path) -> None:
    serve = (
        "import os, socket; s = socket.socket(fileno=int(os.environ['LAB_WEB_FD']));"
        "c, _ = s.accept(); c.sendall(b'from inside'); c.close()"
    )
    fetch = "import socket; print(socket.create_connection(('127.0.0.1', 18431), 10).recv(20).decode())"
    inside = start_lab(
        "enter", "--listen", "127.0.0.1:18431", "--", sys.executable, "-c", serve, output=tmp_path / "log"
    )
    wait_for(lambda: _listens(18431))
    answer = subprocess.run([sys.executable, "-c", fetch], capture_output=True, text=True, timeout=20)
    assert answer.stdout == "from inside\n"
    assert inside.wait(timeout=10) == 0


def _listens(port: int) -> bool:
    """Asks the kernel, so that no connection is used up."""
    return bool(processes.listening_sockets(os.getpid(), port))


def test_a_port_in_use_is_one_sentence(tmp_path: Path) -> None:
    holder = start_lab("enter", "--listen", "127.0.0.1:18432", "--", "sleep", "60", output=tmp_path / "log")
    wait_for(lambda: _listens(18432))
    refused = lab("enter", "--listen", "127.0.0.1:18432", "--", "true")
    assert refused.returncode == 1
    assert "Port 18432 on 127.0.0.1 is in use" in refused.stderr and "make demo PORT=18433\n" in refused.stderr
    holder.terminate()
    assert holder.wait(timeout=10) == 143


def test_refused_namespaces_are_one_sentence() -> None:
    powerless = ["setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin"]
    answer = subprocess.run(
        [*powerless, *LAB, "enter", "--", "true"], cwd=REPOSITORY, capture_output=True, text=True, timeout=20
    )
    assert answer.returncode == 1
    assert answer.stderr.startswith("This machine does not allow the namespaces that the lab is made of")
    assert len(answer.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("setting", "value", "advice"),
    [
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "apparmor_restrict_unprivileged_userns=0"),
        ("kernel/unprivileged_userns_clone", "0", "unprivileged_userns_clone=1"),
        ("user/max_user_namespaces", "0", "user.max_user_namespaces=15000"),
        ("nothing", "", "Run it as root"),
    ],
)
def test_what_to_do_about_it(monkeypatch: pytest.MonkeyPatch, setting: str, value: str, advice: str) -> None:
    monkeypatch.setattr(namespaces, "_setting", lambda name: value if name == setting else "")
    assert advice in namespaces.explain(PermissionError(1, "Operation not permitted"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all(tmp_path: Path, number: signal.Signals) -> None:
    output = tmp_path / "log"
    inside = start_lab("enter", "--", "sh", "-c", "echo begun; exec sleep 60", output=output)
    wait_for(lambda: "begun" in output.read_text())
    below = descendants(inside.pid)
    inside.send_signal(number)
    assert inside.wait(timeout=10) == 128 + number
    assert alive(below) == set()


def test_ctrl_c_at_a_terminal_ends_all(tmp_path: Path) -> None:
    controller, terminal = os.openpty()
    command = ["setsid", "--ctty", *LAB, "enter", "--", "sh", "-c", "echo begun; exec sleep 60"]
    inside = subprocess.Popen(command, cwd=REPOSITORY, stdin=terminal, stdout=terminal, env=outside())
    os.close(terminal)
    assert b"begun" in os.read(controller, 64)
    os.write(controller, b"\x03")
    assert inside.wait(timeout=10) == 130
    os.close(controller)


def test_kill_9_of_the_outer_process_leaves_nothing(tmp_path: Path) -> None:
    output, directory = tmp_path / "log", tmp_path / "fleet"
    outer = start_lab("up", "--hosts", "2", "--directory", str(directory), output=output)
    wait_for(lambda: "2 hosts up" in output.read_text(), timeout=30)
    below = descendants(outer.pid)
    assert len(below) >= 6  # init, up, and for each host monitor, init, sshd
    outer.kill()
    outer.wait(timeout=10)
    wait_for(lambda: not alive(below))
    assert str(directory) not in Path("/proc/self/mountinfo").read_text()
    assert list((directory / "machines/gpu1/rootfs").iterdir()) == []


# -- the fleet


def test_a_fleet_outside_the_lab_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LAB_ENTERED")
    with pytest.raises(MachineError, match="python -m lab enter"):
        Fleet(tmp_path).start()


def test_a_second_fleet_in_the_same_directory_is_refused(fleet: Fleet) -> None:
    answer = lab("up", "--hosts", "1", "--directory", str(fleet.paths.directory), environment=outside())
    assert answer.returncode == 1
    assert answer.stderr == f"Another fleet runs in {fleet.paths.directory}: end it first.\n"


def test_a_number_left_over_by_a_killed_lab_is_nobodys(tmp_path: Path) -> None:
    host = Host(HostSpec(name="old"), index=99, address="10.77.0.99", paths=FleetPaths(tmp_path))
    host.root.mkdir(parents=True)
    bystander = subprocess.Popen(["sleep", "60"])
    (host.directory / "pid").write_text(f"{bystander.pid}\n")
    assert not host.is_running
    host.stop()
    assert bystander.poll() is None
    assert not (host.directory / "pid").exists()
    bystander.kill()
    bystander.wait(timeout=10)


def test_twenty_hosts_are_up_fast_and_the_second_time_with_the_same_keys(tmp_path: Path) -> None:
    keys = []
    for round_number in range(2):
        output = tmp_path / f"log{round_number}"
        up = start_lab("up", "--hosts", "20", "--directory", str(tmp_path / "fleet"), output=output)
        wait_for(lambda: "20 hosts up in" in output.read_text(), timeout=30)  # noqa: B023 - used at once
        assert float(output.read_text().split(" in ")[1].split()[0]) < 5
        keys.append((tmp_path / "fleet/keys/gpu20.pub").read_text())
        up.terminate()
        assert up.wait(timeout=20) == 0
    assert keys[0] == keys[1]


def test_the_demo_has_what_it_promises() -> None:
    hosts, nodes = demo_specs()
    assert [(host.name, len(host.cards)) for host in hosts] == [("gpu1", 2), ("gpu2", 4)]
    assert (nodes[0].name, len(nodes[0].cards), nodes[0].cards[0].memory_mib) == ("pve", 8, 97887)
    assert {vmid: box.running for vmid, box in nodes[0].containers.items()} == {129: True, 130: False}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The demo fleet, started as from another shell; its directory."""
    directory = tmp_path_factory.mktemp("demo")
    output = directory / "log"
    up = start_lab("up", "--directory", str(directory), output=output)
    wait_for(lambda: "3 hosts up in" in output.read_text(), timeout=30)
    yield directory
    up.terminate()
    up.wait(timeout=20)


def second_shell(demo: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    own, command = (words, ()) if "--" not in words else (words[: words.index("--")], words[words.index("--") :])
    return lab(*own, "--directory", str(demo), *command, environment=outside())


def test_status_from_a_second_shell(demo: Path) -> None:
    lines = [line.split() for line in second_shell(demo, "status").stdout.splitlines()]
    assert [line[:3] for line in lines] == [
        ["gpu1", "10.77.0.101", "on"],
        ["gpu2", "10.77.0.102", "on"],
        ["pve", "10.77.0.51", "on"],
        ["129", "10.77.51.129", "running"],
        ["130", "10.77.51.130", "stopped"],
    ]


def test_ssh_and_faults_from_a_second_shell(demo: Path) -> None:
    assert second_shell(demo, "ssh", "gpu1", "--", "sh", "-c", "hostname; exit 4").returncode == 4
    assert second_shell(demo, "ssh", "129", "--", "hostname").stdout == "llm-gpu\n"
    assert second_shell(demo, "fault", "gpu2", "gpu", "exit", "9").returncode == 0
    assert second_shell(demo, "ssh", "gpu2", "--", "nvidia-smi").returncode == 9
    assert second_shell(demo, "fault", "130", "ct-start").returncode == 0
    assert second_shell(demo, "ssh", "pve", "--", "pct", "status", "130").stdout == "status: running\n"
    before = second_shell(demo, "ssh", "gpu2", "--", "cat", "/proc/sys/kernel/random/boot_id").stdout
    assert second_shell(demo, "fault", "gpu2", "reboot").returncode == 0
    assert second_shell(demo, "ssh", "gpu2", "--", "cat", "/proc/sys/kernel/random/boot_id").stdout not in ("", before)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("fault", "gpu1", "explode"), "No fault is called explode. `python -m lab fault gpu1 help` lists them."),
        (("fault", "gpu9", "reboot"), "No machine is called gpu9. There are: gpu1, gpu2, pve."),
        (("fault", "gpu1", "ct-stop"), "ct-stop is for a container, by number."),
        (("fault", "gpu1", "gpu-leak", "0"), "gpu-leak: missing a required argument: 'mib'."),
    ],
)
def test_mistakes_are_one_sentence(demo: Path, words: tuple[str, ...], text: str) -> None:
    answer = second_shell(demo, *words)
    assert answer.returncode == 1
    assert answer.stderr.startswith(text)
    assert len(answer.stderr.splitlines()) == 1


def test_no_fleet_is_one_sentence(tmp_path: Path) -> None:
    answer = lab("status", "--directory", str(tmp_path), environment=outside())
    assert answer.stderr == f"No fleet runs in {tmp_path}: start one with `python -m lab up`.\n"


# -- the ledger


def test_the_ledger_knows_who_was_started_and_who_lives(gpu1: Host, ssh: Ssh) -> None:
    server = "standin --port {1} --mib 100 --delay 0.01 --stop 0.01"
    start = f"RELAUNCH_LAUNCH_ID={{0}} setsid -f {server} >/dev/null 2>&1 </dev/null"
    begun = time.time()
    ssh(gpu1, start.format("first", 8101))
    ssh(gpu1, start.format("second", 8102))
    wait_for(lambda: len(ledger.live_servers(gpu1)) == 2)
    live = {server.entry.port: server for server in ledger.live_servers(gpu1)}
    assert (live[8101].entry.launch, live[8101].entry.kind) == ("first", "standin")
    assert live[8102].entry.time >= begun
    wait_for(lambda: ledger.listeners(gpu1, 8102))
    assert [process.pid for process in ledger.listeners(gpu1, 8102)] == [live[8102].process.pid]
    gpu1.exec(["kill", "-9", str(live[8101].process.pid)], timeout=10)
    wait_for(lambda: [server.entry.port for server in ledger.live_servers(gpu1)] == [8102])
    assert [entry.port for entry in ledger.entries(gpu1)] == [8101, 8102]
    gpu1.exec(["pkill", "standin"], timeout=10)
    wait_for(lambda: not ledger.live_servers(gpu1) and not ledger.listeners(gpu1, 8102))
