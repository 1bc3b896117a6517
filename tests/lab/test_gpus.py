"""The memory of the simulated GPUs follows the processes that hold it."""

import fcntl
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lab.gpus import state
from tests.lab.machine import H200, Machine, fields_of, kill, open_files, running_machine, wait_until

pytestmark = pytest.mark.process


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with running_machine(tmp_path / "gpus") as running:
        yield running


def test_memory_is_held_by_the_process_and_free_when_it_is_killed(machine: Machine) -> None:
    holder = machine.hold(20000, gpu="0,1")
    assert [machine.used(0), machine.used(1)] == [20000, 20000]
    assert machine.apps() == [[str(holder.pid), "sleep", card.uuid, "20000"] for card in machine.cards]
    kill(holder)
    assert [machine.used(0), machine.used(1)] == [0, 0]
    assert state.read_contexts(machine.directory) == []


def test_holder_has_the_device_files_open(machine: Machine) -> None:
    holder = machine.hold(100, gpu="1")
    links = open_files(holder.pid)
    device = machine.directory / "dev"
    assert {str(device / name) for name in ("nvidia1", "nvidiactl", "nvidia-uvm")} <= links
    assert str(device / "nvidia0") not in links


def test_baseline_is_used_memory_without_an_owner(tmp_path: Path) -> None:
    with running_machine(tmp_path, [replace(H200, baseline_mib=596)]) as machine:
        assert machine.used() == 596
        assert machine.gpu("memory.free") == [[str(143771 - 614 - 596)]]
        assert machine.apps() == []


def test_unreaped_zombie_holds_nothing(machine: Machine) -> None:
    holder = machine.hold(9000)
    holder.send_signal(signal.SIGKILL)
    wait_until(lambda: fields_of(holder.pid)[0] == "Z")
    assert machine.used() == 0


def test_what_does_not_fit_is_refused_with_pytorchs_words(machine: Machine) -> None:
    machine.hold(100000)
    done = machine.run("gpu-hold", "--mib", "50000", "--", "true")
    assert done.returncode == 1
    assert done.stderr == (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 48.83 GiB. GPU 0 has a total capacity of "
        "139.80 GiB of which 42.15 GiB is free.\n"
    )
    assert machine.run("gpu-hold", "--mib", "40000", "--", "true").returncode == 0
    assert "invalid device ordinal" in machine.run("gpu-hold", "--gpu", "2", "--mib", "1", "--", "true").stderr


def test_of_many_at_once_only_what_fits_gets_memory(machine: Machine) -> None:
    holders = [machine.start("gpu-hold", "--mib", "60000", "--", "sleep", "60") for _ in range(6)]
    wait_until(lambda: sum(holder.poll() == 1 for holder in holders) == 4)
    assert machine.used() == 120000


def test_taking_memory_waits_for_its_turn(machine: Machine) -> None:
    with (machine.directory / "lock").open("r+") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        holder = machine.start("gpu-hold", "--mib", "10", "--", "sleep", "60")
        wait_until(lambda: str(machine.directory / "lock") in open_files(holder.pid))
        with pytest.raises(AssertionError):
            wait_until(lambda: state.read_contexts(machine.directory), timeout=0.1)
    wait_until(lambda: machine.used() == 10)


def test_delayed_memory_counts_from_the_death_even_when_nobody_looks(machine: Machine) -> None:
    holder = machine.hold(9000, options=["--mode", "delay", "--delay", "0.4"])
    kill(holder)
    died = time.monotonic()
    wait_until(lambda: state.read_contexts(machine.directory)[0].died_ns)
    noted = state.read_contexts(machine.directory)[0].died_ns / 1e9
    assert abs(noted - died) < 0.1
    wait_until(lambda: time.monotonic() >= died + 0.42)
    assert machine.used() == 0, "the first look came after the delay"


def test_delayed_memory_has_no_owner_until_it_is_free(machine: Machine) -> None:
    holder = machine.hold(9000, options=["--mode", "delay", "--delay", "0.3"])
    kill(holder)
    died = time.monotonic()
    assert (machine.used(), machine.apps()) == (9000, [])
    wait_until(lambda: machine.used() == 0)
    assert 0.25 < time.monotonic() - died < 0.5


def test_the_watcher_of_a_death_belongs_to_nobody(machine: Machine) -> None:
    argv = ("gpu-hold", "--mib", "10", "--mode", "delay", "--delay", "1", "--", "sleep", "60")
    holder = machine.start(*argv, RELAUNCH_LAUNCH_ID="L-1")
    wait_until(lambda: _watchers(machine))
    (watcher,) = _watchers(machine)
    assert _read(Path(f"/proc/{watcher}/environ")).strip(b"\0") == b""
    parent, group, session = map(int, fields_of(watcher)[1:4])
    assert holder.pid not in (parent, group, session)
    assert not [name for name in open_files(watcher) if "nvidia" in name]


def _watchers(machine: Machine) -> list[int]:
    """Those of this machine: others may run beside us."""
    found = []
    for entry in Path("/proc").iterdir():
        if not _read(entry / "cmdline").startswith(b"fakegpu-watch"):
            continue
        if any(name.startswith(str(machine.directory)) for name in open_files(int(entry.name))):
            found.append(int(entry.name))
    return found


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_leak_stays_until_it_is_cleared(machine: Machine) -> None:
    kill(machine.hold(9000, options=["--mode", "leak"]))
    assert (machine.used(), machine.apps()) == (9000, [])
    assert state.clear_leaks(machine.directory) == 1
    assert machine.used() == 0


def test_reset_clears_a_leak_but_not_a_card_in_use(machine: Machine) -> None:
    kill(machine.hold(9000, options=["--mode", "leak"]))
    holder = machine.hold(100)
    refused = machine.smi("-r", "-i", "0")
    assert refused.returncode == 255
    assert "  GPU 00000000:01:00.0: In use by another client\n" in refused.stdout
    kill(holder)
    assert machine.smi("-r", "-i", "0").stdout == "GPU 00000000:01:00.0 was successfully reset.\n"
    assert machine.used() == 0


def test_process_name_is_the_title_without_commas(machine: Machine) -> None:
    script = "import setproctitle, time; setproctitle.setproctitle('my app, v2'); time.sleep(60)"
    machine.start("gpu-hold", "--mib", "10", "--", sys.executable, "-c", script)
    wait_until(lambda: [row[1] for row in machine.apps()] == ["my app? v2"])


def test_pids_are_those_of_the_reader(machine: Machine) -> None:
    script = (
        "gpu-hold --mib 7000 -- sleep 60 & holder=$!; "
        "until nvidia-smi --query-compute-apps=pid --format=csv,noheader | grep -qx $holder; do :; done; "
        "echo $holder; wait"
    )
    output = machine.directory / "inside"
    machine.start("unshare", "-r", "-p", "-f", "--kill-child", "--mount-proc", "sh", "-c", script, log=output)
    wait_until(lambda: output.exists() and output.read_text().strip().isdigit())
    inside = int(output.read_text())
    (row,) = machine.apps()
    assert int(row[0]) != inside
    namespaces = re.search(r"NSpid:\s+(.*)", Path(f"/proc/{row[0]}/status").read_text())
    assert namespaces is not None
    assert int(namespaces[1].split()[-1]) == inside


# --- lab/gpus/hold.py

HOLDER = """
import sys
from lab.gpus import hold
held = hold.take({card}, mib=1000)
for word in sys.stdin:
    try:
        held.resize(int(word))
        print(held.mib, flush=True)
    except hold.OutOfMemoryError as error:
        print(error, flush=True)
"""


def test_python_holder_grows_in_steps_and_is_refused_whole(machine: Machine) -> None:
    argv = [sys.executable, "-c", HOLDER.format(card=1)]
    with subprocess.Popen(
        argv, env=machine.environ(PYTHONPATH="."), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdin is not None and holder.stdout is not None
        for wanted in (5000, 90000, 2000):
            print(wanted, file=holder.stdin, flush=True)
            assert holder.stdout.readline() == f"{wanted}\n"
            assert machine.used(1) == wanted
        print(200000, file=holder.stdin, flush=True)
        assert holder.stdout.readline().startswith("CUDA out of memory. Tried to allocate 193.36 GiB. GPU 1 has")
        assert machine.used(1) == 2000
        holder.stdin.close()
        assert holder.wait(10) == 0
    assert machine.used(1) == 0


def test_cuda_visible_devices_is_honoured(machine: Machine) -> None:
    script = "from lab.gpus.hold import visible_cards; print(visible_cards())"
    for value, expected in {"1,0": "[1, 0]", machine.cards[1].uuid: "[1]", "0,9,1": "[0]", "": "[]"}.items():
        done = machine.run(sys.executable, "-c", script, PYTHONPATH=".", CUDA_VISIBLE_DEVICES=value)
        assert done.stdout.strip() == expected
    assert machine.run(sys.executable, "-c", script, PYTHONPATH=".").stdout.strip() == "[0, 1]"
