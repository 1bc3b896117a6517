"""What a simulated machine tells of the health of its cards: the kernel's log, and what the driver says."""

import pytest

from lab.fleet import Container, Fleet, Host, Node
from tests.lab.conftest import Ssh

pytestmark = pytest.mark.lab

HEALTH = "nvidia-smi --query-gpu=fabric.state,fabric.status --format=csv,noheader"


@pytest.fixture
def mended(fleet: Fleet, gpu1: Host, pve: Node) -> Fleet:
    for host in (gpu1, pve):
        fleet.faults.gpu(host, "none")
        fleet.faults.gpu_clear(host)
    return fleet


def test_the_kernel_names_a_faulty_card_by_its_place_on_the_bus(mended: Fleet, gpu1: Host, ssh: Ssh) -> None:
    mended.faults.gpu_xid(gpu1, 1, 79)
    mended.faults.gpu_recovery(gpu1, 1, 0, 2)
    boot, xid, action = ssh(gpu1, "dmesg").stdout.splitlines()
    assert boot.startswith("[    0.000000] Linux version ")
    assert " NVRM: Xid (PCI:0000:21:00): 79, " in xid and xid.endswith("GPU has fallen off the bus.")
    assert action.endswith("154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)")
    mended.faults.reboot(gpu1)
    assert len(ssh(gpu1, "dmesg").stdout.splitlines()) == 1


def test_a_container_may_not_read_it(pve: Node, ct129: Container, ssh: Ssh) -> None:
    assert ssh(pve, "dmesg").stdout.startswith("[    0.000000]")
    refused = ssh(pve, "pct exec 129 -- dmesg")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == "dmesg: read kernel buffer failed: Operation not permitted\n"


def test_cards_join_their_fabric_when_its_manager_runs(mended: Fleet, gpu1: Host, ssh: Ssh) -> None:
    assert ssh(gpu1, HEALTH).stdout == "N/A, N/A\n" * 2
    mended.faults.fabric_manager_down(gpu1)
    assert ssh(gpu1, HEALTH).stdout == "In Progress, N/A\n" * 2
    assert ssh(gpu1, "ls /dev/nvidia-nvswitch0 && pgrep -x nv-fabricmanage").returncode == 1
    mended.faults.fabric_manager_up(gpu1)
    assert ssh(gpu1, HEALTH).stdout == "Completed, Success\n" * 2
    assert ssh(gpu1, "ls /dev/nvidia-nvswitch0 && pgrep -x nv-fabricmanage").returncode == 0
    mended.faults.fabric_manager_down(gpu1)
    assert ssh(gpu1, "pgrep -x nv-fabricmanage").returncode == 1
    mended.faults.gpu(gpu1, "none")
    mended.faults.gpu_clear(gpu1)
    assert ssh(gpu1, "ls /dev | grep nvidia").stdout.split() == ["nvidia-uvm", "nvidia0", "nvidia1", "nvidiactl"]


def test_a_container_that_started_before_a_file_was_made_misses_it(mended: Fleet, ct129: Container, ssh: Ssh) -> None:
    mended.faults.ct_nodes_missing(ct129, "nvidia-uvm")
    assert "nvidia-uvm" not in ssh(ct129.node, "pct exec 129 -- ls /dev").stdout
    assert "nvidia-uvm" in ssh(ct129.node, "ls /dev").stdout
    mended.faults.ct_stop(ct129)
    mended.faults.ct_start(ct129)
    assert "nvidia-uvm" in ssh(ct129.node, "pct exec 129 -- ls /dev").stdout
