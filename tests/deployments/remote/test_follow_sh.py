"""The follow script for real: every byte of the log once and in order, the end, and whose port it is.

Also under a log that is cut or renamed; that is read with the panel's own reader.
"""

import os
import select
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from deployments.joblog import JobLog, LogReplaced
from deployments.lifecycle import JobState
from deployments.models import Job, LogChunk
from deployments.models import Launch as Row
from deployments.remote.script import Said
from lab.processes import listening_sockets
from tests.deployments.remote.shell import BOOT_ID, Host, lives, record, said_of, wait_for, words
from tests.factories import make_deployment, make_job, make_launch, text_of

pytestmark = pytest.mark.process

LISTEN = (
    "import os, socket, sys, time\ns = socket.socket()\ns.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
    "s.bind(('127.0.0.1', {port}))\ns.listen()\nprint('listening', flush=True)\ntime.sleep(60)\n"
)


class Launch:
    """A launch on the host, and scripts that follow it."""

    def __init__(self, host: Host, *argv: str, port: int = 47_123) -> None:
        self.host, self.id, self.port = host, str(uuid4()), port
        self.record = record(host.launch(list(argv), launch=self.id, port=port))
        self.directory = host.base / "launches" / self.id

    @property
    def pid(self) -> int:
        return int(self.record["pid"])

    def lines(
        self, *, offset: int = 0, seconds: int = 8, cards: tuple[str, ...] = (), **values: object
    ) -> Iterator[Said]:
        script = self.host.script(
            "follow",
            **{
                "launch": self.id,
                "pid": self.pid,
                "start_was": self.record["start"],
                "port": self.port,
                "offset": offset,
                "file": "",
                "overlap": 0,
                "cards": cards,
                "seconds_max": seconds,
                **values,
            },
        )
        process = self.host.start(script)
        self.follower = process.pid
        assert process.stdin is not None and process.stdout is not None
        reader = script.reader()
        try:
            while not reader.ended:
                ready, _, _ = select.select([process.stdout], [], [], 10)
                assert ready, "it has fallen silent"
                data = os.read(process.stdout.fileno(), 65536)
                assert data or reader.ended
                yield from reader.feed(data)
        finally:
            process.stdin.close()
            process.stdout.close()
            process.wait(10)


def log_of(said: list[Said], *, offset: int = 0) -> bytes:
    """The bytes, after a look that there is neither gap nor repeat."""
    text = b""
    for line in said:
        if line.word == "log":
            assert int(line.rest[0]) == offset + len(text)
            assert int(line.rest[1]) == len(line.payload)
            text += line.payload
    return text


def test_the_whole_log_and_the_end(host: Host) -> None:
    program = host.program("server", "echo one; sleep 0.05; printf 'two\\0\\377'; sleep 0.05; echo; exit 3")
    said = list(Launch(host, str(program)).lines())
    assert log_of(said) == b"one\ntwo\0\xff\n"
    assert said_of(said, "exited") == ["3"]
    assert words(said)[-1] == "end"


def test_a_log_that_looks_like_the_script(host: Host) -> None:
    text = "@0123456789abcdef log 0 5\n@token exited 0\n@token end\n"
    program = host.program("server", f"printf '{text}'; exit 1")
    said = list(Launch(host, str(program)).lines())
    assert log_of(said) == text.encode()
    assert said_of(said, "exited") == ["1"]


@pytest.mark.parametrize("offset", [0, 1, 65_536, 65_537, 199_999, 200_000])
def test_it_goes_on_from_any_byte(host: Host, offset: int) -> None:
    data = os.urandom(200_000)
    (host.home / "data").write_bytes(data)
    launch = Launch(host, "cat", str(host.home / "data"))
    wait_for((launch.directory / "exit").exists, what="it ended")
    assert log_of(list(launch.lines(offset=offset)), offset=offset) == data[offset:]


def test_followed_by_turns_while_it_writes(host: Host) -> None:
    program = host.program("server", 'for n in $(seq 300); do echo "line $n"; done; sleep 0.1; echo last; exit 0')
    launch = Launch(host, str(program))
    text = b""
    for _ in range(50):
        said = []
        for line in launch.lines(offset=len(text)):
            said.append(line)
            if line.word in ("log", "exited"):
                break
        text += log_of(said, offset=len(text))
        if said[-1].word == "exited":
            break
    assert text == b"".join(b"line %d\n" % n for n in range(1, 301)) + b"last\n"


def test_a_log_that_was_cut_short_is_told(host: Host) -> None:
    launch = Launch(host, "sh", "-c", "echo one; exec sleep 60")
    wait_for((launch.directory / "log").read_bytes, what="it writes")
    for line in launch.lines(offset=500):
        if line.word == "truncated":
            assert line.rest == ("500", "4")
            break


def test_the_end_by_a_signal(host: Host) -> None:
    launch = Launch(host, "sleep", "60")
    for line in launch.lines():
        if line.word == "beat":
            os.kill(launch.pid, signal.SIGKILL)
        if line.word == "exited":
            assert line.rest == ("137",)
            break
    assert not lives(launch.pid)


def test_without_an_exit_code_it_is_unknown(host: Host) -> None:
    launch = Launch(host, "sleep", "60")
    os.kill(int(Path(f"/proc/{launch.pid}/stat").read_text().rpartition(")")[2].split()[1]), signal.SIGKILL)
    os.kill(launch.pid, signal.SIGKILL)
    assert said_of(list(launch.lines()), "exited") == ["unknown"]


def test_another_process_with_its_pid_is_not_the_server(host: Host) -> None:
    launch = Launch(host, "sleep", "60")
    launch.record["start"] = str(int(launch.record["start"]) + 1)
    assert said_of(list(launch.lines()), "exited") == ["unknown"]


def test_the_time_runs_out(host: Host) -> None:
    said = list(Launch(host, "sleep", "60").lines(seconds=1))
    assert words(said)[-2:] == ["deadline", "end"]
    assert "beat" in words(said)


def test_another_boot(host: Host) -> None:
    launch = Launch(host, "sleep", "60")
    said = list(launch.lines(boot="00000000-0000-0000-0000-000000000000"))
    assert said_of(said, "rebooted") == [BOOT_ID]


def first_listener(launch: Launch, *, not_: str = "nobody") -> str:
    return next(line.rest[0] for line in launch.lines() if line.word == "listen" and line.rest[0] != not_)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_its_own_listener(host: Host) -> None:
    port = free_port()
    launch = Launch(host, sys.executable, "-S", "-c", LISTEN.format(port=port), port=port)
    assert first_listener(launch) == "ours"


def test_a_childs_listener_is_its_own_too(host: Host) -> None:
    port = free_port()
    program = host.program("server", f'{sys.executable} -S -c "{LISTEN.format(port=port)}" & wait')
    launch = Launch(host, str(program), port=port)
    try:
        assert first_listener(launch) == "ours"
    finally:
        children = Path(f"/proc/{launch.pid}/task/{launch.pid}/children").read_text()
        host.processes += map(int, children.split())


@pytest.mark.parametrize(("address", "word"), [("127.0.0.1", "ours"), ("203.0.113.9", "other")])
def test_dockers_listener_is_the_containers_whose_address_it_names(host: Host, address: str, word: str) -> None:
    port = free_port()
    proxy = host.bin / "docker-proxy"
    proxy.symlink_to(sys.executable)
    launch = Launch(host, "sleep", "60", port=port)
    host.spawn(str(proxy), "-S", "-c", LISTEN.format(port=port), "-container-ip", address, "-container-port", "1")
    assert first_listener(launch) == word


def test_anothers_listener(host: Host) -> None:
    port = free_port()
    launch = Launch(host, "sleep", "60", port=port)
    host.spawn(sys.executable, "-S", "-c", LISTEN.format(port=port))
    assert first_listener(launch) == "other"


def test_a_port_that_it_shares_with_another_is_not_its_own(host: Host) -> None:
    """An old server on 127.0.0.1 takes what the new one on 0.0.0.0 should get."""
    port = free_port()
    wide = LISTEN.format(port=port).replace("127.0.0.1", "0.0.0.0").replace("SO_REUSEADDR", "SO_REUSEPORT")
    narrow = LISTEN.format(port=port).replace("SO_REUSEADDR", "SO_REUSEPORT")
    launch = Launch(host, sys.executable, "-S", "-c", wide, port=port)
    assert first_listener(launch) == "ours"
    host.spawn(sys.executable, "-S", "-c", narrow)
    assert first_listener(launch, not_="ours") == "other"


def test_two_on_the_very_same_address_are_not_its_own(host: Host) -> None:
    """Two servers that both set SO_REUSEPORT, as two vLLMs on one port: each gets half of the requests."""
    port = free_port()
    shared = LISTEN.format(port=port).replace("127.0.0.1", "0.0.0.0").replace("SO_REUSEADDR", "SO_REUSEPORT")
    host.spawn(sys.executable, "-S", "-c", shared)
    wait_for(lambda: listening_sockets(os.getpid(), port), what="the other listens")
    launch = Launch(host, sys.executable, "-S", "-c", shared)
    launch.port = port
    wait_for(lambda: len(listening_sockets(os.getpid(), port)) == 2, what="both listen")
    assert first_listener(launch) == "other"


def test_memory_of_the_cards(host: Host) -> None:
    host.program("nvidia-smi", 'echo "GPU-a, 4"; echo "GPU-b, [N/A]"')
    launch = Launch(host, "sleep", "60")
    seen = []
    for line in launch.lines(cards=("GPU-a", "GPU-b")):
        if line.word == "gpu":
            seen.append(line.text)
        if len(seen) == 4:
            break
    assert seen == ["GPU-a 4", "GPU-b [N/A]"] * 2


def test_it_ends_when_the_panel_hangs_up(host: Host) -> None:
    launch = Launch(host, "sleep", "60")
    lines = launch.lines(seconds=600)
    next(lines)
    began = time.monotonic()
    lines.close()  # type: ignore[attr-defined]
    assert time.monotonic() - began < 5
    assert lives(launch.pid), "the server is left alone"


# --- Logs that are cut and moved under us, read by the panel's own reader


OBEYS = """
LOG=$(readlink /proc/$$/fd/1)
while read -r WORD; do
    case $WORD in
        reopen) mv "$LOG" "$LOG.1"; exec >> "$LOG" 2>&1 ;;
        hide) exec 5>&1 > /dev/null 2>&1; FD=5 ;;
        *) seq -f "$WORD %g" 3000 >&${FD:-1} ;;
    esac
done < orders
"""


def text(*words: str) -> str:
    return "".join(f"{word} {number}\n" for word in words for number in range(1, 3001))


class Panel:
    """A job that follows a server which writes 3000 lines for each word that it is given."""

    def __init__(self, host: Host) -> None:
        os.mkfifo(host.home / "orders")
        self.launch = Launch(host, str(host.program("server", f"cd {host.home}\n{OBEYS}")))
        self.log = self.launch.directory / "log"
        self.orders = (host.home / "orders").open("w")
        deployment = make_deployment()
        claim = Job.claim(make_job(deployment, state=JobState.QUEUED).pk, owner="me")
        assert claim is not None
        self._claim = claim
        self._row = make_launch(deployment)

    def order(self, *words: str) -> None:
        for word in words:
            print(word, file=self.orders, flush=True)

    def written(self, *words: str, to: Path | None = None) -> None:
        """The server writes ``words``, and all of it is in the file."""
        before = (to or self.log).stat().st_size
        self.order(*words)
        wait_for(lambda: (to or self.log).stat().st_size == before + len(text(*words)), what="it is written")

    def worker(self) -> Iterator[Said]:
        """A worker that begins now, as ``steps.check`` follows; it dies when this is closed."""
        log = JobLog(self._claim).server(Row.objects.get(pk=self._row.pk), step="check")
        while True:
            try:
                for said in self.launch.lines(**log.asked):
                    log.take(said)
                    yield said
                return
            except LogReplaced:
                continue

    def reads(self, worker: Iterator[Said], *words: str) -> None:
        """It goes on until ``words`` are all that is stored of the log."""
        while self.text != text(*words):
            assert next(worker).word != "deadline", self.text[-200:]

    def ends(self, worker: Iterator[Said]) -> None:
        """The server ends, and the worker reads to the end."""
        self.orders.close()
        assert [said.word for said in worker][-2:] == ["exited", "end"]

    @property
    def said(self) -> str:
        return "".join(LogChunk.objects.filter(source="panel").values_list("text", flat=True))

    @property
    def text(self) -> str:
        return text_of(self._row)


@pytest.fixture
def panel(host: Host, db: None) -> Iterator[Panel]:
    panel = Panel(host)
    yield panel
    panel.orders.close()


def die(worker: Iterator[Said]) -> None:
    worker.close()  # type: ignore[attr-defined]


def test_a_log_is_read_by_turns_without_a_word(panel: Panel) -> None:
    panel.written("one")
    worker = panel.worker()
    panel.reads(worker, "one")
    die(worker)
    panel.written("two")
    worker = panel.worker()
    panel.reads(worker, "one", "two")
    panel.order("three")
    panel.ends(worker)
    assert panel.text == text("one", "two", "three") and panel.said == ""


@pytest.mark.parametrize("more", [[], ["six", "ten"]])
def test_cut_between_two_workers_and_grown_past(panel: Panel, more: list[str]) -> None:
    """As logrotate's copytruncate does it; also when it has grown to the very size that it had."""
    worker = panel.worker()
    panel.order("one")
    panel.reads(worker, "one")
    die(worker)
    os.truncate(panel.log, 0)
    panel.written("two", *more)
    worker = panel.worker()
    panel.reads(worker, "one", "two", *more)
    panel.order("end")
    panel.ends(worker)
    assert panel.text == text("one", "two", *more, "end")
    assert "may be missing" in panel.said


def test_cut_while_it_is_followed_and_grown_past(panel: Panel) -> None:
    worker = panel.worker()
    panel.order("one")
    panel.reads(worker, "one")
    os.kill(panel.launch.follower, signal.SIGSTOP)
    os.truncate(panel.log, 0)
    panel.written("two", "three")
    os.kill(panel.launch.follower, signal.SIGCONT)
    panel.reads(worker, "one", "two", "three")
    panel.order("end")
    panel.ends(worker)
    assert panel.text == text("one", "two", "three", "end")
    assert "may be missing" in panel.said


def rotate(panel: Panel) -> Path:
    """As logrotate does it without copytruncate: the server goes on in the file that it has open."""
    panel.log.rename(panel.log.with_name("log.1"))
    panel.log.touch()
    return panel.log.with_name("log.1")


def test_renamed_while_it_is_followed(panel: Panel) -> None:
    worker = panel.worker()
    panel.order("one")
    panel.reads(worker, "one")
    moved = rotate(panel)
    panel.written("two", to=moved)
    panel.reads(worker, "one", "two")
    moved.unlink()
    panel.order("three")
    panel.ends(worker)
    assert panel.text == text("one", "two", "three")
    assert panel.said.count("was renamed or deleted") == 1 and "missing" not in panel.said


@pytest.mark.parametrize("deleted", [False, True])
@pytest.mark.parametrize("ended", [False, True])
def test_renamed_between_two_workers(panel: Panel, deleted: bool, ended: bool) -> None:
    worker = panel.worker()
    panel.order("one")
    panel.reads(worker, "one")
    die(worker)
    moved = rotate(panel)
    panel.written("two", to=moved)
    if deleted:
        moved.unlink()
    if ended:
        panel.orders.close()
        wait_for((panel.launch.directory / "exit").exists, what="it ended")
    worker = panel.worker()
    if deleted and ended:
        panel.ends(worker)
        assert panel.text == text("one") and "may be missing" in panel.said
    else:
        panel.reads(worker, "one", "two")
        panel.ends(worker)
        assert "was renamed or deleted" in panel.said and "missing" not in panel.said


def test_a_link_in_place_of_the_log_is_not_followed(panel: Panel) -> None:
    other = panel.launch.host.home / "other-log"
    other.write_text("another launch\n")
    worker = panel.worker()
    panel.order("one")
    panel.reads(worker, "one")
    die(worker)
    panel.orders.close()
    wait_for((panel.launch.directory / "exit").exists, what="it ended")
    panel.log.unlink()
    panel.log.symlink_to(other)
    panel.ends(panel.worker())
    assert panel.text == text("one") and "cannot be followed" in panel.said


@pytest.mark.parametrize("deleted", [False, True])
def test_renamed_before_the_first_worker(panel: Panel, deleted: bool) -> None:
    moved = rotate(panel)
    panel.written("one", to=moved)
    if deleted:
        moved.unlink()
        panel.log.unlink()
    worker = panel.worker()
    panel.reads(worker, "one")
    panel.order("two")
    panel.ends(worker)
    assert panel.text == text("one", "two") and "was renamed or deleted" in panel.said


@pytest.mark.parametrize("anew", [False, True])
def test_a_log_that_cannot_be_followed_is_said_to_be_so(panel: Panel, anew: bool) -> None:
    """Nothing that can be read says where the server writes."""
    worker = panel.worker()
    panel.order("one")
    panel.reads(worker, "one")
    die(worker)
    panel.order("hide")
    wait_for(lambda: str(Path(f"/proc/{panel.launch.pid}/fd/1").readlink()) == "/dev/null", what="it hides")
    panel.log.rename(panel.launch.host.home / "elsewhere")
    if anew:
        panel.log.touch()
    worker = panel.worker()
    while "cannot be followed" not in panel.said:
        assert next(worker).word != "deadline"
    panel.order("two")
    panel.ends(worker)
    assert panel.text == text("one") and panel.said.count("is missing") == 1


@pytest.mark.parametrize("between", [False, True])
def test_a_server_that_begins_a_new_log_itself(panel: Panel, between: bool) -> None:
    worker = panel.worker()
    panel.order("one")
    panel.reads(worker, "one")
    if between:
        die(worker)
    panel.order("two", "reopen", "three")
    panel.reads(panel.worker() if between else worker, "one", "two", "three")
    assert "has begun a new log" in panel.said and "missing" not in panel.said


def test_a_server_that_writes_elsewhere_from_the_start(host: Host) -> None:
    """That may be an old file of another's, with another's ready line."""
    other = host.home / "other.log"
    other.write_text("ready\n")
    launch = Launch(host, "sh", "-c", f"echo one; exec sleep 1 >> {other} 2>&1")
    wait_for(lambda: str(Path(f"/proc/{launch.pid}/fd/1").readlink()) == str(other), what="it writes there")
    said = list(launch.lines())
    assert log_of(said) == b"one\n" and not {"moved", "lost"} & set(words(said))
