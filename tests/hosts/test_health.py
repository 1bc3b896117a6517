"""The kernel's log and the device files, from recorded outputs; what the driver says of a card's health."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosts.probe.frames import Section, Unknown
from hosts.probe.gpus import GpuList, Recovery, parse_gpus
from hosts.probe.health import DeviceNodes, KernelLog, bus_of, parse_kernel_log, parse_nodes
from tests.hosts.recorded import recorded


def log(name: str) -> KernelLog:
    found = parse_kernel_log(recorded(f"kernel/{name}", name="kernel"))
    assert isinstance(found, KernelLog)
    return found


def test_faults_are_read_from_dmesg() -> None:
    assert [(xid.code, xid.bus, xid.seconds) for xid in log("dmesg").xids] == [
        (79, "0000:44:00", 4711.081523),
        (45, "0000:61:00", 51200.500001),
        (94, "0000:b3:00", 51201.0),
        (154, "0008:01:00", 51202.25),
    ]
    assert log("dmesg").xids[3].text == "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
    assert log("dmesg").oldest == 0


def test_and_from_the_journal() -> None:
    (xid,) = log("journal").xids
    assert (xid.code, xid.bus, xid.seconds) == (119, "0000:61:00", 9321.402118)


@pytest.mark.parametrize("name", ["refused", "refused_busybox", "journal_refused"])
def test_a_log_that_may_not_be_read_is_unknown_and_not_without_faults(name: str) -> None:
    found = parse_kernel_log(recorded(f"kernel/{name}", name="kernel"))
    assert isinstance(found, Unknown) and "may not read" in found.reason


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty, or this login may not read it"),
        ("\n", "is empty, or this login may not read it"),
        ("sh: 212: dmesg: not found\n", "has no dmesg"),
        ("bash: line 212: dmesg: command not found\n", "has no dmesg"),
        ("sh: 218: journalctl: not found\n", "This login may not read"),
        ("timeout: failed to run command 'journalctl': No such file or directory\n", "This login may not read"),
        ("Linux version 6.1.0-18-amd64 (debian-kernel@lists.debian.org)\n", "has no times"),
        ("NVRM: Xid (PCI:0000:61:00): 79, pid=1, GPU has fallen off the bus.\n", "has no times"),
    ],
)
def test_each_log_that_tells_nothing_has_its_own_reason(text: str, words: str) -> None:
    found = parse_kernel_log(Section("kernel", text.encode(), 0))
    assert isinstance(found, Unknown) and words in found.reason


@given(st.integers(min_value=0))
def test_a_log_without_its_first_line_is_never_a_clean_one(cut: int) -> None:
    whole = recorded("kernel/dmesg", name="kernel").content
    rest = whole[cut % len(whole) :]
    found = parse_kernel_log(Section("kernel", rest, 0))
    assert isinstance(found, Unknown) or found.xids or rest.startswith(b"[51203"), rest


@pytest.mark.parametrize("text", ["00000000:61:00.0", "0000:61:00.0", "0000:61:00", "00000000:61:00.0".upper()])
def test_a_place_on_the_bus_is_the_same_in_all_ways_to_write_it(text: str) -> None:
    assert bus_of(text) == "0000:61:00"


@pytest.mark.parametrize(("name", "there"), [("nvidia-nvswitch0", True), ("nvidia-nvswitchctl", False)])
def test_a_switch_is_more_than_the_drivers_means_to_drive_one(name: str, there: bool) -> None:
    found = parse_nodes(Section("nodes", f"/dev/{name}\n".encode(), 0))
    assert isinstance(found, DeviceNodes) and found.has_switches == there


def test_device_files() -> None:
    found = parse_nodes(Section("nodes", b"/dev/nvidia0\n/dev/nvidia-nvswitch0\nnvidia-modprobe\ndriver\n", 0))
    assert found == DeviceNodes(frozenset({"/dev/nvidia0", "/dev/nvidia-nvswitch0"}), self_made=True, driver=True)
    assert isinstance(found, DeviceNodes) and found.has_switches
    bare = parse_nodes(Section("nodes", b"\n", 0))
    assert bare == DeviceNodes(frozenset(), self_made=False, driver=False)


@pytest.mark.parametrize(
    ("name", "recovery", "sure", "fabric"),
    [
        ("health_new", [Recovery.NONE, Recovery.RESET], True, [("Completed", "Success"), ("In Progress", "")]),
        ("health_535", [Recovery.NONE, Recovery.RESET], False, [("", ""), ("", "")]),
    ],
)
def test_what_drivers_tell_of_a_cards_health(
    name: str, recovery: list[Recovery], sure: bool, fabric: list[tuple[str, str]]
) -> None:
    found = parse_gpus({"gpus": recorded(f"nvidia_smi/{name}")})
    assert isinstance(found, GpuList)
    assert [gpu.recovery for gpu in found.gpus] == recovery
    assert [gpu.tells_recovery for gpu in found.gpus] == [sure, sure]
    assert [(gpu.fabric_state, gpu.fabric_status) for gpu in found.gpus] == fabric


@pytest.mark.parametrize(
    ("cell", "recovery"),
    [("[GPU requires reset]", Recovery.RESET), ("[GPU is lost]", Recovery.REBOOT), ("[N/A]", None), ("Dance", None)],
)
def test_odd_cells_of_the_recovery_action(cell: str, recovery: Recovery | None) -> None:
    text = recorded("nvidia_smi/health_new").text.replace("GPU Reset", cell)
    found = parse_gpus({"gpus": Section("gpus", text.encode(), 0)})
    assert isinstance(found, GpuList)
    told = found.gpus[1].recovery
    assert (None if isinstance(told, Unknown) else told) == recovery
