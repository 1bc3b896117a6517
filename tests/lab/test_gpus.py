"""The simulated GPUs: nvidia-smi says what the real one says, and memory follows the processes that hold it."""

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

NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA "
    "driver is installed and running.\n\n"
)
LOST = "Unable to determine the device handle for GPU1: GPU is lost.  Reboot the system to recover this GPU\n\n\n"


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with running_machine(tmp_path / "gpus") as running:
        yield running


# --- what nvidia-smi prints


def test_csv_has_canonical_headers_and_units(machine: Machine) -> None:
    machine.hold(20000, gpu="1")
    fields = "index,gpu_name,gpu_bus_id,memory.total,memory.used,memory.free,memory.reserved,clocks.sm,power.draw"
    header, first, second = machine.smi(f"--query-gpu={fields}", "--format=csv").stdout.splitlines()
    assert header == (
        "index, name, pci.bus_id, memory.total [MiB], memory.used [MiB], memory.free [MiB], memory.reserved [MiB], "
        "clocks.current.sm [MHz], power.draw [W]"
    )
    assert first == "0, NVIDIA H200, 00000000:01:00.0, 143771 MiB, 0 MiB, 143157 MiB, 614 MiB, 345 MHz, 76.54 W"
    assert second.startswith("1, NVIDIA H200, 00000000:21:00.0, 143771 MiB, 20000 MiB, 123157 MiB, 614 MiB, ")


def test_nounits_strips_the_cells_but_not_the_header(machine: Machine) -> None:
    done = machine.smi("--query-gpu", "memory.used,memory.used,temperature.gpu", "--format=csv,nounits", "-i", "1")
    assert done.stdout == "memory.used [MiB], memory.used [MiB], temperature.gpu\n0, 0, 31\n"


def test_card_is_chosen_by_index_uuid_or_bus(machine: Machine) -> None:
    card = machine.cards[1]
    for choice in ("1", card.uuid, card.bus_id):
        assert machine.gpu("uuid", options=["-i", choice]) == [[card.uuid]]
        assert machine.gpu("uuid", options=[f"--id={choice}"]) == [[card.uuid]]
    assert machine.gpu("index", options=["-i", "0,1"]) == [["0"], ["1"]]


def test_list_shows_name_and_uuid(machine: Machine) -> None:
    expected = "".join(f"GPU {n}: NVIDIA H200 (UUID: {card.uuid})\n" for n, card in enumerate(machine.cards))
    assert machine.smi("-L").stdout == expected


def test_table_has_straight_edges(machine: Machine) -> None:
    holder = machine.hold(20000)
    lines = machine.smi().stdout.splitlines()
    assert {len(line) for line in lines[1:]} == {89}
    assert "|   0  NVIDIA H200                    On  | 00000000:01:00.0 Off |                    0 |" in lines
    assert any(re.search(rf"\|    0   N/A  N/A +{holder.pid}      C   sleep +20000MiB \|", line) for line in lines)


def test_idle_table_says_that_nothing_runs(machine: Machine) -> None:
    assert "|  No running processes found" in machine.smi().stdout


def test_fields_depend_on_the_driver(machine: Machine) -> None:
    assert machine.smi("--query-gpu=gpu_recovery_action", "--format=csv").returncode == 2
    assert machine.gpu("reset_status.reset_required") == [["No"], ["No"]]
    state.write_cards(machine.directory, [replace(card, driver="590.48.01") for card in machine.cards])
    assert machine.smi("--query-gpu=reset_status.reset_required", "--format=csv").returncode == 2
    assert machine.gpu("gpu_recovery_action") == [["None"], ["None"]]


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (["--query-gpu=index,bogus", "--format=csv"], 2, 'Field "bogus" is not a valid field to query.\n\n'),
        (["--query-gpu=index, name", "--format=csv"], 2, 'Field " name" is not a valid field to query.\n\n'),
        (["--query-gpu=index"], 2, "\"--format=\" switch is missing. Please run 'nvidia-smi -h' for help.\n\n"),
        (["--query-gpu=index", "--format=csv,wide"], 2, "Format modifier is not recognized.\n\n"),
        (["--bogus"], 255, "ERROR: Option --bogus is not recognized. Please run 'nvidia-smi -h'.\n\n"),
        (["-i", "7", "-L"], 6, "No devices were found\n"),
        (["--query-gpu=index", "--query-compute-apps=pid", "--format=csv"], 2, "Only one --query-* switch can be"),
        (["--query-gpu=index", "--format=csv", "-lms", "0"], 2, "Provided [-l(ms) | --loop(-ms)=] value is incorrect."),
    ],
)
def test_wrong_arguments(machine: Machine, arguments: list[str], status: int, text: str) -> None:
    done = machine.smi(*arguments)
    assert (done.returncode, done.stderr) == (status, "")
    assert done.stdout.startswith(text)


# --- what nvidia-smi prints when the machine is not well


@pytest.mark.parametrize(
    ("fault", "status", "text"),
    [
        ("no-driver", 9, NO_DRIVER),
        ("no-library", 12, "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system."),
        ("mismatch", 18, "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.163\n"),
        ("unknown-error", 255, "Failed to initialize NVML: Unknown Error\n"),
        ("blocked", 17, "Failed to initialize NVML: GPU access blocked by the operating system\n"),
        ("no-permission", 4, "Failed to initialize NVML: Insufficient Permissions\n"),
        ("in-use", 19, "Failed to initialize NVML: In use by another client\n"),
        ("no-devices", 6, "No devices were found\n"),
        ("count-failed 15", 15, "Unable to determine the number of GPUs"),
        ("lost 1", 15, LOST),
        ("reset 1", 255, "Unable to determine the device handle for GPU1: A GPU reset must occur before this GPU can"),
        ("broken 1", 255, "Unable to determine the device handle for GPU1: Unknown Error\n"),
        ("exit 42 Something new", 42, "Something new\n"),
    ],
)
def test_fatal_message(machine: Machine, fault: str, status: int, text: str) -> None:
    machine.break_gpus(fault)
    for query in ("--query-gpu=index", "--query-compute-apps=pid"):
        done = machine.smi(query, "--format=csv,noheader")
        assert (done.returncode, done.stderr) == (status, "")
        assert done.stdout.startswith(text)
    machine.break_gpus(None)
    assert machine.smi("--query-gpu=index", "--format=csv").returncode == 0


def test_no_devices_is_no_error_for_a_list(machine: Machine) -> None:
    machine.break_gpus("no-devices")
    assert (machine.smi("-L").returncode, machine.smi("-L").stdout) == (0, "No devices found.\n")


def test_beside_a_lost_card_only_an_index_finds_the_healthy_one(machine: Machine) -> None:
    machine.break_gpus("lost 1")
    assert machine.gpu("index", options=["-i", "0"]) == [["0"]]
    by_uuid = machine.smi("--query-gpu=index", "--format=csv", "-i", machine.cards[0].uuid)
    assert by_uuid.returncode == 255
    assert by_uuid.stdout == "Problem with GPU 1: GPU is lost.  Reboot the system to recover this GPU\n"


def test_card_without_permission_is_left_out_silently(machine: Machine) -> None:
    machine.break_gpus("denied 0")
    assert machine.gpu("index") == [["1"]]
    assert machine.smi("-L").returncode == 4


def test_cells_can_be_spoiled_one_by_one(machine: Machine) -> None:
    machine.break_gpus("cell 0 memory.* [N/A]\ncell 1 memory.used [GPU requires reset]")
    rows = machine.gpu("index", "memory.total", "memory.used", "utilization.gpu")
    assert rows == [["0", "[N/A]", "[N/A]", "0"], ["1", "143771", "[GPU requires reset]", "0"]]


def test_process_list_can_be_refused_or_hidden(machine: Machine) -> None:
    machine.hold(9000)
    machine.break_gpus("apps [Insufficient Permissions]")
    refused = "[Insufficient Permissions]"
    assert machine.apps() == [[refused, refused, card.uuid, refused] for card in machine.cards]
    machine.break_gpus("hide")
    assert machine.apps() == []
    assert machine.used() == 9000
    machine.break_gpus("cell * used_gpu_memory [N/A]")
    assert [row[3] for row in machine.apps()] == ["[N/A]"]


def test_output_can_be_cut_or_missing(machine: Machine) -> None:
    whole = machine.smi("--query-gpu=uuid", "--format=csv,noheader").stdout
    machine.break_gpus("cut")
    cut = machine.smi("--query-gpu=uuid", "--format=csv,noheader")
    assert (cut.returncode, cut.stdout) == (0, whole[:-7])
    machine.break_gpus("empty")
    empty = machine.smi("--query-gpu=uuid", "--format=csv,noheader")
    assert (empty.returncode, empty.stdout) == (0, "")


def test_unknown_field_of_this_driver(machine: Machine) -> None:
    machine.break_gpus("missing memory.reserved")
    assert machine.smi("--query-gpu=index,memory.reserved", "--format=csv").returncode == 2
    assert machine.gpu("index") == [["0"], ["1"]]


def test_slow_answer_comes_late_and_a_hung_one_ignores_sigterm(machine: Machine) -> None:
    machine.break_gpus("slow 0.2")
    begun = time.monotonic()
    assert machine.used() == 0
    assert 0.2 <= time.monotonic() - begun < 1.0
    machine.break_gpus("hang 30")
    hung = machine.start("nvidia-smi", "-L")
    wait_until(lambda: _blocks(hung.pid, signal.SIGTERM))
    hung.terminate()
    with pytest.raises(subprocess.TimeoutExpired):
        hung.wait(0.15)
    kill(hung)


def _blocks(pid: int, number: int) -> bool:
    mask = re.search(r"SigBlk:\s+(\w+)", Path(f"/proc/{pid}/status").read_text())
    return mask is not None and bool(int(mask[1], 16) >> (number - 1) & 1)


def test_loop_prints_the_header_once_and_sees_what_changes(machine: Machine) -> None:
    argv = [str(machine.build / "nvidia-smi"), "--query-gpu=memory.used", "--format=csv", "-lms", "20", "-i", "0"]
    with subprocess.Popen(argv, env=machine.environ(), stdout=subprocess.PIPE, text=True) as loop:
        assert loop.stdout is not None
        assert [loop.stdout.readline() for _ in range(3)] == ["memory.used [MiB]\n", "0 MiB\n", "0 MiB\n"]
        machine.hold(5000)
        line = next(line for line in loop.stdout if line != "0 MiB\n")
        assert line == "5000 MiB\n"
        machine.break_gpus("no-driver")
        rest = loop.stdout.read()
        assert "memory.used" not in rest
        assert rest.endswith(NO_DRIVER)
        assert loop.wait(5) == 9


# --- memory and the processes that hold it


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
