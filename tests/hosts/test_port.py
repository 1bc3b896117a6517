"""Could a server have the port? Asked of the kernel about real sockets, held in every odd way, by each tool."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hosts.probe.frames import Section, Unknown
from hosts.probe.port import (
    BOUND,
    DENIED,
    FREE,
    LEFT,
    LISTENS,
    TAKEN,
    UNTOLD,
    PortSocket,
    PortTrial,
    parse_trial,
    script,
)
from lab import port_hold
from tests.hosts.recorded import recorded

TOOLS = {"perl": "try_port_in_perl", "python3": f"try_port_in_python {sys.executable}"}
SHELLS = [shell for shell in ("dash", "bash", "busybox") if shutil.which(shell)]
LISTS_BOUND = tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) >= (6, 8)


def parsed(text: str) -> PortTrial | Unknown:
    return parse_trial(Section("port", text.encode(), 0))


# --- What it says


@pytest.mark.parametrize(
    ("text", "trial"),
    [
        ("free\n", PortTrial(FREE)),
        ("left\n", PortTrial(LEFT)),
        ("left unlisted\n", PortTrial(LEFT, unlisted=True)),
        ("denied\n", PortTrial(DENIED)),
        ("untold tool\n", PortTrial(UNTOLD, no_tool=True)),
        ("untold 97\n", PortTrial(UNTOLD)),
        ("taken\n", PortTrial(TAKEN)),
        ("taken\nwaiting 3\n", PortTrial(TAKEN, waiting=3)),
        (
            "taken\nsocket 7 2 7f000001 1000 77\nsocket 10 10 00000000000000000000000000000001 0 78\nwaiting 1\n",
            PortTrial(TAKEN, (PortSocket(BOUND, "127.0.0.1", 1000, 77), PortSocket(LISTENS, "::1", 0, 78)), 1),
        ),
    ],
)
def test_what_the_host_says(text: str, trial: PortTrial) -> None:
    assert parsed(text) == trial


@pytest.mark.parametrize("version", ["6_8", "7_1"])
def test_the_list_of_ss(version: str) -> None:
    lines = "".join(f"ss {line}\n" for line in recorded(f"ss/bound-{version}").text.splitlines())
    sockets = (PortSocket(BOUND, "0.0.0.0", 0, 8265246), PortSocket(BOUND, "::1", 1000, 8265247))
    assert parsed(f"taken\n{lines}") == PortTrial(TAKEN, sockets)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "fre",
        "free 1",
        "freed\n",
        "untold\n",
        "taken\nsocket 7 2 7f000001 1000\n",
        "taken\nsocket 7 2 7f0000011 1000 5\n",
        "taken\nwaiting\n",
        "free\nperl: warning: Setting locale failed.\n",
        "ss: not found\nfree\n",
    ],
)
def test_what_is_cut_or_odd_is_unknown(text: str) -> None:
    assert isinstance(parsed(text), Unknown)


# --- What is true here


@pytest.fixture
def port() -> int:
    """One that nobody has; in neither family."""
    with socket.socket(socket.AF_INET6) as probe:
        probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        probe.bind(("::", 0))
        return int(probe.getsockname()[1])


class Holders:
    """Processes of lab/port_hold.py."""

    def __init__(self) -> None:
        self.pids: list[int] = []

    def hold(self, kind: str, port: int) -> int:
        words = [sys.executable, "-S", port_hold.__file__, "port-hold", kind, str(port)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=20)
        assert done.returncode == 0, done.stderr
        self.pids.append(int(done.stdout))
        return self.pids[-1]


@pytest.fixture
def holders() -> Iterator[Holders]:
    made = Holders()
    yield made
    for pid in made.pids:
        os.kill(pid, signal.SIGKILL)


def ask(port: int, call: str, *, shell: str = "dash", old_kernel: bool = False, path: str | None = None) -> PortTrial:
    """``old_kernel``: one that is not asked for sockets that are only bound, and so lists none."""
    text = script().replace("1 << 13", "0") if old_kernel else script()
    words = [shell, "sh"] if shell == "busybox" else [shell]
    done = subprocess.run(
        words,
        input=f"{text}\n{call} {port} </dev/null\n",
        capture_output=True,
        text=True,
        timeout=20,
        env={**os.environ, **({"PATH": path} if path is not None else {})},
    )
    assert done.stderr == ""
    found = parsed(done.stdout)
    assert not isinstance(found, Unknown), done.stdout
    return found


def inodes(pid: int) -> set[int]:
    links = [os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()]  # noqa: PTH115
    return {int(link[8:-1]) for link in links if link.startswith("socket:[")}


IN_THE_WAY = [
    ("listens", LISTENS, "0.0.0.0"),
    ("listens-one", LISTENS, "127.0.0.1"),
    ("listens-v6", LISTENS, "::"),
    ("listens-both", LISTENS, "::"),
    ("twin", LISTENS, "0.0.0.0"),
    ("bound", BOUND, "0.0.0.0"),
    ("bound-reuse", BOUND, "0.0.0.0"),
    ("bound-one", BOUND, "127.0.0.1"),
    ("connection", 1, "127.0.0.1"),
]


@pytest.mark.process
@pytest.mark.skipif(not LISTS_BOUND, reason="needs Linux 6.8")
@pytest.mark.parametrize("call", TOOLS.values(), ids=TOOLS)
@pytest.mark.parametrize(("kind", "state", "address"), IN_THE_WAY)
def test_whoever_has_it_is_seen(port: int, holders: Holders, call: str, kind: str, state: int, address: str) -> None:
    pid = holders.hold(kind, port)
    found = ask(port, call)
    assert found.word == TAKEN
    assert [(one.state, one.address, one.uid) for one in found.sockets] == [(state, address, os.getuid())]
    assert found.sockets[0].inode in inodes(pid)


@pytest.mark.process
@pytest.mark.parametrize("call", TOOLS.values(), ids=TOOLS)
@pytest.mark.parametrize("kind", [kind for kind, _, _ in IN_THE_WAY])
def test_before_linux_6_8_too_though_not_always_by_whom(port: int, holders: Holders, call: str, kind: str) -> None:
    holders.hold(kind, port)
    assert ask(port, call, old_kernel=True).word == TAKEN


@pytest.mark.process
@pytest.mark.parametrize("call", TOOLS.values(), ids=TOOLS)
@pytest.mark.parametrize("old_kernel", [False, True])
def test_nobody_has_it(port: int, call: str, old_kernel: bool) -> None:
    assert ask(port, call, old_kernel=old_kernel) == PortTrial(FREE)


@pytest.mark.process
@pytest.mark.parametrize("call", TOOLS.values(), ids=TOOLS)
def test_closed_connections_are_no_hindrance(port: int, holders: Holders, call: str) -> None:
    holders.hold("closed", port)
    assert ask(port, call, old_kernel=True) == PortTrial(LEFT, unlisted=True)
    assert ask(port, call) == PortTrial(LEFT, unlisted=not LISTS_BOUND)
    with socket.create_server(("0.0.0.0", port)):
        assert ask(port, call).word == TAKEN, "and a server can indeed have it"


@pytest.mark.process
@pytest.mark.parametrize("call", TOOLS.values(), ids=TOOLS)
def test_unless_their_server_did_not_reuse_its_address(port: int, holders: Holders, call: str) -> None:
    holders.hold("closed-strict", port)
    assert ask(port, call) == PortTrial(TAKEN, waiting=1)
    with pytest.raises(OSError, match="already in use"):
        socket.create_server(("0.0.0.0", port))


@pytest.mark.process
@pytest.mark.parametrize("call", TOOLS.values(), ids=TOOLS)
def test_a_server_that_loads_is_seen_behind_closed_connections(port: int, holders: Holders, call: str) -> None:
    holders.hold("closed", port)
    holders.hold("bound-reuse", port)
    assert ask(port, call).word == TAKEN
    assert ask(port, call, old_kernel=True).word == TAKEN


@pytest.mark.process
@pytest.mark.parametrize("call", TOOLS.values(), ids=TOOLS)
@pytest.mark.skipif(not LISTS_BOUND, reason="needs Linux 6.8")
def test_what_an_old_kernel_hides_it_does_not_deny(port: int, holders: Holders, call: str) -> None:
    """On the very address of a closed connection."""
    holders.hold("closed", port)
    holders.hold("bound-one", port)
    assert ask(port, call).word == TAKEN
    assert ask(port, call, old_kernel=True) == PortTrial(LEFT, unlisted=True)


@pytest.mark.process
@pytest.mark.parametrize("shell", SHELLS)
def test_from_every_shell(port: int, shell: str) -> None:
    assert ask(port, "try_port", shell=shell) == PortTrial(FREE)


@pytest.mark.process
def test_without_a_tool_a_list_of_ss_may_tell(port: int, tmp_path: Path) -> None:
    for name in ("sed", "sh"):
        (tmp_path / name).symlink_to(shutil.which(name) or name)
    call = "try_port_by_list"
    assert ask(port, call, path=str(tmp_path), shell="/bin/dash") == PortTrial(UNTOLD, no_tool=True)
    ss = tmp_path / "ss"
    ss.write_text(
        f'#!/bin/sh\n[ "$*" = "-HtnBe sport = :{port}" ] || exit 255\n'
        f"echo '0      0      0.0.0.0:{port} 0.0.0.0:* ino:77 sk:2ad cgroup:/ <->'\n"
    )
    ss.chmod(0o755)
    found = ask(port, call, path=str(tmp_path), shell="/bin/dash")
    assert found == PortTrial(TAKEN, (PortSocket(BOUND, "0.0.0.0", 0, 77),))
    ss.write_text("#!/bin/sh\necho \"ss: invalid option -- 'B'\" >&2; exit 255\n")
    assert ask(port, call, path=str(tmp_path), shell="/bin/dash").word == UNTOLD, "iproute2 before 6.8"


@pytest.mark.process
@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("setpriv"), reason="needs root to become somebody else")
@pytest.mark.parametrize("call", ["try_port_in_perl", "try_port_in_python /usr/bin/python3"])
def test_a_port_that_this_login_may_not_have(call: str) -> None:
    if Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text().strip() != "1024":
        pytest.skip("every login may have any port here")
    command = ["setpriv", "--reuid=65534", "--clear-groups", "--inh-caps=-all", "dash", "-c", f"{script()}\n{call} 1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert done.stdout == "denied\n"
