"""Can the cards be used at all? Before anything is stopped for it, and once more before the launch."""

from __future__ import annotations

from functools import partial

from deployments.lifecycle import JobKind
from lab.host import wait_until
from tests.verdicts.looks import AT_ONCE
from tests.verdicts.scene import Scene
from tests.verdicts.situation import ALL, ASKS, FREE, LOCAL, NOT_FREE, PCT, REFUSED, SSH, Outcome, Table

TABLE = Table(policy=AT_ONCE)
row = TABLE.row
BY_SMI = (SSH, PCT)
"""What this driver's nvidia-smi tells of resets, its NVML does not."""
RESET = "cell 0 reset_status.reset_required Yes"
OFF_THE_BUS, GSP, PROGRAMS_OWN = 79, 119, 31


def onto(s: Scene) -> Outcome:
    """What the plan of a restart says; one that may be approved asks for that."""
    return s.asked(JobKind.RESTART)


def faulty(slot: int, code: int, s: Scene) -> Outcome:
    s.faults.gpu_xid(s.place.node, s.card(slot).uuid, code)
    return s.before_launch()


for key, title, slot, code in (
    ("usable_program", "a program's own fault on the card (Xid 31)", 0, PROGRAMS_OWN),
    ("usable_other", "a card of others has fallen off the bus (Xid 79)", 1, OFF_THE_BUS),
):
    TABLE.add(key, title, partial(faulty, slot, code), FREE)


@row("the card has fallen off the bus (Xid 79) before anything was stopped", REFUSED, "Xid 79.*Nothing was touched")
def usable_xid(s: Scene) -> Outcome:
    s.serve()
    s.faults.gpu_xid(s.place.node, s.cards[0].uuid, OFF_THE_BUS)
    return onto(s)


@row("the same, after the approval: nothing is launched", NOT_FREE, "cannot be used.*Xid 79.*Reboot", on=ALL)
def usable_xid_later(s: Scene) -> Outcome:
    return s.before_launch(lambda: s.faults.gpu_xid(s.place.node, s.cards[0].uuid, OFF_THE_BUS))


@row("the card's own processor failed (Xid 119); the server was started after it", ASKS, "^plan: ")
def usable_outlived(s: Scene) -> Outcome:
    s.faults.gpu_xid(s.place.node, s.cards[0].uuid, GSP, seconds_ago=1)
    s.serve()
    return onto(s)


@row("the same, and only a monitor has the card open since", REFUSED, "Xid 119")
def usable_monitor(s: Scene) -> Outcome:
    s.faults.gpu_xid(s.place.node, s.cards[0].uuid, GSP, seconds_ago=1)
    s.detach(f"exec 9< /dev/nvidia{s.cards[0].minor}; exec sleep 86399")
    wait_until(s.in_use, timeout=10, what="an open device file")
    return onto(s)


@row("the card waits for a reset, at its baseline", REFUSED, "waits for a reset.*Nothing was touched", on=BY_SMI)
def usable_reset(s: Scene) -> Outcome:
    s.gpu(RESET)
    return onto(s)


@row("the same, after the approval: nothing is launched", NOT_FREE, "waits for a reset", on=BY_SMI)
def usable_reset_later(s: Scene) -> Outcome:
    return s.before_launch(lambda: s.gpu(RESET))


@row("a server is stopped on a card that waits for a reset", "stopped", on=BY_SMI, policy={"term_seconds": 1})
def usable_stop(s: Scene) -> Outcome:
    s.serve()
    s.gpu(RESET)
    return s.stop()


@row("a device file is missing, as after a boot", REFUSED, "/dev/nvidia-uvm is missing", on=(SSH, LOCAL))
def usable_files(s: Scene) -> Outcome:
    s.shell("rm /dev/nvidia-uvm")
    return onto(s)


@row("the cards have not joined their fabric", REFUSED, "has not joined its NVLink fabric")
def usable_fabric(s: Scene) -> Outcome:
    s.faults.fabric_manager_down(s.place.node)
    return onto(s)
