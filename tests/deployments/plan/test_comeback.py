"""A server that comes back by itself: known again, and what has started it is named."""

import pytest

from deployments.plan.comeback import Back, Stopped, wanted, who_is_back
from tests.deployments.machine import SGLANG, Machine, Proc, idle_machine

STOPPED = Stopped(newest=5000, manager="", names=("python", "sglang::schedul"))
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
    assert look(machine, 900)[0].command == OTHER


def test_a_stranger_in_the_way_is_a_stranger() -> None:
    machine = idle_machine().add(Proc(900, 9000, "train", "python train.py", cards=(0,)))
    assert look(machine, 900) == ()
    machine.cgroups = {900: "/system.slice/chat.service"}
    same = Stopped(5000, "systemd unit chat.service")
    assert look(machine, 900, stopped=same), "but of the unit of the server that was stopped"
    assert not look(machine, 900, stopped=Stopped(5000, "systemd unit other.service"))


def test_the_dead_have_not_come_back() -> None:
    machine = again()
    machine.procs[900].state = machine.procs[901].state = "Z"
    assert look(machine) == ()
