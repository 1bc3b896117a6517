"""Who serves: by the launch's record, its marker, or the engine on the port; and never a pid alone."""

from deployments.engines.registry import ENGINES
from deployments.plan.serving import NOTHING, KnownLaunch, Serving, find_serving, port_owners
from hosts.probe.frames import Unknown
from tests.deployments.machine import BOOT, OTHER_BOOT, Machine, Proc, idle_machine, serving_machine

LAUNCH = KnownLaunch("abc", BOOT, 100, 1000)


def find(machine: Machine, launch: KnownLaunch | None = LAUNCH, port: int = 30000) -> Serving | Unknown:
    return find_serving(machine.facts(), launch=launch, port=port, is_ours=ENGINES["sglang"].recognises)


def pids(serving: Serving | Unknown) -> set[int]:
    assert isinstance(serving, Serving)
    return set(serving.pids)


def test_the_recorded_process_and_all_below_it() -> None:
    serving = find(serving_machine())
    assert isinstance(serving, Serving) and serving.root is not None
    assert (serving.root.pid, pids(serving)) == (100, {100, 101, 102, 103})
    assert "recorded" in serving.how


def test_a_reused_pid_is_somebody_else() -> None:
    machine = serving_machine()
    machine.procs[100] = Proc(100, 999_999, "sshd", "sshd")
    for pid in (101, 102, 103):
        del machine.procs[pid]
    assert find(machine) == NOTHING


def test_a_record_of_another_boot_names_nobody() -> None:
    machine = serving_machine()
    machine.boot = OTHER_BOOT
    machine.procs[100].command, machine.procs[100].port = "sshd", None
    assert find(machine) == NOTHING


def test_orphans_that_carry_the_marker_belong_to_the_launch_when_the_root_is_gone() -> None:
    machine = idle_machine().add(
        Proc(101, 1001, "worker", parent=1, cards=(0,), marker="abc"), Proc(104, 1004, parent=101), Proc(105, 1005)
    )
    serving = find(machine)
    assert isinstance(serving, Serving) and serving.root is None
    assert pids(serving) == {101, 104}
    assert "marker" in serving.how


def test_what_carries_another_launchs_marker_does_not() -> None:
    assert find(idle_machine().add(Proc(101, 1001, marker="other"))) == NOTHING


def test_a_process_outside_the_tree_with_the_marker_is_ended_too() -> None:
    machine = serving_machine().add(Proc(200, 2000, parent=1, marker="abc"))
    assert pids(find(machine)) == {100, 101, 102, 103, 200}


def test_without_a_launch_the_engine_on_the_port_serves() -> None:
    serving = find(serving_machine(), launch=None)
    assert pids(serving) == {100, 101, 102, 103}


def test_another_program_on_the_port_is_not_ours() -> None:
    assert find(idle_machine().add(Proc(7, 70, "nginx", "nginx", port=30000)), launch=None) == NOTHING


def test_the_engine_on_another_port_is_not_this_deployments() -> None:
    assert find(serving_machine(), launch=None, port=30001) == NOTHING


def test_a_zombie_serves_nobody_but_one_with_threads_does() -> None:
    machine = serving_machine()
    machine.procs[101].state = "Z"
    machine.procs[102].state, machine.procs[102].threads = "Z", 4
    assert pids(find(machine)) == {100, 102, 103}


def test_what_cannot_be_seen_is_unknown_not_nothing() -> None:
    for section in ("host", "procs"):
        machine = serving_machine()
        machine.broken[section] = None
        assert isinstance(find(machine), Unknown), section
    machine = serving_machine()
    machine.broken["listeners"] = None
    assert isinstance(find(machine, launch=None), Unknown)


def test_port_owners() -> None:
    machine = serving_machine()
    assert port_owners(machine.facts(), 30000) == {100}
    assert port_owners(machine.facts(), 1) == frozenset()
    machine.broken["fds"] = "/proc/1/fd:\n"
    hidden = port_owners(machine.facts(), 30000)
    assert isinstance(hidden, Unknown) and "may not see who" in hidden.reason
    machine.broken["fds"] = None
    assert isinstance(port_owners(machine.facts(), 30000), Unknown)
    assert port_owners(machine.facts(), 1) == frozenset(), "nobody listens: no need to know files"
