"""Memory and holders of the deployment's cards, and of no others."""

from dataclasses import replace

import pytest

from deployments.decisions.verify import HolderSeen
from deployments.plan.cards import Card, Held, cards_seen, holders, memory_of, memory_on, pids_inside, with_those_of
from deployments.plan.sharing import Rules
from hosts.probe.frames import NOT_ASKED, Unknown
from tests.deployments.machine import CARDS, Machine, Proc, idle_machine, serving_machine

LABELS = {uuid: f"GPU {n}" for n, uuid in enumerate(CARDS)}
FIRST = {CARDS[0]: "GPU 0"}


def held(machine: Machine, **kwargs: object) -> list[int]:
    found = holders(machine.facts(), **({"labels": LABELS} | kwargs))  # type: ignore[arg-type]
    assert not isinstance(found, Unknown)
    return [holder.pid for holder in found.strangers]


def test_cards_with_their_limits() -> None:
    machine = Machine(cards={"GPU-aaaa": 4, "GPU-bbbb": "[N/A]"})
    cards = [Card("GPU-aaaa", "GPU 0", 10), Card("GPU-bbbb", "GPU 1", None), Card("GPU-gone", "GPU-gone", 0)]
    first, second, third = cards_seen(machine.facts(), cards)
    assert (first.used_mib, first.limit_mib, first.is_free) == (4, 74, True)
    assert (second.used_mib, second.limit_mib, second.is_free) == (None, 64, False)
    assert second.reason and "does not list" in third.reason
    assert not third.is_free


def test_no_reading_of_any_card() -> None:
    machine = idle_machine()
    machine.broken["gpus"] = machine.broken["memory"] = ("No devices were found", 6)
    (card,) = cards_seen(machine.facts(), [Card(CARDS[0], "GPU 0", 0)])
    assert card.used_mib is None and card.reason


def test_holders_are_named_with_user_and_cards() -> None:
    machine = idle_machine().add(Proc(9, 90, "trainer", "python train.py", uid=1000, cards=(0, 1)))
    assert holders(machine.facts(), labels=LABELS) == Held(
        (HolderSeen(9, 90, "python train.py", "uid 1000", ("GPU 0", "GPU 1")),)
    )


@pytest.mark.parametrize(
    ("comm", "purpose"),
    [("Xorg", "the screen"), ("nvidia-cuda-mps", "MPS"), ("nv-hostengine", "DCGM"), ("nvidia-smi", None)],
)
def test_the_machines_own_services_are_no_strangers_and_are_named(comm: str, purpose: str | None) -> None:
    found = holders(idle_machine().add(Proc(9, 90, comm, cards=(0,))).facts(), labels=LABELS)
    assert isinstance(found, Held) and found.all == ()
    assert [holder.pid for holder in found.daemons] == ([9] if purpose else [])
    assert all(holder.name.startswith(f"{comm}, {purpose}") for holder in found.daemons)


def test_who_does_not_count() -> None:
    machine = serving_machine()
    assert held(machine) == [101, 102]
    assert held(machine, ours={(101, 1001)}) == [102]
    assert held(machine, ours={(101, 999)}) == [101, 102], "another start time is another process"
    assert held(machine, rules=Rules(programs=("root:sglang::schedul",))) == []
    assert held(machine, labels=FIRST) == [101], "only this deployment's cards count"
    machine.procs[101].state = "Z"
    assert held(machine) == [102]


def test_the_kernel_tells_which_file_is_which_card_when_the_driver_does_not() -> None:
    """A neighbour must not be named, and offered to be killed, because nvidia-smi has failed."""
    machine = serving_machine()
    machine.broken["gpus"] = machine.broken["memory"] = ("Failed to initialize NVML: Unknown Error", 255)
    assert held(machine, labels=FIRST) == [101, 102], "where nobody tells, it may be any file"
    page = "/proc/driver/nvidia/gpus/0000:0{n}:00.0/information:{what}\n"
    machine.broken["minors"] = "".join(
        page.format(n=n, what=f"GPU UUID: {uuid}") + page.format(n=n, what=f"Device Minor: {n}")
        for n, uuid in enumerate(CARDS)
    )
    assert held(machine, labels=FIRST) == [101]


@pytest.mark.parametrize("name", ["nvidia-persiste", "nvidia-smi", "nv-hostengine"])
def test_the_drivers_own_services_hold_nothing(name: str) -> None:
    assert held(idle_machine().add(Proc(5, 50, name, cards=(0, 1)))) == []


def test_the_node_knows_a_containers_process_by_its_inner_pid_and_start_time() -> None:
    node = idle_machine().add(
        Proc(5100, 1001, cards=(0,), pids=(5100, 101)), Proc(5200, 1002, cards=(1,), pids=(5200, 102))
    )
    assert held(node, ours={(101, 1001)}) == [5200]
    assert held(node, ours={(101, 1111), (102, 1002)}) == [5100]
    node.broken["nspids"] = None
    assert held(node, ours={(101, 1001)}) == [5200]


@pytest.mark.parametrize("asked", [True, False])
def test_whoever_may_be_another_containers_is_not_taken_for_ours(asked: bool) -> None:
    """Two containers that start at once may have a process of the same number and tick."""
    node = idle_machine().add(
        Proc(5100, 1001, cards=(0,), pids=(5100, 101)),
        Proc(6100, 1001, cards=(0,), pids=(6100, 101)),
        Proc(5200, 1002, cards=(1,), pids=(5200, 102)),
    )
    if not asked:
        node.broken["nspids"] = None
    assert held(node, ours={(101, 1001), (102, 1002)}) == [5100, 6100]
    inside = pids_inside(node.facts())
    assert inside == {(102, 1002): 5200} if asked else isinstance(inside, Unknown)


def test_without_a_list_of_cards_every_holder_may_hold_ours() -> None:
    machine = serving_machine()
    machine.broken["gpus"] = machine.broken["memory"] = ("", 9)
    assert held(machine, labels={"GPU-other": "GPU 9"}) == [101, 102]


@pytest.mark.parametrize("section", ["fds", "procs"])
def test_what_cannot_be_seen_is_unknown(section: str) -> None:
    machine = serving_machine()
    machine.broken[section] = None
    assert isinstance(holders(machine.facts(), labels=LABELS), Unknown)


def test_memory_by_process() -> None:
    machine = serving_machine()
    machine.procs[101].cards = (0, 1)
    assert memory_of(machine.facts(), [101, 103]) == {101: 78_000}
    machine.broken["apps"] = None
    assert memory_of(machine.facts(), [101]) == {}


def test_the_file_of_a_card_has_its_own_number() -> None:
    machine = idle_machine().add(Proc(6, 60, cards=(6,)), Proc(7, 70, cards=(7,)), Proc(8, 80, cards=(0,)))
    machine.minors = (7, 6)
    assert machine.facts().device_files.nodes == (6, 7)
    machine.broken["minors"] = "".join(
        f"/proc/driver/nvidia/gpus/0000:0{n}:00.0/information:Device Minor: {minor}\n" for n, minor in enumerate((7, 6))
    )
    found = holders(machine.facts(), labels=FIRST)
    assert not isinstance(found, Unknown)
    assert [(holder.pid, holder.cards) for holder in found.strangers] == [(7, ("GPU 0",))]


def test_where_the_files_cannot_be_told_apart_every_holder_counts() -> None:
    machine = idle_machine().add(Proc(6, 60, cards=(6,)), Proc(8, 80, cards=(0,)))
    machine.broken["minors"] = None
    assert held(machine, labels=FIRST) == [6, 8]


def test_a_lost_card_may_be_behind_any_file_that_is_not_another_cards() -> None:
    machine = idle_machine().add(Proc(6, 60, cards=(2,)), Proc(8, 80, cards=(0,)))
    assert held(machine, labels={"GPU-lost": "GPU 5"}) == [6]


def test_a_holder_that_the_panel_launched_for_another_deployment_is_named_by_it() -> None:
    launch = "0215ffb0-8aa0-4d3c-9f53-1b2a3c4d5e6f"
    machine = idle_machine().add(Proc(9, 90, "python", "python serve.py", cards=(0,), log=launch))
    found = holders(machine.facts(), labels=FIRST, launches={launch: "embedder"})
    assert not isinstance(found, Unknown)
    assert [str(holder) for holder in found.strangers] == ["python serve.py (pid 9, root, of deployment embedder)"]
    other = holders(machine.facts(), labels=FIRST)
    assert not isinstance(other, Unknown) and other.strangers[0].deployment == ""


# --- Co-tenants

EMBEDDER = "0215ffb0-8aa0-4d3c-9f53-1b2a3c4d5e6f"


def shared(machine: Machine, rules: Rules, **kwargs: object) -> tuple[list[int], list[int]]:
    """Strangers and co-tenants, by pid."""
    found = holders(machine.facts(), labels=LABELS, rules=rules, **kwargs)  # type: ignore[arg-type]
    assert isinstance(found, Held), found
    return [holder.pid for holder in found.strangers], [holder.pid for holder in found.co_tenants]


@pytest.mark.parametrize(
    ("entry", "allowed"),
    [
        ("root:viewer", False),
        ("alice:viewer", True),
        ("1000:viewer", True),
        ("alice:viewe", False),
        ("bob:viewer", False),
        ("viewer", False),
        (":viewer", False),
    ],
)
def test_a_stranger_is_allowed_by_user_and_program(entry: str, allowed: bool) -> None:
    machine = idle_machine().add(Proc(9, 90, "viewer", uid=1000, user="alice", cards=(0,)))
    assert shared(machine, Rules(programs=(entry,))) == (([], [9]) if allowed else ([9], []))


def test_a_long_name_is_cut_as_the_kernel_cuts_it() -> None:
    machine = idle_machine().add(Proc(9, 90, "embedding-serve", cards=(0,)))
    assert shared(machine, Rules(programs=("root:embedding-server",))) == ([], [9])


def test_a_server_of_ours_is_allowed_by_its_deployment_alone() -> None:
    machine = idle_machine().add(
        Proc(8, 80, "python", log=EMBEDDER),
        Proc(9, 90, "python", parent=8, cards=(0,)),
        Proc(7, 70, "python", cards=(1,)),
    )
    launches = {EMBEDDER: "embedder"}
    assert shared(machine, Rules(frozenset({"embedder"})), launches=launches) == ([7], [9]), "by the log above it"
    assert sorted(shared(machine, Rules(frozenset({"other"})), launches=launches)[0]) == [7, 9]
    assert shared(machine, Rules(programs=("root:python",)), launches=launches) == ([9], [7])


def test_where_not_all_can_be_seen_nobody_else_is_unknown() -> None:
    machine = idle_machine()
    machine.partial = True
    found = holders(machine.facts(), labels=LABELS)
    assert isinstance(found, Unknown) and "sudo" in found.reason
    machine.add(Proc(9, 90, "viewer", cards=(0,)))
    assert isinstance(holders(machine.facts(), labels=LABELS, rules=Rules(programs=("root:viewer",))), Unknown)
    assert held(machine) == [9], "one that is seen is there"


def test_a_shared_card_is_measured_by_what_is_free() -> None:
    machine = Machine(cards={"GPU-aaaa": 30_000, "GPU-bbbb": "[N/A]"})
    cards = [Card("GPU-aaaa", "GPU 0", 0, need_mib=19_140), Card("GPU-bbbb", "GPU 1", 0, need_mib=1)]
    first, second = cards_seen(machine.facts(), cards, shared={"GPU-aaaa", "GPU-bbbb"})
    assert (first.free_mib, first.need_mib, first.is_free) == (19_140, 19_140, True)
    assert second.free_mib is None and second.reason and not second.is_free
    alone = cards_seen(machine.facts(), cards)[0]
    assert not alone.is_free and alone.need_mib is None


@pytest.mark.parametrize(("tolerance", "limit"), [(0, 10), (300, 310)])
def test_the_tolerance_is_the_deployments(tolerance: int, limit: int) -> None:
    card = Card("GPU-aaaa", "GPU 0", 10, tolerance_mib=tolerance)
    assert cards_seen(idle_machine().facts(), [card])[0].limit_mib == limit
    assert Card("GPU-aaaa", "GPU 0", None, ceiling_mib=1024, tolerance_mib=tolerance).limit_mib == 1024


def test_memory_on_one_card() -> None:
    machine = serving_machine()
    assert memory_on(machine.facts(), [101, 102], CARDS[0]) == 39_000
    assert memory_on(machine.facts(), [103], CARDS[0]) is None


# --- Those that no list of files shows: by the driver's word, and by a thread's own list

HEAD = "pid, gpu_uuid, used_gpu_memory [MiB], process_name"


def told(*rows: str, groups: str = "") -> Machine:
    """The driver tells these rows, and process 9 has no file of a card open."""
    machine = idle_machine().add(Proc(9, 90, "trainer"))
    machine.broken["apps"] = "\n".join([HEAD, *rows]) + "\n"
    machine.broken["groups"] = groups
    return machine


@pytest.mark.parametrize(
    ("row", "found"),
    [
        (f"9, {CARDS[0]}, 10, python3", [9]),
        (f"9, {CARDS[0]}, [N/A], ./train, py", [9]),
        (f"9, {CARDS[1]}, 10, python3", []),
        (f"9, {CARDS[0]}, 10, [Not Found]", []),
        (f"31999, {CARDS[0]}, 10, python3", []),
        (f"[Insufficient Permissions], {CARDS[0]}, [Insufficient Permissions], [Insufficient Permissions]", []),
    ],
    ids=["told", "size not known", "another card", "without a name", "nobody by that number", "refused"],
)
def test_who_the_driver_says_uses_the_card_holds_it(row: str, found: list[int]) -> None:
    """One whose name it does not know may be numbered as the node numbers it, where that is another process."""
    assert held(told(row), labels=FIRST) == found


def test_a_threads_number_stands_for_its_process() -> None:
    """As drivers from 535.113 to 570.133 tell it."""
    machine = told(f"12, {CARDS[0]}, 10, python3", groups="/proc/12/status:Tgid:\t9\n")
    assert held(machine, labels=FIRST) == [9]
    assert memory_of(machine.facts(), {9}) == {9: 10}
    assert held(machine, labels=FIRST, ours={(9, 90)}) == []


def test_who_is_told_in_both_ways_is_named_once() -> None:
    machine = told(f"9, {CARDS[0]}, 10, python3").add(Proc(9, 90, "trainer", cards=(0, 1)))
    found = holders(machine.facts(), labels=LABELS)
    assert isinstance(found, Held) and [holder.cards for holder in found.strangers] == [("GPU 0", "GPU 1")]


def apart(machine: Machine) -> Machine:
    """A thread of process 9 alone has the first card's file open."""
    files = str(machine.sections()["fds"])
    machine.broken["fds"] = f"{files}/proc/9/task/12/fd:\nlrwx------ 1 0 0 64 Jan 1 00:00 4 -> /dev/nvidia0\n"
    return machine


@pytest.mark.parametrize("way", ["files", "driver"])
def test_later_looks_of_a_loop_know_whom_the_first_has_found(way: str) -> None:
    machine = apart(told()) if way == "files" else told(f"9, {CARDS[0]}, 10, python3")
    first = machine.facts()
    machine.broken.pop("fds", None)
    later = replace(machine.facts(), apps=NOT_ASKED)
    assert holders(later, labels=FIRST) == Held(())
    found = holders(with_those_of(first, later), labels=FIRST)
    assert isinstance(found, Held) and [holder.pid for holder in found.strangers] == [9]
    for gone in ({}, {9: Proc(9, 99, "another")}):
        machine.procs = gone
        left = replace(machine.facts(), apps=NOT_ASKED)
        assert holders(with_those_of(first, left), labels=FIRST) == Held(())
