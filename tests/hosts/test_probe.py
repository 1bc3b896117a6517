"""The script itself, run for real on this machine against the lab's cards, through every shell there is."""

import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, nullcontext
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hosts.probe.facts import HostFacts, read_facts
from hosts.probe.fake import answer, frame_bytes, is_probe
from hosts.probe.frames import NOT_ASKED, Unknown, parse_frame
from hosts.probe.gpus import GpuList, GpuReading, Recovery
from hosts.probe.health import KernelLog
from hosts.probe.holders import OpenFiles
from hosts.probe.probe import ALL_SECTIONS, EVERYTHING, probe, probe_argv, probe_stdin, watch
from hosts.probe.processes import HostIdentity, ProcessTable
from hosts.transport.base import LinkLost, Result, no_tick
from hosts.transport.fake import Call, FakeTransport, Reply
from hosts.transport.local import LocalTransport
from lab.build import BUILD, build
from lab.gpus import state
from lab.specs import CardSpec
from tests.hosts.conftest import Sshd, wait_until
from tests.hosts.recorded import recorded

pytestmark = pytest.mark.process


class LabMachine(LocalTransport):
    """This machine, with the lab's cards. `kind` decides who asks them: nvidia-smi by the script, or pynvml."""

    def __init__(self, directory: Path, *, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.directory = directory

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        stdin: bytes = b"",
        tick: Callable[[], None] = no_tick,
    ) -> Result:
        cards = [f"FAKEGPU_DIR={self.directory}", f"LD_LIBRARY_PATH={BUILD}"]
        path = f"PATH={BUILD}:{os.environ['PATH']}"
        return super().run(["env", path, *cards, *argv], timeout=timeout, stdin=stdin, tick=tick)


@pytest.fixture(scope="session", autouse=True)
def _built() -> None:
    build()


@pytest.fixture
def gpu_directory(tmp_path: Path) -> Path:
    cards = [CardSpec().placed("gpu1", index) for index in range(2)]
    state.write_cards(tmp_path, cards)
    return tmp_path


@pytest.fixture(params=["smi", "local"])
def machine(request: pytest.FixtureRequest, gpu_directory: Path) -> LabMachine:
    return LabMachine(gpu_directory, kind=request.param)


def uuids() -> list[str]:
    return [CardSpec().placed("gpu1", index).uuid for index in range(2)]


def look(machine: LabMachine, *sections: str) -> HostFacts:
    return probe(machine, sections=sections or ("gpus", "apps"), timeout=20)


def test_cards_are_read(machine: LabMachine) -> None:
    facts = look(machine)
    assert isinstance(facts.gpus, GpuList)
    assert [gpu.uuid for gpu in facts.gpus.gpus] == uuids()
    gpu = facts.gpus.gpus[0]
    assert (gpu.memory_used, gpu.memory_total, gpu.name) == (0, 46068, "NVIDIA L40S")
    assert (gpu.memory_free, gpu.display) == (46068, False)
    assert not isinstance(facts.apps, Unknown) and facts.apps.apps == ()


def test_the_short_look_gives_memory(machine: LabMachine) -> None:
    facts = look(machine, "memory")
    assert isinstance(facts.gpus, GpuList)
    assert [(gpu.memory_used, gpu.memory_free) for gpu in facts.gpus.gpus] == [(0, 46068)] * 2


@pytest.mark.parametrize("kind", ["smi", "local"])
def test_what_the_driver_keeps_is_not_free_and_a_screen_is_told(tmp_path: Path, kind: str) -> None:
    card = CardSpec(memory_mib=16376, reserved_mib=434, kind="desktop").placed("desk", 0)
    state.write_cards(tmp_path, [card])
    facts = look(LabMachine(tmp_path, kind=kind))
    assert isinstance(facts.gpus, GpuList)
    (gpu,) = facts.gpus.gpus
    assert (gpu.memory_used, gpu.memory_free, gpu.display) == (596, 16376 - 434 - 596, True)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("no-driver", "driver is not loaded"),
        ("mismatch", "needs a reboot"),
        ("blocked", "operating system blocks"),
        ("unknown-error", "taken away"),
        ("no-devices", "sees no card"),
    ],
)
def test_a_fault_of_the_machine_is_unknown_in_plain_words(machine: LabMachine, fault: str, words: str) -> None:
    state.set_fault(machine.directory, fault)
    facts = look(machine)
    assert isinstance(facts.gpus, Unknown) and words in facts.gpus.reason
    assert isinstance(facts.apps, Unknown)


def test_a_lost_card_leaves_the_other_readable(gpu_directory: Path) -> None:
    state.set_fault(gpu_directory, "lost 1")
    facts = look(LabMachine(gpu_directory, kind="local"))
    assert isinstance(facts.gpus, GpuList)
    assert isinstance(facts.gpus.by_uuid(uuids()[0]), GpuReading)
    lost = facts.gpus.by_uuid(uuids()[1])
    assert isinstance(lost, Unknown)
    assert "lost" in lost.reason


def test_cells_without_a_number_are_unknown(gpu_directory: Path) -> None:
    state.set_fault(gpu_directory, "cell * memory.* [N/A]")
    facts = look(LabMachine(gpu_directory, kind="smi"))
    assert isinstance(facts.gpus, GpuList)
    assert isinstance(facts.gpus.gpus[0].memory_total, Unknown) and isinstance(facts.gpus.gpus[0].memory_used, Unknown)


def test_an_old_driver_gives_what_it_knows(gpu_directory: Path) -> None:
    state.set_fault(gpu_directory, "missing mig.mode.current")
    facts = look(LabMachine(gpu_directory, kind="smi"))
    assert isinstance(facts.gpus, GpuList)
    assert facts.gpus.gpus[0].memory_used == 0


@pytest.mark.parametrize(
    ("driver", "cell", "needs"),
    [
        ("535.261.03", "reset_status.reset_required Yes", {"smi": Recovery.RESET, "local": None}),
        ("550.163.01", "reset_status.reset_required No", {"smi": Recovery.NONE, "local": None}),
        ("590.48.01", "gpu_recovery_action GPU Reset", {"smi": Recovery.RESET, "local": Recovery.RESET}),
        ("590.48.01", "gpu_recovery_action Node Reboot", {"smi": Recovery.REBOOT, "local": Recovery.REBOOT}),
        ("590.48.01", "gpu_recovery_action None", {"smi": Recovery.NONE, "local": Recovery.NONE}),
    ],
)
@pytest.mark.parametrize("section", ["gpus", "memory"])
def test_what_the_driver_says_that_a_card_needs(
    machine: LabMachine, section: str, driver: str, cell: str, needs: dict[str, Recovery | None]
) -> None:
    state.write_cards(machine.directory, [CardSpec(driver=driver).placed("gpu1", 0)])
    state.set_fault(machine.directory, f"cell * {cell}\ncell * fabric.state In Progress")
    facts = look(machine, section, "usable")
    assert isinstance(facts.gpus, GpuList)
    (gpu,) = facts.gpus.gpus
    told = None if isinstance(gpu.recovery, Unknown) else gpu.recovery
    # Nothing tells the script which driver this is, as in /proc/driver of a real machine: it asks as a new one.
    expected = needs[machine.kind] if driver.startswith("59") or machine.kind == "local" else None
    assert told == expected
    assert gpu.memory_used == 0 and gpu.name in ("", "NVIDIA L40S")
    assert gpu.fabric_state == ("In Progress" if driver.startswith("59") or machine.kind == "local" else "")


def test_a_card_that_has_joined_its_fabric(machine: LabMachine) -> None:
    state.write_cards(machine.directory, [CardSpec(driver="590.48.01").placed("gpu1", 0)])
    state.set_fault(machine.directory, "cell * fabric.state Completed\ncell * fabric.status Success")
    facts = look(machine, "gpus", "usable")
    assert isinstance(facts.gpus, GpuList)
    assert (facts.gpus.gpus[0].fabric_state, facts.gpus.gpus[0].fabric_status) == ("Completed", "Success")


def test_health_is_looked_at_only_when_it_is_asked_for(machine: LabMachine) -> None:
    facts = look(machine)
    assert isinstance(facts.kernel, Unknown) and isinstance(facts.nodes, Unknown)
    assert isinstance(facts.gpus, GpuList) and isinstance(facts.gpus.gpus[0].recovery, Unknown)


def test_a_log_that_begins_with_a_fault_has_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = "[%5d.000000] NVRM: Xid (PCI:0000:61:00): %d, pid=1, name=x"
    log = "\n".join([fault % (8, 31), "[    9.000000] eth0: link up", fault % (10, 79)])
    for name in ("dmesg", "journalctl"):  # whichever this machine lets us ask
        (tmp_path / name).write_text(f"#!/bin/sh\ncat <<'END'\n{log}\nEND\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    kernel = probe(LocalTransport(), sections=["usable"], timeout=20).kernel
    assert isinstance(kernel, KernelLog)
    assert [(xid.code, xid.seconds) for xid in kernel.xids] == [(31, 8.0), (79, 10.0)]
    assert kernel.oldest == 8.0


@pytest.fixture
def holding(gpu_directory: Path) -> Iterator[int]:
    """A process that holds 5000 MiB of the first card."""
    environment = {**os.environ, "FAKEGPU_DIR": str(gpu_directory), "RELAUNCH_LAUNCH_ID": "launch-7"}
    script = (
        "import sys; from lab.gpus import hold; c = hold.take(0, mib=5000); print('held', flush=True); sys.stdin.read()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"held\n"
    yield child.pid
    child.communicate()


def test_held_memory_and_its_holder_are_seen(machine: LabMachine, holding: int) -> None:
    facts = look(machine, "gpus", "apps", "markers", "procs", "host")
    assert isinstance(facts.gpus, GpuList)
    assert facts.gpus.gpus[0].memory_used == 5000
    assert not isinstance(facts.apps, Unknown)
    assert [app.pid for app in facts.apps.apps] == [holding]
    assert not isinstance(facts.markers, Unknown) and facts.markers[holding] == "launch-7"
    assert isinstance(facts.processes, ProcessTable) and holding in facts.processes.by_pid


APART = """
import ctypes, os, sys, threading, time
def leave():
    ctypes.CDLL(None).unshare(0x400)  # CLONE_FILES
    os.open("/dev/null", os.O_RDONLY)
    print(threading.get_native_id(), flush=True)
    time.sleep(60)
threading.Thread(target=leave, daemon=True).start()
sys.stdin.read()
"""


def test_a_thread_that_has_left_the_list_of_files_is_listed_and_no_other(gpu_directory: Path) -> None:
    """By the size of the directories, which has been the number of files since Linux 6.2."""
    with subprocess.Popen([sys.executable, "-c", APART], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        thread = int(child.stdout.readline())
        answer = subprocess.run(
            ["sh", *probe_argv(["fds", "threads"])[1:]],
            input=probe_stdin("abc", ["fds", "threads"]),
            capture_output=True,
            timeout=20,
            check=True,
        ).stdout.decode()
        child.kill()
    if Path("/proc/self/task/" + str(os.getpid()) + "/fd").stat().st_size == 0:
        pytest.skip("this kernel does not tell how many files are open")
    assert f"/proc/{child.pid}/task/{thread}/fd:" in answer
    assert f"/proc/{child.pid}/task/{child.pid}/fd:" not in answer


@pytest.mark.parametrize("kind", ["smi", "local"])
def test_the_number_of_a_thread_is_told_for_its_process(gpu_directory: Path, kind: str) -> None:
    script = """
import sys, threading
from lab.gpus import hold
def take():
    hold.take(0, mib=10)
    print("held", flush=True)
    threading.Event().wait()
threading.Thread(target=take, daemon=True).start()
sys.stdin.read()
"""
    state.set_fault(gpu_directory, "thread-ids")
    environment = {**os.environ, "FAKEGPU_DIR": str(gpu_directory)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", script], env=environment, **pipes) as child:  # type: ignore[call-overload]
        assert child.stdout.readline() == b"held\n"
        machine = LabMachine(gpu_directory, kind=kind)
        raw = machine.run(["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"], timeout=20).stdout
        apps = look(machine).apps
        child.kill()
    assert int(raw) != child.pid, "the driver tells the thread"
    assert not isinstance(apps, Unknown) and [app.pid for app in apps.apps] == [child.pid]


def test_a_hung_driver_is_unknown_within_its_time(gpu_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hosts.nvml.DEADLINE_SECONDS", 1.0)
    state.set_fault(gpu_directory, "hang 60")
    begun = time.monotonic()
    facts = look(LabMachine(gpu_directory, kind="local"))
    assert time.monotonic() - begun < 5
    assert isinstance(facts.gpus, Unknown) and "did not answer" in facts.gpus.reason


SHELLS = [shell for shell in ("dash", "bash") if shutil.which(shell)]


@pytest.mark.parametrize("shell", SHELLS)
def test_every_section_comes_from_every_shell(shell: str) -> None:
    sections = sorted(ALL_SECTIONS)
    argv = [shell, *probe_argv(sections, ports=[1], pids=[os.getpid()], paths=["/tmp"])[1:]]
    done = subprocess.run(argv, input=probe_stdin("abc", sections), capture_output=True, timeout=20, check=True)
    assert done.stderr == b""
    assert done.stdout.endswith(b"@relaunch abc end\n")


@pytest.mark.parametrize("shell", SHELLS)
def test_users_have_names(shell: str) -> None:
    argv = [shell, *probe_argv(["users"], pids=[os.getpid(), 4_000_001])[1:]]
    done = subprocess.run(argv, input=probe_stdin("abc", ["users"]), capture_output=True, timeout=20, check=True)
    owners = read_facts(parse_frame(done.stdout, token="abc"), measured_at=datetime.now(UTC)).owners
    assert owners[os.getpid()] == pwd.getpwuid(os.getuid()).pw_name
    assert set(owners) <= {1, os.getpid()}, "one that is gone has no user"


def test_facts_about_this_very_machine(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        paths = [str(tmp_path), "/no such 'place'", "/dev/shm", "/"]
        facts = probe(LocalTransport(), sections=EVERYTHING, timeout=20, ports=[port], pids=[os.getpid()], paths=paths)
    assert isinstance(facts.host, HostIdentity)
    assert facts.host.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert facts.host.pid_namespace == os.readlink("/proc/self/ns/pid")  # noqa: PTH115
    assert isinstance(facts.processes, ProcessTable)
    assert os.getpid() in facts.processes.by_pid
    assert not isinstance(facts.listeners, Unknown) and isinstance(facts.files, OpenFiles)
    (listener,) = facts.listeners.on_port(port)
    assert os.getpid() in facts.files.owners_of(listener.inode)
    assert facts.details[os.getpid()].pids[-1] == os.getpid()
    assert facts.paths == {paths[0]: True, paths[1]: False, paths[2]: True, paths[3]: True}
    assert not isinstance(facts.disks[paths[0]], Unknown)
    assert isinstance(facts.disks[paths[1]], Unknown)
    mounts = [disk.mount for disk in facts.disks.values() if not isinstance(disk, Unknown)]
    assert mounts[1:] == ["/dev/shm", "/"], "each path has its own line"


def test_one_disk_that_does_not_answer_hides_no_other(tmp_path: Path) -> None:
    df = tmp_path / "df"
    df.write_text('#!/bin/sh\n[ $# = 2 ] && [ "$2" = / ] || exit 124\nexec /bin/df "$@"\n')
    df.chmod(0o755)
    argv = ["dash", *probe_argv(["disk"], paths=["/", "/proc"])[1:]]
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(argv, input=probe_stdin("abc"), env=env, capture_output=True, timeout=20, check=True)
    facts = read_facts(parse_frame(done.stdout, token="abc"), measured_at=datetime.now(UTC), paths=("/", "/proc"))
    assert not isinstance(facts.disks["/"], Unknown)
    assert isinstance(facts.disks["/proc"], Unknown) and "network disk" in facts.disks["/proc"].reason


def test_what_was_not_asked_for_is_unknown() -> None:
    facts = probe(LocalTransport(), sections=["host"], timeout=20)
    assert isinstance(facts.gpus, Unknown) and isinstance(facts.files, Unknown)


def test_an_unknown_section_is_our_mistake() -> None:
    with pytest.raises(ValueError, match="no such sections"):
        probe_argv(["gpu"])


def test_the_token_is_not_in_the_command() -> None:
    assert not any("TOKEN" in word for word in probe_argv(["host"]))


def test_a_host_is_watched_over_ssh(sshd: Sshd) -> None:
    link = sshd.connect()
    with closing(watch(link, sections=["host"], every=0.1, slot=f"test-{os.getpid()}")) as readings:
        hosts = [next(readings).host for _ in range(3)]
    assert all(isinstance(host, HostIdentity) for host in hosts)
    link.close()


def test_each_look_of_a_watch_sees_itself_and_so_how_old_it_is(sshd: Sshd) -> None:
    """The youngest process tells it; the uptime would not do in a container."""
    link = sshd.connect()
    with closing(watch(link, sections=["procs"], every=0.1, slot=f"test-age-{os.getpid()}")) as readings:
        for _ in range(3):
            before = _ticks_since_boot()
            table = [next(readings), next(readings)][1].processes  # the first may have waited
            assert isinstance(table, ProcessTable)
            youngest = max(process.start_time for process in table.by_pid.values())
            assert before <= youngest <= _ticks_since_boot()
    link.close()


def _ticks_since_boot() -> int:
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def test_only_the_first_look_of_a_watch_asks_what_is_dear(sshd: Sshd) -> None:
    link = sshd.connect()
    sections = ["host", "usable", "memory", "apps", "fds", "threads"]
    looks = watch(link, sections=sections, every=0.05, slot=f"test-kernel-{os.getpid()}")
    first, *rest = [next(looks) for _ in range(3)]
    link.close()
    assert not isinstance(first.nodes, Unknown)
    assert first.apps is not NOT_ASKED
    assert [facts.nodes for facts in rest] == [NOT_ASKED, NOT_ASKED] == [facts.apps for facts in rest]
    assert not any(isinstance(facts.host, Unknown) or isinstance(facts.files, Unknown) for facts in rest), (
        "the other sections still come"
    )


def test_a_newer_watch_ends_the_older_one(sshd: Sshd) -> None:
    link = sshd.connect()
    older = watch(link, sections=["host"], every=0.1, slot=f"test-newer-{os.getpid()}")
    next(older)
    newer = watch(link, sections=["host"], every=0.1, slot=f"test-newer-{os.getpid()}")
    next(newer)
    assert sum(1 for _ in older) < 50
    newer.close()
    link.close()


def test_a_watch_whose_script_is_killed_says_so(sshd: Sshd) -> None:
    slot = f"test-killed-{os.getpid()}"
    link = sshd.connect()
    readings = watch(link, sections=["host"], every=0.1, slot=slot)
    next(readings)
    subprocess.run(["pkill", "-KILL", "-f", f"slot={slot}"], check=True)
    with pytest.raises(LinkLost, match="The host's readings ended with"):
        list(readings)
    link.close()


@pytest.mark.parametrize(("frames", "status", "lost"), [(1, 0, False), (0, 0, True), (2, 137, True), (2, None, True)])
def test_a_watch_ends_as_it_should_or_says_so(frames: int, status: int | None, lost: bool) -> None:
    def reply(call: Call) -> Reply:
        token = call.stdin.partition(b"\n")[0].removeprefix(b"TOKEN=").decode()
        return Reply(chunks=tuple(frame_bytes(token, {}) for _ in range(frames)), exit_status=status)

    readings = watch(FakeTransport().on(is_probe, reply=reply), sections=["host"], every=1, slot="s")
    assert len(list(itertools.islice(readings, frames))) == frames
    with pytest.raises(LinkLost) if lost else nullcontext():
        assert list(readings) == []


def test_a_watch_that_nobody_reads_ends_by_itself(sshd: Sshd) -> None:
    link = sshd.connect()
    readings = watch(link, sections=["host"], every=0.1, slot=f"test-orphan-{os.getpid()}")
    next(readings)
    own_sessions = sshd.sessions()
    readings.close()
    link.close()
    wait_until(lambda: not set(own_sessions) & set(sshd.sessions()), seconds=10, what="its session ends")
    found = subprocess.run(["pgrep", "-f", f"slot=test-orphan-{os.getpid()}"], capture_output=True, check=False)
    for pid in found.stdout.split():
        wait_until(lambda pid=pid: not _runs(int(pid)), seconds=5, what="the loop ends")  # type: ignore[misc]


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIG_DFL)
    except ProcessLookupError:
        return False
    return True


def test_a_scripted_host_answers_the_probe() -> None:
    fake = FakeTransport()
    fake.on(is_probe, reply=answer({"gpus": recorded("nvidia_smi/h200_idle").text, "apps": ("", 9)}))
    facts = probe(fake, sections=["gpus", "apps"], timeout=5)
    assert isinstance(facts.gpus, GpuList)
    assert isinstance(facts.apps, Unknown)


def test_a_scripted_host_that_was_cut_off_says_nothing() -> None:
    fake = FakeTransport().on(is_probe, reply=answer({}, complete=False))
    facts = probe(fake, sections=["gpus"], timeout=5)
    assert isinstance(facts.gpus, Unknown)
    assert "cut off" in facts.gpus.reason


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may start a process as another user")
def test_a_process_that_hides_its_memory_is_still_known_by_its_own_user(tmp_path: Path) -> None:
    """Its open files look like root's then (PR_SET_DUMPABLE, proc(5)); its own folder does not."""
    log = tmp_path / ".relaunch/ab/1/launches/22222222-3333-4444-5555-666666666666/log"
    log.parent.mkdir(parents=True)
    hide = "import ctypes, os, sys; os.setuid(65534); ctypes.CDLL(None).prctl(4, 0)"
    hide += "; sys.stderr.write('hidden'); sys.stdin.read()"
    with (
        log.open("w") as out,
        subprocess.Popen(
            [sys.executable, "-c", hide], stdin=subprocess.PIPE, stdout=out, stderr=subprocess.PIPE
        ) as forger,
    ):
        assert forger.stdin is not None and forger.stderr is not None
        assert forger.stderr.read(6) == b"hidden"
        facts = probe(LocalTransport(), sections=("host", "procs", "fds"), timeout=20)
        looks_like = os.lstat(f"/proc/{forger.pid}/fd/1").st_uid
        forger.stdin.close()
    assert looks_like == 0, "otherwise this test shows nothing"
    assert isinstance(facts.files, OpenFiles) and isinstance(facts.processes, ProcessTable)
    assert forger.pid in dict(facts.files.launches)
    assert facts.processes.by_pid[forger.pid].uid == 65534


def test_at_most_one_nvidia_smi_runs_on_a_machine_however_many_ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for the monitors of two panels, a worker's look and a person's test."""
    smi, told = tmp_path / "nvidia-smi", tmp_path / "told"
    smi.write_text(
        f"#!/bin/sh\nmkdir {tmp_path}/busy || echo two >>{told}\nsleep 0.05\necho one >>{told}\nrmdir {tmp_path}/busy\n"
    )
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    threads = [
        threading.Thread(target=probe, args=(LocalAsSsh(),), kwargs={"sections": sections, "timeout": 20})
        for sections in (["host", "gpus"], ["memory"], ["host", "gpus", "apps"], ["host", "gpus"])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert told.read_text().split() == ["one"] * 5


class LocalAsSsh(LocalTransport):
    """This machine, asked as another one is: by the script."""

    kind = "ssh"
