"""The simulated nvidia-smi says what the real one says, well or not."""

import re
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lab.gpus import state
from tests.lab.machine import Machine, kill, running_machine, wait_until

pytestmark = pytest.mark.process

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
