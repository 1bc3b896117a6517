"""Can a card be used: what is sure counts, what could not be seen is a note or unknown, and each says what to do."""

from dataclasses import replace

import pytest

from deployments.decisions.usable import (
    FATAL,
    RECENT_SECONDS,
    CardFault,
    Condition,
    Reason,
    Usability,
    judge,
    not_usable,
)
from hosts.probe.gpus import LOST, MISMATCH, NEEDS_RESET, NOT_LOADED, SMI_TIMEOUT, Recovery

HEALTHY = Condition("GPU-1", "GPU 0", "gpu1", listed=True, needs=Recovery.NONE)
GONE = replace(HEALTHY, listed=False, needs=None)
RESET = "nvidia-smi --gpu-reset -i GPU-1"
REFUSED = replace(HEALTHY, faults=None, log_note="The log may not be read.")


def fault(code: int, age: float = 600, text: str = "", *, outlived: bool = False) -> CardFault:
    return CardFault(code, text, age, outlived)


def changed(after: str, age: float) -> CardFault:
    return fault(154, age, f"GPU recovery action changed from 0x0 (None) to {after}")


def test_a_healthy_card_is_usable() -> None:
    assert judge(HEALTHY).value == Usability.USABLE
    assert judge(HEALTHY).notes == ()


SURE = {
    "lost": (replace(GONE, said=(LOST,)), "GPU 0 is lost: it has fallen off the bus.", "Reboot gpu1."),
    "waits for a reset": (replace(GONE, said=(NEEDS_RESET,)), "GPU 0 waits for a reset.", RESET),
    "driver replaced": (replace(GONE, said=(MISMATCH,)), "updated under the running one", "Reboot gpu1."),
    "no driver": (replace(GONE, said=(NOT_LOADED,)), "driver is not loaded", "modprobe nvidia"),
    "not listed": (GONE, "GPU 0 is not among the cards", "whether the card is still there"),
    "needs a reset": (replace(HEALTHY, needs=Recovery.RESET), "GPU 0 waits for a reset: the driver says so.", RESET),
    "needs a reboot": (replace(HEALTHY, needs=Recovery.REBOOT), "needs a reboot", "Reboot gpu1."),
    "drain": (replace(HEALTHY, needs=Recovery.DRAIN), "waits for a reset", "End the programs on it"),
    "fallen off": (
        replace(HEALTHY, faults=(fault(79),)),
        "(Xid 79, 10 minutes before this look): it has fallen off",
        "Reboot gpu1.",
    ),
    "memory": (
        replace(HEALTHY, faults=(fault(48, 5),)),
        "(Xid 48, less than 2 minutes before this look): memory errors",
        RESET,
    ),
    "the driver's own word in the log": (
        replace(HEALTHY, faults=(changed("0x2 (OS Reboot)", 5),)),
        "(Xid 154, less than 2 minutes before this look)",
        "Reboot gpu1.",
    ),
    "one file": (
        replace(HEALTHY, missing_files=("/dev/nvidia-uvm",)),
        "/dev/nvidia-uvm is missing on gpu1, as after a boot.",
        "nvidia-modprobe -u -c 0.",
    ),
    "files of a container": (
        replace(HEALTHY, machine="pve", container="llm", missing_files=("/dev/nvidia0", "/dev/nvidia-uvm")),
        "/dev/nvidia0 and /dev/nvidia-uvm are missing in llm.",
        "As root on pve, run nvidia-smi, and nvidia-modprobe -u -c 0; then restart llm.",
    ),
    "no fabric manager": (
        replace(HEALTHY, manager_missing=True),
        "The fabric manager does not run on gpu1",
        "Start the fabric manager as root on gpu1",
    ),
    "fabric": (replace(HEALTHY, fabric_state="In Progress"), "has not joined its NVLink fabric", "start the fabric"),
    "fabric begins": (replace(HEALTHY, fabric_state="Not Started"), "(Not Started)", "systemctl start"),
    "fabric failed": (
        replace(HEALTHY, fabric_state="Completed", fabric_status="Insufficient Resources"),
        "could not join its NVLink fabric: Insufficient Resources.",
        "restart it",
    ),
}


@pytest.mark.parametrize(("seen", "text", "todo"), SURE.values(), ids=SURE.keys())
def test_what_keeps_a_card_from_being_used(seen: Condition, text: str, todo: str) -> None:
    verdict = judge(seen)
    assert verdict.value == Usability.NOT_USABLE
    assert len(verdict.reasons) == 1
    assert text in verdict.reasons[0].text and todo in verdict.reasons[0].todo


def test_a_card_that_has_joined_its_fabric_does_not_miss_the_manager() -> None:
    """Older drivers tell nothing of the fabric; where they do, that says more than who runs."""
    joined = replace(HEALTHY, manager_missing=True, fabric_state="Completed", fabric_status="Success")
    assert judge(joined) == judge(HEALTHY)
    assert judge(replace(joined, fabric_status="")).value == Usability.NOT_USABLE


@pytest.mark.parametrize("code", FATAL)
def test_a_fault_of_the_card_keeps_it_from_being_used(code: int) -> None:
    assert judge(replace(HEALTHY, faults=(fault(code),))).value == Usability.NOT_USABLE


@pytest.mark.parametrize("code", [13, 31, 43, 45, 63, 92, 94, 140])
def test_a_fault_of_a_program_and_a_notice_do_not(code: int) -> None:
    assert judge(replace(HEALTHY, faults=(fault(code),))).value == Usability.USABLE


OVER = {
    "used since": (fault(79, outlived=True), HEALTHY, "a program uses the card"),
    "the driver's word": (fault(79), replace(HEALTHY, sure_of_none=True), "the card needs nothing"),
    "yesterday": (fault(79, RECENT_SECONDS + 1), HEALTHY, "more than a day old"),
}


@pytest.mark.parametrize(("seen", "card", "why"), OVER.values(), ids=OVER.keys())
def test_what_is_over_is_a_note(seen: CardFault, card: Condition, why: str) -> None:
    verdict = judge(replace(card, faults=(seen,)))
    assert verdict.value == Usability.USABLE
    assert len(verdict.notes) == 1 and "Xid 79" in verdict.notes[0] and why in verdict.notes[0]


def test_a_program_that_only_has_the_card_open_is_a_note() -> None:
    verdict = judge(replace(HEALTHY, faults=(CardFault(119, "", 60, opened_by="nvtop (pid 7)"),)))
    assert verdict.value == Usability.NOT_USABLE
    (note,) = verdict.notes
    assert note.startswith("nvtop (pid 7) was started after that fault (Xid 119) and has GPU 0 open.")


def test_an_older_fault_that_is_over_hides_no_newer_one() -> None:
    verdict = judge(replace(HEALTHY, faults=(fault(79, 900, outlived=True), fault(119, 60))))
    assert verdict.value == Usability.NOT_USABLE
    assert "Xid 119" in verdict.reasons[0].text and "Xid 79" in verdict.notes[0]


def test_the_drivers_later_word_ends_what_came_before_and_nothing_after() -> None:
    healed = (fault(95, 300), changed("0x1 (GPU Reset Required)", 299), changed("0x0 (None)", 100))
    assert judge(replace(HEALTHY, faults=healed)) == judge(HEALTHY)
    assert judge(replace(HEALTHY, faults=(*healed, fault(95, 10)))).value == Usability.NOT_USABLE


def test_a_reboot_is_asked_for_where_one_fault_of_many_needs_it() -> None:
    verdict = judge(replace(HEALTHY, faults=(fault(79, 300), fault(119, 10))))
    assert [reason.todo for reason in verdict.reasons] == ["Reboot gpu1. If it happens again, have the card looked at."]


def test_a_program_that_came_after_the_fault_does_not_outweigh_the_driver() -> None:
    seen = replace(HEALTHY, needs=Recovery.RESET, faults=(fault(95, outlived=True),))
    assert judge(seen).value == Usability.NOT_USABLE


def test_a_log_that_may_not_be_read_is_a_note_where_the_driver_tells_of_resets() -> None:
    assert judge(REFUSED).value == Usability.USABLE
    assert judge(REFUSED).notes == ("The log may not be read.",)


def test_without_the_log_and_the_drivers_word_nobody_knows() -> None:
    assert judge(replace(REFUSED, needs=None)).value == Usability.UNKNOWN
    assert judge(replace(HEALTHY, needs=None)).value == Usability.USABLE, "the log speaks of every fault"


def test_a_container_whose_node_was_not_asked_yet_is_no_cause_for_a_note() -> None:
    assert judge(replace(HEALTHY, faults=None, needs=None)).notes == ()
    assert judge(replace(HEALTHY, faults=None, needs=None)).value == Usability.USABLE


@pytest.mark.parametrize("said", [(SMI_TIMEOUT.reason,), ("A line of nvidia-smi's answer is garbled.",)])
def test_a_driver_that_does_not_answer_leaves_it_unknown(said: tuple[str, ...]) -> None:
    verdict = judge(replace(GONE, said=said))
    assert (verdict.value, verdict.reasons, verdict.notes) == (Usability.UNKNOWN, (), said)


def test_what_calls_for_the_same_thing_to_do_is_one_reason() -> None:
    """Eight cards, one reboot; a reset is each card's own."""
    off = [judge(replace(GONE, label=f"GPU {n}", said=(LOST,))) for n in range(8)]
    waits = judge(replace(HEALTHY, uuid="GPU-9", label="GPU 9", needs=Recovery.RESET))
    reboot, reset = not_usable([*off, waits])
    assert reboot.text == " ".join(f"GPU {n} is lost: it has fallen off the bus." for n in range(8))
    assert reboot.todo.startswith("Reboot gpu1.")
    assert "-i GPU-9" in reset.todo and reset.text == "GPU 9 waits for a reset: the driver says so."


def test_what_is_the_same_for_two_cards_is_said_once() -> None:
    both = [judge(replace(HEALTHY, label=f"GPU {n}", manager_missing=True)) for n in range(2)]
    assert len(not_usable(both)) == 1
    assert isinstance(not_usable(both)[0], Reason)
