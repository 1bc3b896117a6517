"""Programs that nobody here wrote run on the NVML mock: nvidia-ml-py, gpustat, nvitop."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.machine import Machine, running_machine, wait_until

pytestmark = pytest.mark.process

ASK = """
import json, sys, pynvml as nvml
def ask(call):
    try:
        return call()
    except nvml.NVMLError as error:
        return type(error).__name__
def cards():
    found = []
    for index in range(nvml.nvmlDeviceGetCount()):
        card = nvml.nvmlDeviceGetHandleByIndex(index)
        one, two = nvml.nvmlDeviceGetMemoryInfo(card), nvml.nvmlDeviceGetMemoryInfo(card, version=nvml.nvmlMemory_v2)
        apps = nvml.nvmlDeviceGetComputeRunningProcesses(card)
        found.append({"uuid": nvml.nvmlDeviceGetUUID(card), "v1": one.used >> 20, "v2": two.used >> 20,
            "reserved": two.reserved >> 20, "free": two.free >> 20, "total": two.total >> 20,
            "apps": [[app.pid, app.usedGpuMemory and app.usedGpuMemory >> 20] for app in apps]})
    return found
for _ in sys.stdin:
    answer = ask(nvml.nvmlInit)
    if answer is None:
        answer = ask(cards)
        nvml.nvmlShutdown()
    print(json.dumps(answer), flush=True)
"""

HOLD_AND_ASK = """
import pynvml as nvml
from lab.gpus import hold
hold.take(0, mib=3000)
nvml.nvmlInit()
card = nvml.nvmlDeviceGetHandleByIndex(0)
for _ in range(3):
    print(nvml.nvmlDeviceGetMemoryInfo(card, version=nvml.nvmlMemory_v2).used >> 20,
          [app.usedGpuMemory >> 20 for app in nvml.nvmlDeviceGetComputeRunningProcesses(card)], flush=True)
nvml.nvmlShutdown()
input()
"""


FAULTS = {
    "no-driver": "NVMLError_DriverNotLoaded",
    "no-library": "NVMLError_LibraryNotFound",
    "mismatch": "NVMLError_LibRmVersionMismatch",
    "unknown-error": "NVMLError_Unknown",
    "lost 1": "NVMLError_GpuIsLost",
    "reset 0": "NVMLError_ResetRequired",
    "cell * memory.* [N/A]": "NVMLError_NotSupported",
    "apps [Insufficient Permissions]": "NVMLError_NoPermission",
}


class Asker:
    """A process with nvidia-ml-py that starts NVML, asks everything and shuts it down, as often as wanted."""

    def __init__(self, machine: Machine) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", ASK],
            env=machine.environ(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self) -> Any:
        assert self.process.stdin is not None and self.process.stdout is not None
        print(file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with running_machine(tmp_path / "gpus") as running:
        yield running


@pytest.fixture
def ask(machine: Machine) -> Iterator[Asker]:
    asker = Asker(machine)
    yield asker
    asker.close()


def test_memory_and_processes(machine: Machine, ask: Asker) -> None:
    holder = machine.hold(20000, gpu="1")
    idle, busy = ask()
    assert idle == {
        "uuid": machine.cards[0].uuid,
        "v1": 614,
        "v2": 0,
        "reserved": 614,
        "free": 143157,
        "total": 143771,
        "apps": [],
    }
    assert busy["v2"] == 20000
    assert busy["v1"] == 20614
    assert busy["free"] == 123157
    assert busy["apps"] == [[holder.pid, 20000]]


def test_every_fault_is_an_error_of_the_binding(machine: Machine, ask: Asker) -> None:
    for fault, error in FAULTS.items():
        machine.break_gpus(fault)
        assert ask() == error, fault
    machine.break_gpus(None)
    assert len(ask()) == 2


def test_hidden_processes_and_unknown_sizes(machine: Machine, ask: Asker) -> None:
    holder = machine.hold(4000)
    machine.break_gpus("hide")
    assert [card["apps"] for card in ask()] == [[], []]
    machine.break_gpus("cell * used_gpu_memory [N/A]")
    assert ask()[0]["apps"] == [[holder.pid, None]]


def test_asking_for_its_own_memory_does_not_lose_it(machine: Machine) -> None:
    output = machine.directory / "own"
    machine.start("sh", "-c", f"sleep 60 | exec {sys.executable} -c '{HOLD_AND_ASK}'", log=output, PYTHONPATH=".")
    expected = "3000 [3000]\n" * 3
    wait_until(lambda: output.exists() and len(output.read_text()) >= len(expected))
    assert output.read_text() == expected
    assert machine.used() == 3000


@pytest.mark.slow
def test_gpustat(machine: Machine) -> None:
    holder = machine.hold(20000, gpu="1")
    program = str(Path(sys.executable).with_name("gpustat"))
    done = machine.run(program, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["driver_version"] == "550.163.01"
    idle, busy = report["gpus"]
    assert (idle["memory.used"], idle["processes"]) == (0, [])
    assert (busy["uuid"], busy["memory.used"]) == (machine.cards[1].uuid, 20000)
    (process,) = busy["processes"]
    assert (process["pid"], process["gpu_memory_usage"], process["command"]) == (holder.pid, 20000, "sleep")


@pytest.mark.slow
def test_nvitop(machine: Machine) -> None:
    """Two processes: a wrong guess of the layout of the list would still get the first one right."""
    holders = [machine.hold(mib, gpu="1") for mib in (12000, 3000)]
    program = str(Path(sys.executable).with_name("nvitop"))
    done = machine.run(program, "-1", "--ascii", LINES="60", COLUMNS="100", TERM="dumb")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert "15000MiB / 140.4GiB" in done.stdout
    for holder, size in zip(holders, ("12000MiB", "3000MiB"), strict=True):
        assert re.search(rf"\b{holder.pid} C +\w+ +{size}", done.stdout), done.stdout
