"""The co-tenants of a plan: these very processes, and nobody else."""

import pytest

from deployments.decisions.verify import HolderSeen
from deployments.plan.cards import holders
from deployments.plan.page import co_tenant
from deployments.plan.sharing import Planned, Rules
from tests.deployments.machine import CARDS, Machine, Proc, idle_machine
from tests.deployments.plan.test_plan import plan, serving_machine

LABELS = {uuid: f"GPU {n}" for n, uuid in enumerate(CARDS)}
XORG = Rules(programs=("root:Xorg",))


def seen(pid: int, start: int) -> HolderSeen:
    return HolderSeen(pid, start, "Xorg", "root", ("GPU 1",))


def planned(machine: Machine) -> Planned:
    return Planned.of(plan(machine, rules=XORG, launch=None, kind="start").data)


def test_the_same_process_is_covered_and_another_is_not() -> None:
    was = planned(idle_machine().add(Proc(9, 90, "Xorg", cards=(1,))))
    assert was.covers(seen(9, 90), inside=False)
    assert not was.covers(seen(9, 91), inside=False), "the pid alone is no identity"
    assert not was.covers(seen(8, 90), inside=False)
    assert was.missing([seen(9, 90)]) == ()
    assert was.missing([seen(9, 91)]) == ("python (pid 9, root)",)
    assert was.shared(LABELS) == {CARDS[1]}


@pytest.mark.parametrize(("pid", "inside", "covered"), [(5100, False, True), (101, True, True), (101, False, False)])
def test_a_container_knows_them_by_their_own_pid(pid: int, inside: bool, covered: bool) -> None:
    node = idle_machine().add(Proc(5100, 90, "Xorg", cards=(1,), pids=(5100, 101)))
    found = holders(node.facts(), labels=LABELS, rules=XORG)
    was = Planned(tuple(co_tenant(holder, node.facts()) for holder in found.co_tenants))  # type: ignore[union-attr]
    assert was.covers(seen(pid, 90), inside=inside) == covered


def test_without_co_tenants_nothing_is_shared() -> None:
    assert planned(idle_machine()) == Planned() == Planned.of(None)
    assert Planned().shared(LABELS) == frozenset()


def test_co_tenants_are_named_in_the_plan_with_their_deployment_and_are_no_reason_to_warn() -> None:
    launch = "0215ffb0-8aa0-4d3c-9f53-1b2a3c4d5e6f"
    machine = serving_machine().add(Proc(9, 90, "python", "python embed.py", cards=(1,), log=launch, memory=1000))
    data = plan(machine, rules=Rules(frozenset({"embedder"})), launches={launch: "embedder"}).data
    (row,) = data["co_tenants"]
    assert (row["pid"], row["deployment"], row["gpus"], row["memory_mib"]) == (9, "embedder", ["GPU 1"], 1000)
    assert data["untouched"] == [] and 9 not in [stopped["pid"] for stopped in data["stops"]]
    assert [warning["text"] for warning in data["warnings"]] == ["How much memory qwen r2 needs on GPU 1 is not known."]
    assert not data["blocked"]
