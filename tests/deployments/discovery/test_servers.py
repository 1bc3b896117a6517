"""Which servers run on a machine, from its processes, ports and cards."""

from collections.abc import Mapping

from deployments.discovery.servers import candidates, cards_of, inner_pid, launch_of, recognised, started_at
from hosts.probe.frames import Unknown
from tests.deployments.machine import CARDS, Machine, Proc, idle_machine, serving_machine

COMMAND = "python -m sglang.launch_server --model-path /models/qwen --port 30000"


def found(machine: Machine) -> list[tuple[int, int, bool]]:
    """(root, port, listens)"""
    argvs = {proc.pid: tuple(proc.command.split()) for proc in machine.procs.values()}
    return [(each.root.pid, each.port, each.listens) for each in candidates(machine.facts(), recognised(argvs), argvs)]


def test_a_server_counts_once_with_its_tree() -> None:
    assert found(serving_machine()) == [(100, 30000, True)]


def test_who_only_has_the_command_in_its_own_is_none() -> None:
    machine = serving_machine().add(
        Proc(50, 500, "tmux: server", f"tmux new -d {COMMAND}"),
        Proc(51, 510, "sudo", f"sudo -u llm {COMMAND}", parent=50),
        Proc(60, 600, "grep", "grep sglang.launch_server"),
        Proc(61, 610, "vim", "vim sglang.launch_server.log", cards=()),
    )
    assert found(machine) == [(100, 30000, True)]


def test_one_that_still_loads_is_found_by_its_card() -> None:
    machine = idle_machine().add(
        Proc(99, 990, "sh", f"sh -c {COMMAND}"),
        Proc(100, 1000, "python", COMMAND, parent=99),
        Proc(101, 1010, "sglang::schedul", "sglang::scheduler", parent=100, cards=(0,)),
    )
    assert found(machine) == [(100, 30000, False)]


def test_two_on_one_machine_are_two() -> None:
    second = Proc(200, 2000, "python", COMMAND.replace("30000", "30001"), port=30001, cards=(1,))
    assert found(serving_machine().add(second)) == [(100, 30000, True), (200, 30001, True)]


def test_a_program_that_is_no_engine_is_none() -> None:
    assert found(idle_machine().add(Proc(7, 70, "python", "python train.py", cards=(0,), port=6006))) == []


def _cards(machine: Machine) -> Mapping[str, int | None]:
    argvs = {proc.pid: tuple(proc.command.split()) for proc in machine.procs.values()}
    facts = machine.facts()
    return {card.uuid: card.mib for card in cards_of(facts, candidates(facts, recognised(argvs), argvs)[0].serving)}


def test_cards_and_memory_are_those_of_its_whole_tree() -> None:
    cards = _cards(serving_machine())
    assert list(cards) == list(CARDS[:2]) and all(isinstance(mib, int) and mib > 0 for mib in cards.values())


def test_where_the_driver_names_no_process_its_open_files_tell_the_cards() -> None:
    machine = serving_machine()
    machine.broken = {"apps": None}
    assert _cards(machine) == dict.fromkeys(CARDS[:2])


def test_since_when_it_runs_is_told_by_the_youngest_process() -> None:
    machine = serving_machine().add(Proc(900, 100_000, "sh"))
    facts = machine.facts()
    assert not isinstance(facts.processes, Unknown)
    began = started_at(facts, facts.processes.by_pid[100])
    assert began < facts.measured_at.isoformat() and began.endswith("+00:00")


def test_in_a_container_it_has_a_number_of_its_own() -> None:
    machine = idle_machine().add(Proc(100, 1000, "python", COMMAND, cards=(0,), pids=(100, 7)))
    facts = machine.facts()
    assert not isinstance(facts.processes, Unknown)
    assert inner_pid(facts, facts.processes.by_pid[100]) == 7
    assert (
        launch_of(facts, candidates(facts, recognised({100: COMMAND.split()}), {100: COMMAND.split()})[0].serving) == ""
    )
