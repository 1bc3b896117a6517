"""Which plans a standing approval may approve: nothing in the way, no question to come, cards at the baseline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from deployments.plan.clean import why_not_clean
from tests.deployments.machine import OTHER_BOOT, Machine, Proc, idle_machine, serving_machine
from tests.deployments.plan.test_plan import LAUNCH, plan


def with_stranger(machine: Machine) -> Machine:
    return machine.add(Proc(7, 70, "train", uid=1000, cards=(0,), memory=500))


def full(machine: Machine) -> Machine:
    machine.cards |= {"GPU-bbbb": 9000}
    return machine


def unread(machine: Machine) -> Machine:
    machine.cards |= {"GPU-bbbb": "[N/A]"}
    return machine


def hidden(machine: Machine) -> Machine:
    machine.partial = True
    return machine


def in_a_loop(machine: Machine) -> Machine:
    machine.add(Proc(50, 500, "bash", "bash /srv/loop.sh"))
    machine.procs[100].parent = 50
    return machine


START = {"kind": "start", "launch": None}
RESTART = {"kind": "restart"}
FOREIGN = {"kind": "restart", "launch": None}


@pytest.mark.parametrize(
    ("machine", "asked"), [(idle_machine, START), (serving_machine, RESTART), (idle_machine, RESTART)]
)
def test_a_clean_plan(machine: Callable[[], Machine], asked: dict[str, Any]) -> None:
    assert why_not_clean(plan(machine(), **asked)) == []


def test_where_nobody_may_look_a_start_is_clean_by_its_memory() -> None:
    assert why_not_clean(plan(hidden(idle_machine()), **START)) == []


@pytest.mark.parametrize(
    ("machine", "asked", "why"),
    [
        (with_stranger(idle_machine()), START, "Somebody else holds GPU 0"),
        (with_stranger(serving_machine()), RESTART, "Somebody else holds GPU 0"),
        (full(idle_machine()), START, "GPU 1 still holds 9,000 MiB"),
        (full(idle_machine()), RESTART, "GPU 1 still holds 9,000 MiB"),
        (unread(idle_machine()), START, "GPU 1 cannot be measured"),
        (hidden(serving_machine()), RESTART, "Who else holds the cards is not known"),
        (serving_machine(), START, "already serves"),
        (serving_machine(), FOREIGN, "What serves was not started by Relaunch."),
        (in_a_loop(serving_machine()), FOREIGN, "may start it again in a loop"),
    ],
)
def test_a_plan_that_needs_a_person(machine: Machine, asked: dict[str, Any], why: str) -> None:
    assert why in " ".join(why_not_clean(plan(machine, **asked)))


def test_a_boot_leaves_nothing_that_serves() -> None:
    machine = idle_machine()
    machine.boot = OTHER_BOOT
    assert why_not_clean(plan(machine, kind="start", launch=LAUNCH)) == []
