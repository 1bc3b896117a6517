"""A real sshd on a free port of 127.0.0.1, and a small stand-in for pct, for the transport contract."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hosts.keys import load_private_key
from hosts.transport.base import PublicHostKey
from hosts.transport.ssh import SshLogin, SshTarget, SshTransport, connect_ssh

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin") or "sshd"
CONFIG = """
Port {port}
ListenAddress 127.0.0.1
HostKey {directory}/host_ed25519
AuthorizedKeysFile {directory}/authorized_keys
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
LogLevel VERBOSE
{extra}
"""


def wait_until(condition: Callable[[], object], *, seconds: float, what: str) -> None:
    """Look again and again until it holds; a test fails with `what` when it never does."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.01)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def make_key(path: Path, *options: str) -> PublicHostKey:
    subprocess.run(["ssh-keygen", "-q", "-N", "", "-f", str(path), *(options or ("-t", "ed25519"))], check=True)
    key_type, key_base64 = path.with_suffix(".pub").read_text().split()[:2]
    return PublicHostKey(key_type, key_base64)


@dataclass
class Sshd:
    """A running server, and what a client needs to sign in to it."""

    process: subprocess.Popen[bytes]
    port: int
    host_key: PublicHostKey
    client_key: Path
    log: Path

    def target(self, *, pinned: tuple[PublicHostKey, ...] | None = None) -> SshTarget:
        keys = (self.host_key,) if pinned is None else pinned
        return SshTarget("127.0.0.1", self.port, os.environ.get("USER", "root"), keys, allow_local=True)

    def login(self) -> SshLogin:
        return SshLogin(key=load_private_key(self.client_key))

    def connect(self, *, timeout: float = 10) -> SshTransport:
        return connect_ssh(self.target(), login=self.login(), timeout=timeout)

    def sessions(self) -> list[int]:
        """The server's processes that serve a connection, the privileged one first."""
        found, todo = [], [self.process.pid]
        while todo:
            children = Path(f"/proc/{todo[0]}/task/{todo[0]}/children")
            with contextlib.suppress(OSError):
                for pid in map(int, children.read_text().split()):
                    if b"sshd" in Path(f"/proc/{pid}/cmdline").read_bytes():
                        found.append(pid)
                        todo.append(pid)
            todo.pop(0)
        return found

    def signal_sessions(self, number: int) -> None:
        for pid in self.sessions():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


@contextlib.contextmanager
def running_sshd(directory: Path, *, extra: str = "") -> Iterator[Sshd]:
    Path("/run/sshd").mkdir(exist_ok=True)
    host_key = make_key(directory / "host_ed25519")
    client = directory / "client_ed25519"
    make_key(client)
    shutil.copy(client.with_suffix(".pub"), directory / "authorized_keys")
    port = free_port()
    config = directory / "sshd_config"
    config.write_text(CONFIG.format(port=port, directory=directory, extra=extra))
    log = directory / "sshd.log"
    process = subprocess.Popen([SSHD, "-D", "-f", str(config), "-E", str(log)])
    server = Sshd(process, port, host_key, client, log)
    try:
        wait_until(lambda: _listens(port), seconds=10, what="sshd listens")
        yield server
    finally:
        server.signal_sessions(signal.SIGCONT)
        server.signal_sessions(signal.SIGTERM)
        process.terminate()
        process.wait(10)


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


@pytest.fixture(scope="session")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with running_sshd(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture
def own_sshd(tmp_path: Path) -> Iterator[Sshd]:
    """For tests that freeze or kill what serves them."""
    with running_sshd(tmp_path) as server:
        yield server


@pytest.fixture
def closed_sshd(tmp_path: Path) -> Iterator[Sshd]:
    """A server that forbids forwarding."""
    with running_sshd(tmp_path, extra="AllowTcpForwarding no") as server:
        yield server


FAKE_PCT = """#!/bin/sh
# pct as far as the contract goes: exec with its PATH, and its complaints
[ "$1" = exec ] || { echo "ERROR: unknown command 'pct $1'" >&2; exit 255; }
case "$2" in
  129) ;;
  130) echo "container '130' not running!" >&2; exit 255 ;;
  131) echo "CT is locked (backup)" >&2; exit 255 ;;
  132) echo "please run as root" >&2; exit 1 ;;
  133) exec sleep 60 ;;
  *) echo "Configuration file 'nodes/pve/lxc/$2.conf' does not exist" >&2; exit 2 ;;
esac
[ "$3" = -- ] || { echo "400 unable to parse option" >&2; exit 255; }
shift 3
PATH=/sbin:/bin:/usr/sbin:/usr/bin
export PATH
exec "$@"
"""


@pytest.fixture
def fake_pct(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "bin"
    directory.mkdir()
    script = directory / "pct"
    script.write_text(FAKE_PCT)
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
    return script
