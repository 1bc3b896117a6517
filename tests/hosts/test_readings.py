"""What is kept of a reading: the last value, or why there is none; and whether the host was reached."""

from __future__ import annotations

import pytest
from django.utils import timezone

from hosts.models import Gpu, Host
from hosts.readings import not_reached, reached, store_cards
from hosts.transport.base import ConnectTimeout, HostKeyChanged, HostKeyUnknown, PublicHostKey
from tests.deployments.machine import BOOT, NOW, Machine, idle_machine
from tests.factories import make_gpu, make_host

pytestmark = pytest.mark.django_db


def test_a_new_card_gets_a_row_and_later_readings_go_there() -> None:
    host = make_host()
    machine = Machine(cards={"GPU-a": 4, "GPU-b": 12})
    store_cards(host, machine.facts(), source="test")
    machine.cards = {"GPU-b": 99, "GPU-a": 5}
    store_cards(host, machine.facts(), source="nvidia-smi")
    rows = Gpu.objects.order_by("uuid").values_list("uuid", "index", "used_mib", "total_mib", "name", "source")
    assert list(rows) == [
        ("GPU-a", 1, 5, 49140, "NVIDIA L40S", "nvidia-smi"),
        ("GPU-b", 0, 99, 49140, "NVIDIA L40S", "nvidia-smi"),
    ]
    assert Gpu.objects.first().read_at == NOW  # type: ignore[union-attr]


def test_a_cell_that_is_no_number_is_no_zero() -> None:
    host = make_host()
    gpu = make_gpu(host, uuid="GPU-a", used_mib=7)
    store_cards(host, Machine(cards={"GPU-a": "[N/A]"}).facts(), source="test")
    gpu.refresh_from_db()
    assert gpu.used_mib is None and "does not report" in gpu.unread_reason


def test_a_new_card_whose_index_cannot_be_read() -> None:
    host = make_host()
    machine = Machine(cards={"GPU-a": 4})
    machine.broken["gpus"] = "index, uuid, memory.used [MiB]\n[N/A], GPU-a, 4\n"
    store_cards(host, machine.facts(), source="test")
    assert Gpu.objects.get().index == 0


def test_a_card_that_is_not_listed_keeps_its_row_and_loses_its_value() -> None:
    host, other = make_host(), make_host()
    gone, elsewhere = make_gpu(host, uuid="GPU-gone", used_mib=7), make_gpu(other, uuid="GPU-x", used_mib=7)
    store_cards(host, idle_machine().facts(), source="test")
    gone.refresh_from_db()
    elsewhere.refresh_from_db()
    assert gone.used_mib is None and "does not list" in gone.unread_reason
    assert elsewhere.used_mib == 7, "another host's cards are left alone"


def test_a_driver_that_fails_says_so_on_host_and_cards() -> None:
    host = make_host()
    gpu = make_gpu(host, used_mib=7)
    machine = idle_machine()
    machine.broken["gpus"] = ("couldn't communicate with the NVIDIA driver", 9)
    store_cards(host, machine.facts(), source="test")
    gpu.refresh_from_db()
    host.refresh_from_db()
    assert gpu.used_mib is None and gpu.unread_reason == host.gpu_problem != ""
    store_cards(host, idle_machine().facts(), source="test")
    host.refresh_from_db()
    assert host.gpu_problem == ""


def test_reached() -> None:
    host = make_host(reach=Host.Reach.UNREACHABLE, problem="gone", hint="look")
    reached(host, idle_machine().facts())
    host.refresh_from_db()
    assert (host.reach, host.problem, host.hint, host.boot_id) == (Host.Reach.REACHABLE, "", "", BOOT)
    assert host.last_seen_at == NOW
    since = host.reach_since
    reached(host, idle_machine().facts())
    host.refresh_from_db()
    assert host.reach_since == since, "since the change, not since the last reading"


def test_not_reached() -> None:
    host = make_host(boot_id=BOOT)
    not_reached(host, ConnectTimeout("No answer."))
    host.refresh_from_db()
    assert (host.reach, host.problem) == (Host.Reach.UNREACHABLE, "No answer.")
    assert host.hint == ConnectTimeout.hint and host.boot_id == BOOT
    assert host.reach_since is not None and timezone.now() >= host.reach_since


@pytest.mark.parametrize("changed", [True, False])
def test_a_key_that_is_not_trusted_is_kept_to_compare_once(changed: bool) -> None:
    host, key = make_host(), PublicHostKey("ssh-ed25519", "AAAA")
    error = HostKeyChanged("changed", expected=[], key=key) if changed else HostKeyUnknown("unknown", key=key)
    not_reached(host, error)
    not_reached(host, error)
    (row,) = host.keys.all()
    assert (row.key_base64, row.fingerprint, row.pinned_at) == ("AAAA", key.fingerprint, None)
