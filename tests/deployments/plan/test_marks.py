"""Whose word counts: a log and a variable of a launch, in the hands of a stranger, of the login, and of the unknown."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from deployments.decisions.stop_ladder import Record
from deployments.engines.registry import ENGINES
from deployments.plan.after_stop import Stopped, left_over, survivors
from deployments.plan.cards import Held, holders
from deployments.plan.marks import identity, launch_of, marks
from deployments.plan.port import port_verdict
from deployments.plan.serving import KnownLaunch, Serving, find_serving
from deployments.plan.sharing import Rules
from hosts.probe.facts import HostFacts
from hosts.probe.frames import Unknown
from hosts.probe.processes import ProcessTable
from tests.deployments.machine import BOOT, CARDS, OTHER_BOOT, Machine, Proc, idle_machine

LAUNCH = "22222222-3333-4444-5555-666666666666"
STRANGER, LOGIN, SERVICE = 1001, 1000, 990
WORKER = Proc(901, 9001, "python", "python worker.py")
KNOWN = KnownLaunch(LAUNCH, BOOT, 100, 1000)
RECORD = Record(BOOT, (100, 1000), ((100, 1000),), newest=5000)

Mark = Callable[[Proc], Proc]
MARKS = [lambda proc: replace(proc, log=LAUNCH), lambda proc: replace(proc, marker=LAUNCH)]
both = pytest.mark.parametrize("mark", MARKS, ids=["log", "environment"])


def serves(machine: Machine) -> set[int] | Unknown:
    found = find_serving(machine.facts(), launch=KNOWN, port=30000, is_ours=ENGINES["sglang"].recognises)
    return set(found.pids) if isinstance(found, Serving) else found


def left(machine: Machine, uid: int | None = None) -> list[int]:
    stopped = Stopped(replace(RECORD, uid=uid), launches=frozenset({LAUNCH}))
    return [process.pid for process in left_over(machine.facts(), stopped)]


@both
@pytest.mark.parametrize(
    ("machine", "uid", "counts"),
    [
        (Machine(), STRANGER, False),
        (Machine(), 0, True),
        (Machine(login=LOGIN), LOGIN, True),
        (Machine(login=LOGIN, by_sudo=True), LOGIN, True),
        (Machine(login=LOGIN, by_sudo=True), STRANGER, False),
        (Machine(login=LOGIN, by_sudo=True), 0, True),
    ],
)
def test_it_counts_for_root_and_the_login_only(mark: Mark, machine: Machine, uid: int, counts: bool) -> None:
    machine = replace(machine, procs={}).add(mark(replace(WORKER, uid=uid)))
    assert serves(machine) == ({901} if counts else set())
    assert left(machine) == ([901] if counts else [])


@both
def test_it_counts_for_the_user_of_the_recorded_server(mark: Mark) -> None:
    machine = Machine(procs={}).add(Proc(100, 1000, uid=SERVICE), mark(replace(WORKER, uid=SERVICE)))
    assert serves(machine) == {100, 901}
    machine.procs[100].uid = 0
    assert serves(machine) == {100}
    assert left(machine, uid=SERVICE) == [901]
    assert left(machine) == []


def test_the_log_of_a_stranger_makes_him_no_co_tenant_and_no_other_deployments_server() -> None:
    stranger = Proc(70, 700, "train", "python train.py", cards=(0,), port=30000, uid=STRANGER, log=LAUNCH)
    machine, launches = idle_machine().add(stranger), {LAUNCH: "embedder"}
    labels, rules = {"GPU-aaaa": "GPU 0"}, Rules(frozenset({"embedder"}))

    def look() -> tuple[list[int], list[str]]:
        held = holders(machine.facts(), labels=labels, rules=rules, launches=launches)
        port = port_verdict(machine.facts(), 30000, launches=launches)
        assert isinstance(held, Held)
        return [holder.pid for holder in held.strangers], [holder.deployment for holder in port.holders]

    assert look() == ([70], [""])
    machine.procs[70].uid = 0
    assert look() == ([], ["embedder"])


def nobody_told(machine: Machine) -> HostFacts:
    """The look of a machine that does not say whose its processes are."""
    facts = machine.facts()
    assert not isinstance(facts.processes, Unknown)
    table = {pid: replace(process, uid=None) for pid, process in facts.processes.by_pid.items()}
    return replace(facts, processes=ProcessTable(table))


@both
def test_a_plain_login_sees_its_own_marks_only_so_they_count_though_no_user_is_told(mark: Mark) -> None:
    machine = Machine(login=LOGIN, procs={}).add(mark(replace(WORKER, uid=LOGIN)))
    assert [(found.pid, found.counts) for found in marks(nobody_told(machine))] == [(901, True)]


@both
def test_root_who_is_not_told_the_user_does_not_know(mark: Mark) -> None:
    facts = nobody_told(Machine(procs={}).add(mark(replace(WORKER, uid=LOGIN))))
    found = find_serving(facts, launch=KNOWN, port=30000, is_ours=ENGINES["sglang"].recognises)
    assert isinstance(found, Unknown) and "Process 901" in found.reason
    stopped = Stopped(RECORD, launches=frozenset({LAUNCH}))
    assert left_over(facts, stopped) == ()
    assert survivors(facts, stopped) is None
    assert survivors(facts, replace(stopped, launches=frozenset({"another"}))) == ()


def test_the_walk_over_the_files_tells_the_users_where_nothing_else_was_asked() -> None:
    machine = Machine(procs={}).add(replace(WORKER, uid=STRANGER, log=LAUNCH))
    machine.broken = {"uids": None, "users": None}
    table = machine.facts().processes
    assert not isinstance(table, Unknown) and table.by_pid[901].uid == STRANGER


def test_root_of_a_container_is_root_as_its_node_sees_it() -> None:
    inside = replace(WORKER, uid=100_000, log=LAUNCH, pids=(901, 77))
    machine = Machine(procs={}).add(Proc(500, 50, "init", uid=100_000, pids=(500, 1)), inside)
    assert launch_of(machine.facts(), ()) == {901: LAUNCH}
    machine.procs[901] = replace(inside, uid=100_033)
    assert launch_of(machine.facts(), ()) == {}, "some other user there"
    machine.procs[901] = replace(inside, pids=())
    assert launch_of(machine.facts(), ()) == {}, "not in a container"


ADOPTED = identity(BOOT, 901, 9001)


def test_a_server_that_was_adopted_is_known_by_its_identity() -> None:
    machine = Machine(procs={}).add(replace(WORKER, uid=STRANGER))
    assert launch_of(machine.facts(), (ADOPTED, LAUNCH)) == {901: ADOPTED}
    assert launch_of(machine.facts(), (identity(BOOT, 901, 9002),)) == {}, "another process has its number"
    assert launch_of(machine.facts(), (identity(OTHER_BOOT, 901, 9001),)) == {}, "of another boot"


def test_in_a_container_it_is_known_to_the_node_by_its_number_there() -> None:
    machine = Machine(procs={}).add(replace(WORKER, pid=4242, pids=(4242, 901)))
    assert launch_of(machine.facts(), (ADOPTED,)) == {4242: ADOPTED}


def test_it_holds_a_card_for_its_deployment() -> None:
    machine = idle_machine().add(Proc(901, 9001, "python", "python -m sglang.launch_server", cards=(0,), parent=1))
    labels = {CARDS[0]: "GPU 0"}
    held = holders(machine.facts(), labels=labels, rules=Rules(frozenset({"chat"})), launches={ADOPTED: "chat"})
    assert isinstance(held, Held) and [each.deployment for each in held.co_tenants] == ["chat"] and not held.strangers
