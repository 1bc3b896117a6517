"""The plan of a replacement, from two looks: what is bound, what is warned of, what counts as free by then."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from deployments.plan.binding import what_changed, who_left
from deployments.plan.inputs import Leaving, PlanInput
from deployments.plan.plan import Plan, make_plan
from deployments.plan.replacing import joined
from deployments.plan.warnings import Cure
from deployments.traffic.hook import Hook, How
from tests.deployments.machine import OTHER_BOOT, Machine, Proc, idle_machine, serving_machine
from tests.deployments.plan.test_plan import asked

OLD, NEW = "chat", "newcomer"


def part(machine: Machine, kind: str, **more: Any) -> PlanInput:
    return replace(asked(machine, kind=kind), **more)


def planned(machine: Machine, *, port: int = 30000, of_old: dict[str, Any] | None = None, **more: Any) -> Plan:
    out = make_plan(part(machine, "replace", new=None, deployment=OLD, way_back=True, **of_old or {}))
    new = part(machine, "start", deployment=NEW, port=port, launch=None, adopt=False, **more)
    leaving = Leaving(OLD, out.serving)
    return joined(out, make_plan(replace(new, leaving=leaving)), old=OLD, comes=NEW)


def texts(plan: Plan, *, blocks: bool) -> list[str]:
    return [row["text"] for row in plan.data["warnings"] if row["blocks"] == blocks]


def test_one_stops_and_the_other_starts() -> None:
    plan = planned(serving_machine())
    assert {row["pid"] for row in plan.data["stops"]} == {100, 101, 102, 103}
    assert plan.data["untouched"] == [] and not plan.data["blocked"], plan.data["warnings"]
    assert plan.data["launch"]["command"] and plan.start is not None
    assert plan.serving.pids == {100, 101, 102, 103}
    assert plan.data["binding"]["kind"] == "replace" and plan.data["binding"]["boot"]


def test_the_old_servers_port_and_memory_count_as_free_by_then() -> None:
    """On the very port that the old one has, though nobody else could have it."""
    assert texts(planned(serving_machine()), blocks=True) == []
    alone = part(serving_machine(), "start", deployment=NEW, launch=None, adopt=False)
    assert any("Port 30000 belongs" in row["text"] for row in make_plan(alone).data["warnings"]), "without the stop"


def test_who_else_is_in_the_way_is_said() -> None:
    machine = serving_machine().add(
        Proc(300, 3000, "python3", "python3 train.py", cards=(0,), memory=500),
        Proc(301, 3001, "nginx", "nginx", port=30009),
    )
    plan = planned(machine, port=30009)
    assert any("Port 30009 belongs to another process: pid 301" in text for text in texts(plan, blocks=True))
    assert any("Somebody else holds GPU 0" in text for text in texts(plan, blocks=False))
    assert [row["pid"] for row in plan.data["untouched"]] == [300]


def test_without_a_server_there_is_nothing_to_replace() -> None:
    plan = planned(idle_machine())
    (text,) = texts(plan, blocks=True)
    assert text == "chat does not serve, so there is nothing to replace."
    assert next(row for row in plan.data["warnings"] if row["blocks"])["cure"] == Cure.START


def test_a_warning_says_of_which_of_the_two_it_is() -> None:
    """Who goes has hooks with a key that nobody has set: its own pages mend that."""
    hooks = (Hook(How.REQUEST, method="POST", url="http://router/out", body="{router key}"),)
    plan = planned(serving_machine(), of_old={"hooks": hooks})
    (row,) = [row for row in plan.data["warnings"] if "no secret" in row["text"]]
    assert (row["of"], row["cure"], row["blocks"]) == (OLD, Cure.SECRETS, True)
    (row,) = [row for row in planned(serving_machine(), hooks=hooks).data["warnings"] if "no secret" in row["text"]]
    assert (row.get("of", ""), row["cure"]) == ("", Cure.SECRETS)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda machine: machine.add(Proc(100, 1, command=machine.procs[100].command, port=30000)), "processes"),
        (lambda machine: setattr(machine, "boot", OTHER_BOOT), "booted"),
        (lambda machine: machine.add(Proc(300, 3000, cards=(0,), memory=500)), "others hold the cards"),
    ],
)
def test_an_approval_is_bound_to_both(change: Any, says: str) -> None:
    before, machine = planned(serving_machine()), serving_machine()
    change(machine)
    after = planned(machine)
    assert after.hash != before.hash
    assert any(says in text for text in what_changed(before.data, after.data))


def test_a_stranger_who_has_left_takes_nothing_from_the_approval() -> None:
    with_stranger = planned(serving_machine().add(Proc(300, 3000, "python3", cards=(0,), memory=500)))
    left = who_left(with_stranger.hash, with_stranger.data, planned(serving_machine()).data)
    assert left is not None and [row["pid"] for row in left] == [300]
