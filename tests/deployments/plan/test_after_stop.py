"""A server that comes back by itself: known again, and what has started it is named."""

from dataclasses import replace

import pytest

from deployments.decisions.stop_ladder import Record
from deployments.plan.after_stop import Back, Stopped, left_over, survivors, wanted, who_is_back
from deployments.plan.manager import Manager, find_manager
from deployments.plan.manager_answers import Told
from deployments.plan.serving import Serving
from hosts.probe.frames import Unknown
from hosts.probe.processes import ProcessTable
from tests.deployments.machine import BOOT, SGLANG, Machine, Proc, idle_machine

RECORD = Record("boot", (100, 1000), ((100, 1000),), newest=5000, names=("python", "sglang::schedul"))
STOPPED = Stopped(RECORD)
OTHER = SGLANG.replace("30000", "30001")


def look(machine: Machine, *in_the_way: int, stopped: Stopped = STOPPED) -> tuple[Back, ...]:
    return who_is_back(
        machine.facts(),
        stopped,
        in_the_way=in_the_way,
        is_server=lambda command: "sglang" in command,
        is_same=lambda command: command == SGLANG,
    )


def again(*above: Proc, cgroup: str = "/", command: str = SGLANG) -> Machine:
    """A server (900) with a worker (901) that has started since; ``above`` from the outermost in."""
    machine = idle_machine()
    machine.cgroups = {1: "/init.scope", 900: cgroup, 901: cgroup}
    parent = 1
    for proc in above:
        proc.parent = parent
        machine.add(proc)
        parent = proc.pid
    machine.add(Proc(900, 9000, command=command, parent=parent, port=30000))
    return machine.add(Proc(901, 9001, "sglang::schedul", "sglang::scheduler_TP0", parent=900, cards=(0,)))


@pytest.mark.parametrize(
    ("machine", "by"),
    [
        (again(cgroup="/system.slice/chat.service"), "the systemd unit chat.service has started it again"),
        (again(cgroup=f"/docker/{'ab' * 32}"), "the container abababababab has started it again"),
        (again(Proc(50, 50, "supervisord")), "the supervisor supervisord has started it again"),
        (again(Proc(40, 40, "tmux: server"), Proc(50, 50, "bash")), "the shell bash (pid 50) in tmux has started it"),
        (again(Proc(50, 50, "bash"), Proc(60, 8999, "sh")), "the shell bash (pid 50) has started it"),
        (again(Proc(50, 50, "watchdog.py")), "the process watchdog.py (pid 50) has started it, perhaps a watchdog"),
        (again(cgroup="/system.slice/cron.service"), "it was started from cron.service"),
        (again(), "what started it has ended since"),
    ],
)
def test_what_has_started_it_is_named(machine: Machine, by: str) -> None:
    (back,) = look(machine, 900, 901)
    assert by in back.by and "come back by itself" in str(back)
    assert {900, 901} <= back.pids


def test_it_is_known_by_a_worker_alone_and_before_it_reaches_port_or_cards() -> None:
    assert look(again(), 901)[0].root.pid == 900
    assert look(again())[0].root.pid == 900, "the same command, while it still loads"
    assert wanted(again().facts(), STOPPED, ()) == {900, 901}


def test_whoever_was_there_before_the_stop_has_not_come_back() -> None:
    machine = again()
    machine.procs[900].start = machine.procs[901].start = 5000
    assert look(machine, 900, 901) == ()
    assert wanted(machine.facts(), STOPPED, (900, 901)) == frozenset()


def test_another_server_of_the_engine_counts_only_where_it_is_in_the_way() -> None:
    machine = again(command=OTHER)
    del machine.procs[901]
    assert look(machine) == (), "a neighbour on other cards"
    (other,) = look(machine, 900)
    assert other.command == OTHER and not other.is_same
    assert str(other).startswith("A server of this engine was started meanwhile as pid 900")


def test_the_server_is_the_server_whichever_of_its_processes_is_seen_first() -> None:
    machine = again(command="bash run.sh")
    machine.add(Proc(902, 9002, command=SGLANG, parent=900))
    (back,) = look(machine, 900, 901, 902)
    assert back.is_same, "901 alone is only one of the engine"


def test_a_server_of_another_deployment_is_nobody_that_came_back() -> None:
    machine = again()
    launch = "22222222-3333-4444-5555-666666666666"
    machine.procs[900].log = launch
    others = replace(STOPPED, others={launch: "embedder"})
    assert look(machine, 900, 901, stopped=others) == ()
    assert wanted(machine.facts(), others, (900, 901)) == frozenset()
    assert look(machine, 900, 901)


def test_a_stranger_in_the_way_is_a_stranger() -> None:
    machine = idle_machine().add(Proc(900, 9000, "train", "python train.py", cards=(0,)))
    assert look(machine, 900) == ()


def looked_after(machine: Machine, pid: int, **told: str) -> Stopped:
    """The server of process ``pid`` was stopped, with what looks after it there and what that has told of itself."""
    facts = machine.facts()
    assert not isinstance(facts.processes, Unknown)
    manager = find_manager(facts, Serving(facts.processes.by_pid[pid], (), ""))
    assert isinstance(manager, Manager)
    return Stopped(replace(RECORD, manager_identity=replace(manager, told=Told(**told)).identity))


ID = "ab" * 32


@pytest.mark.parametrize(
    ("group", "other"),
    [
        ("/system.slice/chat.service", "/system.slice/other.service"),
        (f"/system.slice/docker-{ID}.scope", f"/system.slice/docker-{'cd' * 32}.scope"),
        (
            "/user.slice/user-7.slice/user@7.service/chat.service",
            "/user.slice/user-8.slice/user@8.service/chat.service",
        ),
    ],
)
def test_what_a_unit_or_container_starts_is_its_server_whatever_its_command(group: str, other: str) -> None:
    machine = idle_machine().add(Proc(100, 1000), Proc(900, 9000, "train", "python train.py", cards=(0,)))
    machine.cgroups = {100: group, 900: group}
    stopped = looked_after(machine, 100, name="chat", restart="always")
    assert look(machine, 900, stopped=stopped)
    machine.cgroups[900] = other
    assert not look(machine, 900, stopped=stopped)


def test_a_second_program_of_runit_is_not_the_first() -> None:
    machine = idle_machine().add(Proc(50, 50, "runsv"), Proc(51, 51, "runsv"), Proc(100, 1000, parent=50))
    again = machine.add(Proc(900, 9000, "train", "python train.py", parent=50, cards=(0,)))
    stopped = looked_after(machine, 100)
    assert look(again, 900, stopped=stopped)
    again.procs[900].parent = 51
    assert not look(again, 900, stopped=stopped)


def test_of_a_supervisor_of_many_programs_only_one_in_the_way_with_the_servers_names_is_back() -> None:
    machine = idle_machine().add(Proc(50, 50, "supervisord"), Proc(100, 1000, parent=50))
    stopped = looked_after(machine, 100, name="g:chat")
    machine.add(Proc(900, 9000, "run.sh", "bash run.sh", parent=50))
    machine.add(Proc(901, 9001, "sglang::schedul", "no name of an engine", parent=900, cards=(0,)))
    assert look(machine, 901, stopped=stopped)[0].root.pid == 900
    assert not look(machine, stopped=stopped), "another program of its, on other cards"
    machine.procs[901].comm = "train"
    assert not look(machine, 901, stopped=stopped), "a stranger"


def test_the_dead_have_not_come_back() -> None:
    machine = again()
    machine.procs[900].state = machine.procs[901].state = "Z"
    assert look(machine) == ()


LAUNCH = "22222222-3333-4444-5555-666666666666"
OURS = replace(STOPPED, launches=frozenset({LAUNCH}))
WORKER = Proc(901, 9001, "sglang::schedul", SGLANG, cards=(0,))


def left(machine: Machine) -> list[int]:
    return [process.pid for process in left_over(machine.facts(), OURS)]


@pytest.mark.parametrize(
    "worker",
    [
        replace(WORKER, log=LAUNCH),
        replace(WORKER, marker=LAUNCH),
        replace(WORKER, group=100),
        replace(WORKER, session=100),
    ],
)
def test_what_the_old_server_forked_after_the_record_is_left_over_and_has_not_come_back(worker: Proc) -> None:
    machine = idle_machine().add(worker, Proc(902, 9002, "python", SGLANG, parent=901))
    assert left(machine) == [901, 902], "with what came from it"
    assert look(machine, 901, 902, stopped=OURS) == () == look(machine, stopped=OURS)


def test_only_the_living_of_this_deployment_that_were_not_recorded_are_left_over() -> None:
    machine = idle_machine().add(replace(WORKER, log=LAUNCH.replace("2", "3")), Proc(100, 1000, log=LAUNCH))
    assert left(machine) == []
    machine.procs[901] = replace(WORKER, log=LAUNCH, state="Z")
    assert left(machine) == []
    machine.procs[901] = replace(WORKER, log=LAUNCH, start=4000)
    assert left(machine) == [901], "whenever it has started"


@pytest.mark.parametrize("link", [{"group": 100}, {"session": 100}])
def test_who_was_in_the_servers_group_before_the_plan_is_not_left_over(link: dict[str, int]) -> None:
    """`serve | relay &`: relay is of the group that the server began, and its owner still needs it."""
    machine = idle_machine().add(Proc(90, 995, "relay", "python relay.py", **link))  # type: ignore[arg-type]
    assert left(machine) == []
    machine.procs[90].start = RECORD.newest + 1 if RECORD.newest else 0
    assert left(machine) == [90]


def test_the_group_of_somebody_who_has_the_old_number_now_is_not_the_servers() -> None:
    machine = idle_machine().add(Proc(100, 8000), replace(WORKER, group=100, session=100, parent=100))
    assert left(machine) == []


def test_without_a_list_of_processes_nobody_is_said_to_be_left() -> None:
    machine = idle_machine().add(replace(WORKER, log=LAUNCH))
    machine.broken["procs"] = None
    assert left(machine) == []


@pytest.mark.parametrize(
    ("login", "server", "found"),
    [(1000, 990, None), (1000, None, None), (990, 990, ()), (0, 990, ())],
)
def test_who_is_hidden_from_the_login_is_not_known_to_have_ended(login: int, server: int | None, found: object) -> None:
    stopped, machine = Stopped(replace(RECORD, boot_id=BOOT, uid=server)), idle_machine()
    machine.login = login
    facts = machine.facts()
    assert survivors(facts, stopped) == ()
    assert not isinstance(facts.processes, Unknown)
    own = {pid: process for pid, process in facts.processes.by_pid.items() if pid != 1}
    assert survivors(replace(facts, processes=ProcessTable(own)), stopped) == found
