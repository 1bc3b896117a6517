"""A server that loads and does not listen yet: known by its command, its port and the cards that it has open."""

from dataclasses import replace

import pytest

from deployments.plan.loading import unasked
from deployments.plan.plan import Plan
from tests.deployments.machine import CARDS, SGLANG, Machine, Proc, idle_machine, serving_machine
from tests.deployments.plan.test_plan import plan

LABELS = {uuid: f"GPU {n}" for n, uuid in enumerate(CARDS)}
OTHER = "22222222-3333-4444-5555-666666666666"


def loading() -> Machine:
    """As `serving_machine`, by hand, some minutes earlier: below a shell that has the same words."""
    machine = serving_machine().add(Proc(90, 900, "bash", f"bash -c {SGLANG}"))
    machine.procs[100] = replace(machine.procs[100], port=None, parent=90)
    return machine


def stops(made: Plan) -> set[int]:
    return {row["pid"] for row in made.data["stops"]}


def test_it_is_what_a_restart_stops() -> None:
    made = plan(loading(), launch=None)
    assert stops(made) == {100, 101, 102, 103}
    assert made.serving.root is not None and made.serving.root.pid == 100, "not the shell"
    assert made.data["untouched"] == [] and "holds its cards" in made.serving.how


def test_a_start_beside_it_is_refused() -> None:
    made = plan(loading(), launch=None, kind="start")
    assert made.data["blocked"] and "already serves (pid 100)" in str(made.data["warnings"])


def _another_port(machine: Machine) -> None:
    machine.procs[100].command = SGLANG.replace("30000", "30001")


def _another_engine(machine: Machine) -> None:
    machine.procs[100].command = "vllm serve /models/qwen-27b --port 30000"


def _another_deployments(machine: Machine) -> None:
    machine.procs[100].log = OTHER


def _other_cards(machine: Machine) -> None:
    machine.cards["GPU-cccc"] = 40_000
    for pid in (101, 102):
        machine.procs[pid].cards = (2,)


@pytest.mark.parametrize("change", [_another_port, _another_engine, _another_deployments, _other_cards])
def test_whose_it_is_not(change: object) -> None:
    machine = loading()
    assert callable(change)
    change(machine)
    assert stops(plan(machine, launch=None, launches={OTHER: "embedder"})) == set()


def test_what_may_not_be_adopted_is_not() -> None:
    assert stops(plan(loading(), launch=None, adopt=False)) == set()


def test_those_whose_command_is_needed_and_was_not_told() -> None:
    facts = loading().facts()
    assert unasked(facts, LABELS) == frozenset()
    known = {pid: detail for pid, detail in facts.details.items() if pid not in (90, 100)}
    assert unasked(replace(facts, details=known), LABELS) == {90, 100}
    assert unasked(idle_machine().facts(), LABELS) == frozenset()
