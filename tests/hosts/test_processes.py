"""/proc's words in, values out."""

import pytest

from hosts.probe.frames import Section, Unknown
from hosts.probe.holders import OpenFiles, parse_open_files
from hosts.probe.listeners import Listeners, parse_listeners
from hosts.probe.processes import (
    HostIdentity,
    ProcessTable,
    parse_details,
    parse_host,
    parse_markers,
    parse_nspids,
    parse_processes,
    parse_stat,
)
from tests.hosts.recorded import recorded

BOOT = "95964a5f-bbac-4f61-a5de-6b0591be4c67"
HOST_TEXT = f"""boot_id {BOOT}
hostname gpu1
uptime 1415.78
pid_namespace pid:[4026531836]
Uid:\t0\t0\t0\t0
"""


def section(text: str | bytes, status: int = 0) -> Section:
    return Section("x", text.encode() if isinstance(text, str) else text, status)


@pytest.fixture
def host() -> HostIdentity:
    parsed = parse_host(section(HOST_TEXT))
    assert isinstance(parsed, HostIdentity)
    return parsed


@pytest.fixture
def table() -> ProcessTable:
    parsed = parse_processes(recorded("proc/stat"))
    assert isinstance(parsed, ProcessTable)
    return parsed


def test_who_answered(host: HostIdentity) -> None:
    assert (host.boot_id, host.hostname, host.uid) == (BOOT, "gpu1", 0)


@pytest.mark.parametrize("lost", ["boot_id", "uptime", "pid_namespace", "Uid"])
def test_no_identity_without_its_parts(lost: str) -> None:
    text = "\n".join(line for line in HOST_TEXT.splitlines() if lost not in line)
    assert isinstance(parse_host(section(text)), Unknown)


def test_a_name_with_parentheses_hides_nothing() -> None:
    process = parse_stat("601 (a) R (b c) S 600 600 600 0 -1 0 1 2 3 4 5 6 7 8 20 0 9 0 41100 1 1")
    assert process is not None
    assert (process.comm, process.state, process.parent, process.threads) == ("a) R (b c", "S", 600, 9)
    assert process.start_time == 41100


def test_a_name_with_a_line_break_neither_hides_its_process_nor_makes_another() -> None:
    lines = ["7 (", "77 (x) S 1 7 7 0 -1 0 1 2 3 4 5 6 7 8 20 0 1 0 900 1 1", "88 (y) S 1 88 88 " + "0 " * 18]
    parsed = parse_processes(
        section("\n".join([*(f"/proc/7/stat:{line}" for line in lines[:2]), "/proc/9/stat:" + lines[2]]))
    )
    assert isinstance(parsed, ProcessTable)
    assert [(process.pid, process.comm, process.start_time) for process in parsed.by_pid.values()] == [
        (7, "?77 (x", 900)
    ]


@pytest.mark.parametrize("line", ["", "1", "1 (x", "1 (x) S", "x (x) S " + "1 " * 20, "1 (x) SS " + "1 " * 20])
def test_a_garbled_line_is_no_process(line: str) -> None:
    assert parse_stat(line) is None


def test_a_tree_has_all_descendants(table: ProcessTable) -> None:
    assert [process.pid for process in table.tree(600)] == [600, 601, 603, 602]
    assert table.tree(12345) == ()


def test_zombies_are_of_two_kinds(table: ProcessTable) -> None:
    dead, headless = table.by_pid[603], table.by_pid[602]
    assert (dead.state, headless.state) == ("Z", "Z")
    assert dead.is_dead_zombie and not headless.is_dead_zombie


def test_owners_are_joined_in() -> None:
    uids = section("dr-xr-xr-x 9 1000 1000 0 Nov 30 02:00 /proc/600\n")
    parsed = parse_processes(recorded("proc/stat"), uids)
    assert isinstance(parsed, ProcessTable)
    assert (parsed.by_pid[600].uid, parsed.by_pid[700].uid) == (1000, None)


def test_no_process_at_all_is_unknown() -> None:
    assert isinstance(parse_processes(section("")), Unknown)


def test_pids_of_other_namespaces() -> None:
    text = "/proc/1647/status:NSpid:\t1647\t23\n/proc/1/status:NSpid:\t1\n"
    assert parse_nspids(section(text)) == {1647: (1647, 23), 1: (1,)}


def test_launch_markers() -> None:
    text = b"/proc/600/environ:RELAUNCH_LAUNCH_ID=abc-1\0grep: /proc/1/environ: Permission denied\n"
    text += b"/proc/601/environ:RELAUNCH_LAUNCH_ID=abc-1\0"
    assert parse_markers(section(text, 2)) == {600: "abc-1", 601: "abc-1"}
    assert parse_markers(section("", 1)) == {}
    assert isinstance(parse_markers(section("grep: unrecognized option: z\n", 2)), Unknown)


def test_no_marker_can_pass_for_another_process() -> None:
    forged = b"/proc/66/environ:RELAUNCH_LAUNCH_ID=x\n/proc/77/environ:RELAUNCH_LAUNCH_ID=abc-1\0"
    whole = forged + b"\ngrep: /proc/1/environ: Permission denied\n/proc/88/environ:RELAUNCH_LAUNCH_ID=abc-2\0"
    assert parse_markers(section(whole, 2)) == {88: "abc-2"}


def test_details_of_a_process() -> None:
    facts = section("/proc/600/status:NSpid:\t1600\t600\n/proc/600/cgroup:0::/lxc/129/ns/.lxc\n/proc/601/cgroup:0::/\n")
    words = ["python3", "-m", "sglang.launch_server", "--port", "30000"]
    found = parse_details(facts, commands(600, *words, "", ""))
    assert found[600].argv == tuple(words)
    assert (found[600].pids, found[600].cgroup) == ((1600, 600), "/lxc/129/ns/.lxc")
    assert (found[601].argv, found[601].pids) == ((), (601,))
    assert parse_details(section("", 1), None) == {}


def commands(pid: int, *words: str) -> Section:
    return section("".join(f"/proc/{pid}/cmdline:{word}\0" for word in words))


def test_no_argument_can_pass_for_another_process() -> None:
    facts = section("/proc/600/status:NSpid:\t600\n/proc/601/status:NSpid:\t601\n")
    evil = "x\n/proc/600/cmdline:root's\n"
    found = parse_details(facts, Section("commands", commands(601, evil).content + commands(600, "a b").content, 0))
    assert (found[600].argv, found[601].argv) == (("a b",), (evil,))


def open_files(stem: str) -> OpenFiles:
    parsed = parse_open_files(recorded(f"proc/{stem}"))
    assert isinstance(parsed, OpenFiles)
    return parsed


def test_holders_are_found_in_threads_too() -> None:
    found = open_files("open_files")
    assert {holder.pid: set(holder.cards) for holder in found.holders} == {600: set(), 601: {0}, 602: {1}}
    assert found.owners_of(77001) == (600,)
    assert not found.partial


def test_what_is_closed_to_us_is_noted() -> None:
    assert open_files("open_files_partial").partial


def test_a_walk_that_saw_nobody_is_unknown() -> None:
    assert isinstance(parse_open_files(section("")), Unknown)
    assert isinstance(parse_open_files(section("sh: ls: not found\n", 127)), Unknown)


def test_listeners_of_both_families() -> None:
    parsed = parse_listeners(recorded("proc/listeners"))
    assert isinstance(parsed, Listeners)
    assert [(one.address, one.port, one.inode) for one in parsed.all] == [
        ("127.0.0.1", 30000, 77001),
        ("0.0.0.0", 22, 15001),
        ("::", 8080, 77002),
    ]
    assert parsed.on_port(8080)[0].uid == 1000
    assert parsed.on_port(9) == ()


def test_no_table_is_unknown_and_not_free() -> None:
    assert isinstance(parse_listeners(section("")), Unknown)


def test_a_cut_line_is_unknown_and_not_free() -> None:
    text = recorded("proc/listeners").text.rstrip()[:-60]
    assert isinstance(parse_listeners(section(text)), Unknown)
