"""From what a host and its node print to the verdict on each card; and what a plan makes of that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from deployments.decisions.usable import CardUsable, Usability
from deployments.plan.cards import Card
from deployments.plan.health import cards_usable
from hosts.probe.frames import NOT_ASKED
from tests.deployments.machine import CARDS, Machine, Proc, idle_machine, serving_machine
from tests.deployments.plan.test_plan import blocking, plan

UPTIME = 5000
CARD = Card(CARDS[0], "GPU 0", 4)
OTHER = Card(CARDS[1], "GPU 1", 4)
KTHREADD = Proc(2, 1, "kthreadd", parent=0)
REFUSED = ("dmesg: read kernel buffer failed: Operation not permitted\n", 0)


def xid(code: int, *, index: int = 0, at: float = UPTIME - 60, text: str = "pid=1, name=x, Ch 00000008") -> str:
    return f"[{at:12.6f}] NVRM: Xid (PCI:0000:0{index}:00): {code}, {text}"


def usable(machine: Machine, *cards: Card, node: Machine | None = None) -> list[CardUsable]:
    facts = machine.facts()
    outer = facts if node is None else node.facts()
    found = cards_usable(facts, outer, cards or (CARD,), host="llm" if node else "pve", machine="pve")
    return list(found)


def values(machine: Machine, *cards: Card, node: Machine | None = None) -> list[Usability]:
    return [card.value for card in usable(machine, *cards, node=node)]


def test_cards_without_a_complaint_are_usable() -> None:
    assert usable(serving_machine(), CARD, OTHER) == [
        CardUsable(CARDS[0], "GPU 0", Usability.USABLE),
        CardUsable(CARDS[1], "GPU 1", Usability.USABLE),
    ]


def test_a_fault_counts_for_the_card_at_its_place_on_the_bus() -> None:
    machine = idle_machine()
    machine.kernel = [xid(79, index=1)]
    assert values(machine, CARD, OTHER) == [Usability.USABLE, Usability.NOT_USABLE]


def test_a_card_that_is_not_listed_any_more_has_its_faults_by_what_the_kernel_knows() -> None:
    machine = idle_machine()
    machine.known = CARDS
    del machine.cards[CARDS[1]]
    machine.kernel = [xid(79, index=1)]
    (verdict,) = usable(machine, OTHER)
    assert [reason.text for reason in verdict.reasons] == [
        "GPU 1 is not among the cards that the driver shows.",
        "The kernel's log has a fault of GPU 1 (Xid 79, less than 2 minutes before this look): it has fallen off "
        "the bus.",
    ]


@pytest.mark.parametrize(("start", "verdict"), [(4941, Usability.USABLE), (4939, Usability.NOT_USABLE)])
def test_a_server_that_was_started_after_the_fault_shows_that_the_card_works(start: int, verdict: Usability) -> None:
    machine = idle_machine().add(Proc(100, start * 100, cards=(0,), memory=900))
    machine.kernel = [xid(119)]
    assert values(machine) == [verdict]


@pytest.mark.parametrize("apps", [None, "", "pid, gpu_uuid, used_gpu_memory [MiB]\n100, GPU-bbbb, 900\n"])
def test_what_only_watches_a_card_does_not_show_that_it_works(apps: str | None) -> None:
    """It has the card open, and no memory on it: by the driver's list of programs, or as far as that tells."""
    machine = idle_machine().add(Proc(100, 4990 * 100, "nvtop", cards=(0,)))
    machine.kernel = [xid(119)]
    machine.broken |= {"apps": apps} if apps is not None else {}
    (verdict,) = usable(machine)
    assert verdict.value == Usability.NOT_USABLE
    assert verdict.notes[0].startswith("nvtop (pid 100) was started after that fault (Xid 119) and has GPU 0 open.")


def test_a_look_that_did_not_ask_who_uses_the_cards_takes_whoever_has_one_open_for_a_user() -> None:
    machine = idle_machine().add(Proc(100, 4990 * 100, cards=(0,)))
    machine.kernel = [xid(119)]
    facts = replace(machine.facts(), apps=NOT_ASKED)
    (verdict,) = cards_usable(facts, facts, (CARD,), host="pve", machine="pve")
    assert verdict.value == Usability.USABLE


def test_the_drivers_own_services_show_nothing() -> None:
    machine = idle_machine().add(Proc(100, 4990 * 100, "nvidia-smi", cards=(0,)))
    machine.kernel = [xid(119)]
    assert values(machine) == [Usability.NOT_USABLE]


@pytest.mark.parametrize(
    ("columns", "verdict"),
    [
        ({"gpu_recovery_action": "None"}, Usability.USABLE),
        ({"gpu_recovery_action": "GPU Reset"}, Usability.NOT_USABLE),
        ({"gpu_recovery_action": "Node Reboot"}, Usability.NOT_USABLE),
        ({"gpu_recovery_action": "Drain P2P"}, Usability.NOT_USABLE),
        ({"reset_status.reset_required": "No"}, Usability.USABLE),
        ({"reset_status.reset_required": "Yes"}, Usability.NOT_USABLE),
        ({"reset_status.reset_required": "[GPU requires reset]"}, Usability.NOT_USABLE),
        ({"fabric.state": "N/A", "fabric.status": "N/A"}, Usability.USABLE),
        ({"fabric.state": "[Not Supported]", "fabric.status": "[N/A]"}, Usability.USABLE),
        ({"fabric.state": "Completed", "fabric.status": "Success"}, Usability.USABLE),
        ({"fabric.state": "In Progress", "fabric.status": "N/A"}, Usability.NOT_USABLE),
    ],
)
def test_what_the_driver_tells_of_the_card(columns: dict[str, str], verdict: Usability) -> None:
    machine = idle_machine()
    machine.columns = columns
    assert values(machine) == [verdict]


@pytest.mark.parametrize(
    ("columns", "verdict"),
    [
        ({"gpu_recovery_action": "None"}, Usability.USABLE),
        ({"reset_status.reset_required": "No"}, Usability.NOT_USABLE),
    ],
)
def test_only_a_driver_that_speaks_of_every_fault_outweighs_the_log(
    columns: dict[str, str], verdict: Usability
) -> None:
    machine = idle_machine()
    machine.columns, machine.kernel = columns, [xid(119)]
    assert values(machine) == [verdict]


def test_a_log_that_may_not_be_read() -> None:
    machine = idle_machine()
    machine.broken["kernel"] = REFUSED
    (verdict,) = usable(machine)
    assert verdict.value == Usability.UNKNOWN and "may not read the kernel's log" in verdict.notes[0]
    machine.columns = {"gpu_recovery_action": "None"}
    (verdict,) = usable(machine)
    assert verdict.value == Usability.USABLE and "may not read the kernel's log" in verdict.notes[0]


def test_a_log_whose_beginning_is_gone_says_how_far_back_it_goes() -> None:
    machine = idle_machine()
    machine.broken["kernel"] = f"[ 1400.000000] eth0: link up\n{xid(31)}\n"
    (verdict,) = usable(machine)
    assert (verdict.value, verdict.notes) == (Usability.USABLE, ("The kernel's log goes back 1.0 hours only.",))


@pytest.mark.parametrize("name", ["/dev/nvidia0", "/dev/nvidia-uvm", "/dev/nvidiactl"])
def test_a_missing_device_file(name: str) -> None:
    machine = idle_machine()
    machine.missing_nodes = {name}
    (verdict,) = usable(machine)
    assert verdict.value == Usability.NOT_USABLE and name in verdict.reasons[0].text


@pytest.mark.parametrize("nodes", ["driver\nnvidia-modprobe\n/dev/nvidiactl\n", "/dev/nvidiactl\n"])
def test_files_that_are_made_when_they_are_needed_or_that_no_driver_makes_are_not_missed(nodes: str) -> None:
    machine = idle_machine()
    machine.broken["nodes"] = nodes
    assert values(machine) == [Usability.USABLE]


def test_files_of_other_cards_are_not_missed() -> None:
    machine = idle_machine()
    machine.missing_nodes = {"/dev/nvidia1"}
    assert values(machine, CARD, OTHER) == [Usability.USABLE, Usability.NOT_USABLE]


@pytest.mark.parametrize(("comm", "verdict"), [("nv-fabricmanage", Usability.USABLE), ("x", Usability.NOT_USABLE)])
def test_cards_behind_switches_need_their_fabric_manager(comm: str, verdict: Usability) -> None:
    machine = idle_machine().add(KTHREADD, Proc(50, 10, comm))
    machine.more_nodes = ("/dev/nvidia-nvswitch0", "/dev/nvidia-nvswitchctl")
    assert values(machine) == [verdict]


@pytest.mark.parametrize("second", [None, Proc(2, 7, "kthreadd"), Proc(2, 1, "bash", parent=0)])
def test_where_not_all_processes_are_seen_nobody_misses_the_fabric_manager(second: Proc | None) -> None:
    """In a container, and to a login from which /proc hides others' processes."""
    machine = idle_machine().add(*([second] if second is not None else []))
    machine.more_nodes = ("/dev/nvidia-nvswitch0",)
    assert values(machine) == [Usability.USABLE]


def test_without_switches_there_is_nothing_to_manage() -> None:
    machine = idle_machine().add(KTHREADD)
    machine.more_nodes = ("/dev/nvidia-nvswitchctl",)
    assert values(machine) == [Usability.USABLE]


def test_a_container_has_its_own_files_and_its_nodes_kernel() -> None:
    inside, node = idle_machine(), idle_machine()
    inside.broken["kernel"] = REFUSED
    assert values(inside, node=node) == [Usability.USABLE]
    node.missing_nodes = {"/dev/nvidia-uvm"}
    assert values(inside, node=node) == [Usability.USABLE]
    inside.missing_nodes = {"/dev/nvidia-uvm"}
    assert "restart llm" in usable(inside, node=node)[0].reasons[0].todo
    inside.missing_nodes = set()
    node.kernel = [xid(79)]
    assert usable(inside, node=node)[0].reasons[0].todo.startswith("Reboot pve.")


def test_a_hung_nvidia_smi_leaves_it_unknown() -> None:
    machine = idle_machine()
    machine.broken["gpus"] = ("", 124)
    assert values(machine) == [Usability.UNKNOWN]


# --- In a plan


def reset(machine: Machine) -> None:
    machine.columns = {"gpu_recovery_action": "GPU Reset"}


def test_what_a_restart_would_need_is_said_before_anything_is_stopped() -> None:
    machine = serving_machine()
    reset(machine)
    made = plan(machine)
    assert blocking(made) == [f"GPU {n} waits for a reset: the driver says so." for n in range(2)]
    assert "nvidia-smi --gpu-reset -i GPU-aaaa" in made.data["warnings"][0]["todo"]


def test_a_stop_is_warned_of_it_and_goes_on() -> None:
    machine = serving_machine()
    reset(machine)
    made = plan(machine, kind="stop", new=None)
    assert not made.data["blocked"]
    assert "waits for a reset" in made.data["warnings"][0]["text"]


def test_a_stop_goes_on_where_a_card_is_lost() -> None:
    machine = serving_machine()
    del machine.cards[CARDS[1]]
    made = plan(machine, kind="stop", new=None)
    assert not made.data["blocked"]


@pytest.mark.parametrize(
    ("change", "row"),
    [
        (lambda machine: None, {"value": "usable", "status": "ok", "detail": ""}),
        (reset, {"value": "not usable", "status": "not ok", "detail": "GPU 0 waits for a reset: the driver says so."}),
        (lambda machine: machine.broken.update(kernel=REFUSED), {"value": "unknown", "status": "unknown"}),
    ],
)
def test_the_page_has_a_row_for_each_card(change: Callable[[Machine], None], row: dict[str, Any]) -> None:
    machine = serving_machine()
    change(machine)
    made = plan(machine)
    (section,) = (part for part in made.data["sections"] if part["title"] == "Can the cards be used")
    assert [line["label"] for line in section["rows"]] == ["GPU 0", "GPU 1"]
    assert section["rows"][0].items() >= row.items()


def test_what_is_not_known_blocks_nothing() -> None:
    machine = serving_machine()
    machine.broken["kernel"] = REFUSED
    assert not plan(machine).data["blocked"]
