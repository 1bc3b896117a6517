"""Who writes to the log of a launch: told by /proc, whatever a process does to its title and environment."""

from hosts.probe.frames import Section
from hosts.probe.holders import OpenFiles, parse_open_files

LAUNCH = "79d4b8c9-a8f9-45a3-9c9d-19f8b2dc20f3"
LOG = f"/root/.relaunch/119386655877/1/launches/{LAUNCH}/log"


def read(*lines: str) -> OpenFiles:
    content = "\n".join(["/proc/10/fd:", *lines, ""]).encode()
    files = parse_open_files(Section("fds", content, 0))
    assert isinstance(files, OpenFiles)
    return files


def fd(number: int, target: str) -> str:
    return f"l-wx------ 1 root root 64 Nov 30 02:57 {number} -> {target}"


def test_a_process_whose_output_goes_to_a_launch_log_is_of_that_launch() -> None:
    assert read(fd(1, LOG), fd(2, LOG)).launches == ((10, LAUNCH),)


def test_somebody_who_reads_the_log_is_not() -> None:
    assert read(fd(3, LOG), fd(11, LOG), fd(12, LOG)).launches == ()


def test_other_files_of_that_name_are_not() -> None:
    assert read(fd(1, "/root/log"), fd(1, f"{LOG}.old"), fd(1, "/srv/.relaunch/x/1/launches/y/log")).launches == ()


DEVICE, OTHER = "/dev/nvidia0", "/dev/nvidia1"


def test_what_a_thread_alone_has_open_is_its_processs_and_is_told_apart() -> None:
    """As `ls` lists it over a process and one of its threads that has left the list it shared."""
    files = read(fd(3, OTHER), "", "/proc/10/task/12/fd:", fd(3, OTHER), fd(4, DEVICE), "/proc/11/fd:", fd(3, DEVICE))
    assert [(holder.pid, holder.cards) for holder in files.holders] == [(10, {0, 1}), (11, {0})]
    assert [(holder.pid, holder.cards) for holder in files.apart] == [(10, {0})]


def test_where_not_even_process_1_is_listed_others_are_hidden() -> None:
    assert read().partial
    whole = parse_open_files(Section("fds", b"/proc/1/fd:\n/proc/10/fd:\n", 0))
    assert isinstance(whole, OpenFiles) and not whole.partial
