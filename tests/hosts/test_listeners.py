"""Who listens, from either of the two lists a host can give; anything cut or odd is unknown, and never *nobody*."""

import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from hosts.probe.frames import Section, Unknown
from hosts.probe.listeners import ASKED_SS, Listener, Listeners, parse_listeners
from tests.hosts.recorded import recorded

BY_SS = f"""{ASKED_SS}
LISTEN 0      128    127.0.0.1:5003 0.0.0.0:* ino:6655862 sk:9 cgroup:/ <->
LISTEN 0      128      0.0.0.0:2024 0.0.0.0:* uid:1000 ino:1590 sk:4 cgroup:/ <->
LISTEN 0      4096 127.0.0.53%lo:53 0.0.0.0:* uid:991 ino:31 sk:7 cgroup:/system.slice/x.service <->
LISTEN 0      128        [::1]:5002    [::]:* ino:6655861 sk:a cgroup:/ v6only:1 <->
LISTEN 0      128            *:5001       *:* ino:6655860 sk:b cgroup:/ v6only:0 <->
"""


def parsed(text: str) -> Listeners | Unknown:
    return parse_listeners(Section("listeners", text.encode(), 0))


def test_what_ss_says() -> None:
    assert parsed(BY_SS) == Listeners(
        (
            Listener("127.0.0.1", 5003, 0, 6655862),
            Listener("0.0.0.0", 2024, 1000, 1590),
            Listener("127.0.0.53", 53, 991, 31),
            Listener("::1", 5002, 0, 6655861),
            Listener("::", 5001, 0, 6655860),
        )
    )
    assert parsed(f"{ASKED_SS}\n") == Listeners(()), "nobody listens"


@pytest.mark.parametrize(
    "text",
    [
        "",
        BY_SS[:-30],
        BY_SS.replace("ino:1590", "ino:"),
        BY_SS.replace(":2024", ":99999"),
        f"{ASKED_SS}\nCannot open netlink socket: Operation not permitted\n",
        BY_SS.partition("\n")[2],
    ],
)
def test_a_list_that_is_cut_or_odd_is_unknown(text: str) -> None:
    assert isinstance(parsed(text), Unknown)


@pytest.mark.process
@pytest.mark.skipif(shutil.which("ss") is None, reason="there is no ss here")
def test_both_lists_of_this_machine_name_the_same_socket() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        by_ss = subprocess.run(["ss", "-Hltne"], capture_output=True, text=True, check=True).stdout
        by_kernel = "".join(Path("/proc/net", name).read_text() for name in ("tcp", "tcp6"))
        first, second = parsed(f"{ASKED_SS}\n{by_ss}"), parsed(by_kernel)
        assert not isinstance(first, Unknown) and not isinstance(second, Unknown)
        assert first.on_port(port) == second.on_port(port) and len(first.on_port(port)) == 1


@pytest.mark.parametrize("version", ["4_9", "4_15", "5_5", "5_15", "6_8", "7_1"])
def test_every_version_of_ss_is_read_alike(version: str) -> None:
    found = parsed(recorded(f"ss/listeners-{version}").text)
    assert not isinstance(found, Unknown)
    assert {(one.address, one.port, one.uid) for one in found.all} == {
        ("127.0.0.1", 25001, 0),
        ("0.0.0.0", 25002, 1000),
        ("::", 25003, 0),
        ("::", 25004, 0),
        ("::1", 25005, 0),
        ("127.0.0.1", 25006, 0),
    }
    assert {one.inode for one in found.all} == set(range(8265240, 8265246))
