"""Cards that do not tell what a plain one tells: odd cells, odd rows of processes, MIG, unified memory, a desktop."""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from lab.specs import CardSpec
from tests.lab.machine import H200, Machine, running_machine, wait_until

pytestmark = pytest.mark.process

MIG = CardSpec(name="NVIDIA H200", memory_mib=143771, reserved_mib=614, mig=("3g.71gb", "1g.18gb"))
GB10 = CardSpec(name="NVIDIA GB10", memory_mib=122572, kind="unified", bus_id="0000000F:01:00.0", driver="580.95.05")
DESKTOP = CardSpec(name="NVIDIA GeForce RTX 4080 SUPER", memory_mib=16376, reserved_mib=434, kind="desktop")

ASK = """
import json, sys, pynvml as nvml
def ask(call, *words, **more):
    try:
        return call(*words, **more)
    except nvml.NVMLError as error:
        return error.value
def memory(card, **more):
    found = ask(nvml.nvmlDeviceGetMemoryInfo, card, **more)
    return found if isinstance(found, int) else found.used >> 20
def processes(call, card):
    found = ask(call, card)
    if isinstance(found, int):
        return found
    return [[p.pid, p.usedGpuMemory and p.usedGpuMemory >> 20, p.gpuInstanceId] for p in found]
def tell(card):
    load = ask(nvml.nvmlDeviceGetUtilizationRates, card)
    return {
        "v1": memory(card), "v2": memory(card, version=nvml.nvmlMemory_v2),
        "load": load if isinstance(load, int) else [load.gpu],
        "compute": processes(nvml.nvmlDeviceGetComputeRunningProcesses, card),
        "graphics": processes(nvml.nvmlDeviceGetGraphicsRunningProcesses, card),
        "mig": ask(nvml.nvmlDeviceGetMigMode, card), "name": ask(nvml.nvmlDeviceGetName, card),
        "uuid": ask(nvml.nvmlDeviceGetUUID, card), "screen": ask(nvml.nvmlDeviceGetDisplayActive, card),
    }
nvml.nvmlInit()
cards = [nvml.nvmlDeviceGetHandleByIndex(n) for n in range(nvml.nvmlDeviceGetCount())]
parts = [ask(nvml.nvmlDeviceGetMigDeviceHandleByIndex, cards[0], n) for n in range(7)]
parts = [part for part in parts if not isinstance(part, int)]
print(json.dumps({"cards": [tell(card) for card in cards], "parts": [tell(part) for part in parts]}))
"""


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with running_machine(tmp_path / "gpus") as running:
        yield running


def one(tmp_path: Path, *cards: CardSpec) -> Any:
    return running_machine(tmp_path / "gpus", cards)


def nvml(machine: Machine) -> Any:
    done = machine.run(sys.executable, "-c", ASK)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# --- odd cells

CELLS = {
    "[Invalid Argument]": 2,
    "[N/A]": 3,
    "[Not Supported]": 3,
    "N/A": 3,
    "[Insufficient Permissions]": 4,
    "[Not Found]": 6,
    "[Driver Not Loaded]": 9,
    "[Function Not Found]": 13,
    "[GPU is lost]": 15,
    "[GPU requires reset]": 16,
    "[Driver/library version mismatch]": 18,
    "[Insufficient Memory]": 20,
    "[Requested functionality has been deprecated]": 26,
    "[Unknown Error]": 999,
    "ERR!": 999,
}
FIELDS = ("memory.total", "memory.used", "utilization.gpu", "temperature.gpu", "power.draw", "uuid", "name", "pstate")


@pytest.mark.parametrize("text", CELLS)
def test_any_cell_of_any_card_can_be_odd_and_the_status_stays_zero(machine: Machine, text: str) -> None:
    for field in FIELDS:
        machine.break_gpus(f"cell 1 {field} {text}")
        healthy, odd = machine.gpu("index", field)
        assert odd == ["1", text], field
        assert healthy[1] != text
    machine.break_gpus(f"cell 0 clocks.sm {text}")
    assert machine.gpu("clocks.sm")[0] == [text]


def test_nvml_has_the_code_of_an_odd_cell(machine: Machine) -> None:
    for text, code in CELLS.items():
        machine.break_gpus(f"cell 1 memory.* {text}\ncell 1 utilization.gpu {text}")
        healthy, odd = nvml(machine)["cards"]
        assert (odd["v1"], odd["v2"], odd["load"]) == (code, code, code), text
        assert (healthy["v2"], healthy["load"]) == (0, [0])


def test_an_idle_card_may_say_that_it_is_busy(machine: Machine) -> None:
    machine.break_gpus("cell 0 utilization.gpu 100")
    assert machine.gpu("utilization.gpu") == [["100"], ["0"]]
    assert [card["load"] for card in nvml(machine)["cards"]] == [[100], [0]]
    assert machine.smi("--query-gpu=utilization.gpu", "--format=csv,noheader").stdout == "100 %\n0 %\n"


def test_the_table_has_its_own_words_for_it(machine: Machine) -> None:
    machine.break_gpus("cell 0 power.draw ERR!\ncell 0 fan.speed ERR!\ncell 1 memory.* [N/A]")
    lines = machine.smi().stdout.splitlines()
    assert {len(line) for line in lines[1:]} == {89}
    assert any(line.startswith("| ERR!") and "ERR! / 700W" in line for line in lines)
    assert any("Not Supported |" in line for line in lines)


# --- odd rows of processes


def test_the_rows_of_one_card_can_be_refused(machine: Machine) -> None:
    holder = machine.hold(500, gpu="0,1")
    for text, code in {
        "[Insufficient Permissions]": 4,
        "[N/A]": 3,
        "[GPU is lost]": 15,
        "[Unknown Error]": 999,
    }.items():
        machine.break_gpus(f"apps 1 {text}")
        first, second = machine.apps()
        assert first[0] == str(holder.pid)
        assert second == [text, text, machine.cards[1].uuid, text]
        assert [card["compute"] for card in nvml(machine)["cards"]] == [[[holder.pid, 500, 0xFFFFFFFF]], code]


def test_a_row_can_have_a_process_that_does_not_exist(machine: Machine) -> None:
    machine.break_gpus("app 0 31999 9000 [Not Found]\napp 1 32001 [N/A] /usr/bin/python3, old")
    uuids = [card.uuid for card in machine.cards]
    assert machine.apps() == [
        ["31999", "[Not Found]", uuids[0], "9000"],
        ["32001", "/usr/bin/python3? old", uuids[1], "[N/A]"],
    ]
    shown = [card["compute"] for card in nvml(machine)["cards"]]
    assert shown == [[[31999, 9000, 0xFFFFFFFF]], [[32001, None, 0xFFFFFFFF]]]


def test_sizes_and_names_of_processes_can_be_unknown(machine: Machine) -> None:
    holder = machine.hold(500)
    machine.break_gpus("cell 0 used_gpu_memory [N/A]\ncell 0 process_name [Not Found]")
    assert machine.apps() == [[str(holder.pid), "[Not Found]", machine.cards[0].uuid, "[N/A]"]]


THREAD = """
import threading, time
from lab.gpus import hold
def work():
    hold.take(0, mib=700)
    time.sleep(60)
threading.Thread(target=work).start()
"""


def test_the_thread_can_stand_for_its_process(machine: Machine) -> None:
    holder = machine.start(sys.executable, "-c", THREAD, PYTHONPATH=".")
    wait_until(lambda: machine.used() == 700)
    assert machine.apps()[0][0] == str(holder.pid)
    machine.break_gpus("thread-ids")
    thread = int(machine.apps()[0][0])
    assert thread != holder.pid
    assert Path(f"/proc/{holder.pid}/task/{thread}").exists()
    assert nvml(machine)["cards"][0]["compute"][0][0] == thread


# --- MIG, unified memory, a desktop, what the driver reserves


def test_mig_shows_the_parent_and_its_devices(tmp_path: Path) -> None:
    with one(tmp_path, MIG) as machine:
        card = machine.cards[0]
        assert machine.gpu("memory.used", "utilization.gpu", "mig.mode.current") == [["55", "[N/A]", "Enabled"]]
        big, small = card.mig_uuids()
        assert machine.smi("-L").stdout == (
            f"GPU 0: NVIDIA H200 (UUID: {card.uuid})\n"
            f"  MIG 3g.71gb     Device  0: (UUID: {big})\n"
            f"  MIG 1g.18gb     Device  1: (UUID: {small})\n"
        )
        holder = machine.hold(4000, options=["--mig", "1"])
        assert machine.apps() == [[str(holder.pid), "sleep", card.uuid, "4000"]]
        assert machine.used() == 4055
        lines = machine.smi().stdout.splitlines()
        assert {len(line) for line in lines[1:]} == {89}
        assert any(line.startswith("|  0    8   0   1  |            4009MiB / 18108MiB  |") for line in lines)
        assert any(f"|    0     8    0 {holder.pid:>9}      C   sleep" in line for line in lines)
        answer = nvml(machine)
        assert answer["cards"][0]["mig"] == [1, 1]
        assert answer["cards"][0]["load"] == 3
        assert answer["cards"][0]["compute"] == [[holder.pid, 4000, 8]]
        assert [part["uuid"] for part in answer["parts"]] == [big, small]
        assert [part["v2"] for part in answer["parts"]] == [9, 4009]
        assert [part["compute"] for part in answer["parts"]] == [[], [[holder.pid, 4000, 8]]]


def test_a_mig_device_has_its_own_room(tmp_path: Path) -> None:
    with one(tmp_path, MIG) as machine:
        for device, status in (("0", 0), ("1", 1), ("2", 1)):
            done = machine.run("gpu-hold", "--mib", "20000", "--mig", device, "--", "true")
            assert done.returncode == status, device


def test_unified_memory_is_known_of_processes_only(tmp_path: Path) -> None:
    with one(tmp_path, GB10) as machine:
        holder = machine.hold(90000)
        fields = ("memory.total", "memory.used", "memory.free", "utilization.gpu", "pci.bus_id")
        assert machine.gpu(*fields) == [["[N/A]", "[N/A]", "[N/A]", "12", "0000000F:01:00.0"]]
        assert machine.apps() == [[str(holder.pid), "sleep", machine.cards[0].uuid, "90000"]]
        assert "Not Supported |" in machine.smi().stdout
        (card,) = nvml(machine)["cards"]
        assert (card["v1"], card["v2"], card["compute"]) == (3, 3, [[holder.pid, 90000, 0xFFFFFFFF]])


def test_a_desktop_has_memory_in_use_and_processes_that_only_draw(tmp_path: Path) -> None:
    with one(tmp_path, DESKTOP) as machine:
        fields = ("memory.used", "display_active", "persistence_mode", "mig.mode.current", "ecc.mode.current")
        assert machine.gpu(*fields) == [["596", "Enabled", "Disabled", "[N/A]", "[N/A]"]]
        drawing = machine.hold(120, options=["--type", "G"])
        both = machine.hold(25, options=["--type", "C+G"])
        assert [row[0] for row in machine.apps()] == [str(both.pid)]
        table = machine.smi().stdout
        assert f"{drawing.pid}      G   sleep" in table
        assert f"{both.pid}    C+G   sleep" in table
        (card,) = nvml(machine)["cards"]
        assert [row[0] for row in card["compute"]] == [both.pid]
        assert {row[0] for row in card["graphics"]} == {drawing.pid, both.pid}
        assert card["screen"] == 1


def test_the_first_version_counts_what_the_driver_reserves(machine: Machine) -> None:
    machine.hold(1000)
    assert [(card["v1"], card["v2"]) for card in nvml(machine)["cards"]] == [(1614, 1000), (614, 0)]
    assert machine.gpu("memory.used", "memory.reserved") == [["1000", "614"], ["0", "614"]]


# --- a card without a handle


@pytest.mark.parametrize(
    ("fault", "status", "text"),
    [
        ("lost", 15, "GPU is lost.  Reboot the system to recover this GPU\n"),
        ("reset", 255, "A GPU reset must occur before this GPU can be used again.\n\n.\n"),
        ("broken", 255, "Unknown Error\n"),
    ],
)
def test_beside_a_bad_card_the_index_finds_the_good_one_and_the_uuid_does_not(
    machine: Machine, fault: str, status: int, text: str
) -> None:
    uuid = machine.cards[0].uuid
    machine.break_gpus(f"{fault} 1\nbus-in-message")
    done = machine.smi("--query-gpu=index", "--format=csv,noheader")
    assert done.returncode == status
    assert done.stdout.startswith(f"Unable to determine the device handle for GPU0000:21:00.0: {text}")
    assert machine.gpu("uuid", options=["-i", "0"]) == [[uuid]]
    assert machine.smi("--query-gpu=index", "--format=csv", "-i", uuid).returncode == 255
    apps = machine.smi("--query-compute-apps=pid", "--format=csv,noheader", "-i", "0")
    assert (apps.returncode, apps.stdout) == (0, "")


def cells(rows: Sequence[Sequence[str]]) -> list[str]:
    return [cell for row in rows for cell in row]


def test_whole_cards_can_be_silent(machine: Machine) -> None:
    """As on a board that shares the machine's memory and tells its name only."""
    machine.break_gpus("cell * * [N/A]\ncell 0 name Orin (nvgpu)")
    assert cells(machine.gpu("memory.used", "utilization.gpu", "uuid")) == ["[N/A]"] * 6


def test_h200_is_plain() -> None:
    assert (H200.placed("m", 0).baseline_mib, MIG.placed("m", 0).baseline_mib) == (0, 55)
