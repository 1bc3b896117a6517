"""A card's index, its device file and its place in the machine are three numbers, and each holds where it should."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.fleet import CardSpec, Container, Fleet, Host, MachineError, Node
from lab.gpus import procfs, state
from tests.lab.conftest import Ssh
from tests.lab.machine import H200, Machine, open_files, running_machine

QUERY = "nvidia-smi --query-gpu=index,uuid,pci.bus_id --format=csv,noheader"
APPS = "nvidia-smi --query-compute-apps=gpu_uuid,used_memory --format=csv,noheader,nounits"
NVML = """
import json, pynvml as nvml
nvml.nvmlInit()
cards = [nvml.nvmlDeviceGetHandleByIndex(n) for n in range(nvml.nvmlDeviceGetCount())]
facts = (nvml.nvmlDeviceGetIndex, nvml.nvmlDeviceGetMinorNumber, nvml.nvmlDeviceGetUUID)
print(json.dumps([[fact(card) for fact in facts] for card in cards]))
"""


# --- one machine, without namespaces


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """Its second slot is first on the bus, and no minor number is an index."""
    cards = [
        CardSpec(name="NVIDIA H200", memory_mib=143771, minor=4, bus_id="00000000:41:00.0"),
        CardSpec(name="NVIDIA H200", memory_mib=143771, minor=7, bus_id="00000000:01:00.0"),
    ]
    with running_machine(tmp_path / "gpus", cards) as running:
        yield running


@pytest.mark.process
def test_index_follows_the_bus_and_minor_the_device_file(machine: Machine) -> None:
    first, second = machine.cards[1], machine.cards[0]
    assert machine.gpu("index", "uuid") == [["0", first.uuid], ["1", second.uuid]]
    answer = machine.run(sys.executable, "-c", NVML)
    assert json.loads(answer.stdout) == [[0, 7, first.uuid], [1, 4, second.uuid]]


@pytest.mark.process
def test_a_holder_opens_the_file_of_its_card(machine: Machine) -> None:
    holder = machine.hold(3000, gpu="1")
    files = {name for name in open_files(holder.pid) if "/nvidia" in name}
    assert files == {str(machine.directory / "dev" / name) for name in ("nvidia4", "nvidiactl", "nvidia-uvm")}
    assert [context.card for context in state.read_contexts(machine.directory)] == [0]
    assert [machine.used(0), machine.used(1)] == [0, 3000]


@pytest.mark.process
def test_cards_without_their_file_are_left_out_and_the_rest_is_numbered_anew(machine: Machine) -> None:
    (machine.directory / "dev/nvidia7").unlink()
    assert machine.gpu("index", "uuid", "count") == [["0", machine.cards[0].uuid, "1"]]
    assert json.loads(machine.run(sys.executable, "-c", NVML).stdout) == [[0, 4, machine.cards[0].uuid]]
    assert machine.smi("-L").stdout == f"GPU 0: NVIDIA H200 (UUID: {machine.cards[0].uuid})\n"
    assert machine.run("gpu-hold", "--gpu", "1", "--mib", "1", "--", "true").returncode == 1
    assert machine.smi("--query-gpu=index", "--format=csv", "-i", machine.cards[1].uuid).returncode == 6
    (machine.directory / "dev/nvidia4").unlink()
    assert machine.smi().returncode == 6
    (machine.directory / "dev/nvidiactl").unlink()
    assert machine.smi().returncode == 9


@pytest.mark.process
@pytest.mark.parametrize("name", ["1", "nvidia7", "uuid", "00000000:01:00.0"])
def test_a_fault_names_a_card_by_what_is_the_same_everywhere(machine: Machine, name: str) -> None:
    machine.break_gpus(f"cell {machine.cards[1].uuid if name == 'uuid' else name} memory.used [N/A]")
    assert machine.gpu("uuid", "memory.used") == [[machine.cards[1].uuid, "[N/A]"], [machine.cards[0].uuid, "0"]]


def test_what_the_kernel_tells_of_a_card() -> None:
    card = CardSpec(name="NVIDIA H200", minor=7, bus_id="0000000F:C1:00.0", uuid="GPU-1").placed("gpu1", 0)
    lines = procfs.information(card, 0).splitlines()
    assert lines[0] == "Model: \t\t NVIDIA H200"
    assert [line.split(":")[0] for line in lines[1:6]] == ["IRQ", "GPU UUID", "Video BIOS", "Bus Type", "DMA Size"]
    assert lines[2] == "GPU UUID: \t GPU-1"
    assert "Bus Location: \t 000f:c1:00.0" in lines
    assert "Device Minor: \t 7" in lines


def test_sixteen_cards_are_on_the_bus_in_the_order_of_their_slots() -> None:
    buses = [H200.placed("big", slot).bus_id for slot in range(16)]
    assert buses == sorted(buses)


# --- the fleet


@pytest.fixture
def swapped(fleet: Fleet) -> Host:
    return fleet.host("swapped")


@pytest.fixture
def pve2(fleet: Fleet) -> Node:
    return fleet.node("pve2")


@pytest.fixture
def ct231(fleet: Fleet) -> Container:
    return fleet.container(231)


@pytest.mark.lab
def test_a_container_numbers_its_own_cards(pve2: Node, ct231: Container, ssh: Ssh) -> None:
    assert [line.split(", ")[0] for line in ssh(pve2, QUERY).stdout.splitlines()] == ["0", "1", "2", "3"]
    shown = ssh(pve2, f"pct exec 231 -- {QUERY}").stdout.splitlines()
    assert shown == [f"{n}, {card.uuid}, {card.bus_id}" for n, card in enumerate(pve2.cards[2:])]
    assert ssh(pve2, "pct exec 231 -- ls /dev").stdout.count("nvidia") == 4
    assert [card.minor for card in ct231.cards] == [1, 0]
    assert "dev0: /dev/nvidia1,gid=44\n" in ssh(pve2, "pct config 231").stdout


@pytest.mark.lab
def test_memory_of_a_container_is_on_the_same_card_outside(fleet: Fleet, pve2: Node, ct231: Container) -> None:
    hold = "gpu-hold --gpu 1 --mib 2500 -- sleep 779 >/dev/null 2>&1 & echo $!"
    pid = ct231.exec(["sh", "-c", hold], timeout=10, env={"PATH": "/lab/bin:/usr/bin:/bin"}).stdout.decode().strip()
    try:
        for machine in (pve2, ct231):
            rows = machine.exec(["sh", "-c", f"until {APPS} | grep .; do :; done"], timeout=10).stdout.decode()
            assert rows == f"{pve2.cards[3].uuid}, 2500\n"
        files = ct231.exec(["sh", "-c", f"readlink /proc/{pid}/fd/*"], timeout=10).stdout.decode().split()
        assert [name for name in files if name.startswith("/dev/nvidia")][-1] == "/dev/nvidia0"
    finally:
        ct231.exec(["kill", "-9", pid], timeout=10)


@pytest.mark.lab
def test_the_kernel_names_every_card_also_in_a_container(pve2: Node, swapped: Host, fleet: Fleet, ssh: Ssh) -> None:
    look = "cd /proc/driver/nvidia/gpus && grep -h 'Device Minor' */information"
    expected = [f"Device Minor: \t {minor}" for minor in (3, 2, 1, 0)]
    assert ssh(pve2, f'pct exec 231 -- sh -c "{look}"').stdout.splitlines() == expected
    assert ssh(swapped, "ls /proc/driver/nvidia/gpus").stdout.split() == ["0000:01:00.0", "0000:21:00.0"]
    assert ssh(swapped, look).stdout.split() == ["Device", "Minor:", "5", "Device", "Minor:", "2"]
    assert " 550.163.01 " in ssh(swapped, "cat /proc/driver/nvidia/version").stdout
    assert ssh(swapped, "rm /proc/driver/nvidia/version").returncode == 1
    assert ssh(fleet.host("bare"), "ls /proc/driver").stdout == ""


@pytest.mark.lab
def test_a_stranger_is_put_on_the_card_that_was_named(fleet: Fleet, swapped: Host, ssh: Ssh) -> None:
    fleet.faults.gpu_hold(swapped, "nvidia2", 600)
    assert ssh(swapped, APPS).stdout == f"{swapped.cards[1].uuid}, 600\n"
    assert ssh(swapped, "fuser /dev/nvidia2 2>/dev/null").stdout.strip() != ""
    assert ssh(swapped, "fuser /dev/nvidia5 2>/dev/null").stdout.strip() == ""
    swapped.exec(["pkill", "-9", "-f", "^sleep 86400"], timeout=10)
    with pytest.raises(MachineError, match=r"No card is called 2\. There are: 0 \(nvidia5\), 1 \(nvidia2\)\."):
        fleet.faults.gpu(swapped, "lost", "2")


@pytest.mark.lab
def test_after_a_boot_root_makes_the_device_files_by_looking(fleet: Fleet, swapped: Host, ssh: Ssh) -> None:
    fleet.faults.gpu_nodes_missing(swapped)
    assert ssh(swapped, "ls /dev | grep nvidia").stdout == ""
    assert ssh(swapped, "nvidia-smi -L").stdout.count("GPU ") == 2
    assert ssh(swapped, "ls /dev | grep nvidia").stdout.split() == ["nvidia2", "nvidia5", "nvidiactl"]
    fleet.faults.reboot(swapped)
    assert "nvidia-uvm" in ssh(swapped, "ls /dev").stdout
