"""The launch script for real: one start per launch id, one live launch per deployment, and nothing unrecorded."""

import os
import signal
import socket
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from deployments.remote.script import wrapper
from lab import port_hold
from tests.deployments.remote.shell import (
    BOOT_ID,
    Host,
    lives,
    record,
    said_of,
    small_files_only,
    start_time,
    wait_for,
    words,
)

pytestmark = pytest.mark.process

SLEEP = ["sleep", "60"]


def test_the_record_is_the_server_itself(host: Host) -> None:
    said = host.launch(SLEEP)
    assert words(said)[-2:] == ["started", "end"]
    told = record(said)
    pid = int(told["pid"])
    # The record is written just before the wrapper becomes the server.
    wait_for(lambda: Path(f"/proc/{pid}/cmdline").read_bytes() == b"sleep\x0060\0", what="it is the server")
    assert int(told["start"]) == start_time(pid)
    assert told["boot"] == BOOT_ID
    assert told["pidns"] == str(Path(f"/proc/{pid}/ns/pid").readlink())
    assert os.getsid(pid) != os.getsid(0), "a session of its own"


def test_the_directory_is_private(host: Host) -> None:
    (directory,) = said_of(host.launch(SLEEP), "started")
    assert Path(directory).stat().st_mode & 0o777 == 0o700
    assert (host.home / ".relaunch").stat().st_mode & 0o777 == 0o700


def test_eight_sends_of_one_launch_start_one_server(host: Host) -> None:
    count = host.home / "count"
    program = host.program("server", f"echo x >> {count}; exec sleep 60")
    launch = str(uuid4())
    barrier = threading.Barrier(8)

    def send(_: int) -> dict[str, str]:
        barrier.wait()
        return record(host.launch([str(program)], launch=launch))

    with ThreadPoolExecutor(8) as pool:
        records = list(pool.map(send, range(8)))
    wait_for(count.exists, what="the server runs")
    assert len({tuple(told.items()) for told in records}) == 1
    assert records[0]["pid"]
    assert count.read_text() == "x\n"


def test_sent_again_it_tells_what_became_of_it(host: Host) -> None:
    launch = str(uuid4())
    first = host.launch(SLEEP, launch=launch)
    again = host.launch(SLEEP, launch=launch, fence=2)
    assert "exists" in words(again) and record(again) == record(first)


def test_an_older_worker_is_refused(host: Host) -> None:
    host.launch(["true"], fence=5)
    said = host.launch(SLEEP, fence=4)
    assert words(said) == ["fenced", "end"] and said[0].rest == ("5",)
    assert "started" in words(host.launch(SLEEP, fence=5)), "the same worker is not"


def test_a_live_launch_is_never_joined_by_another(host: Host) -> None:
    first = str(uuid4())
    pid = record(host.launch(SLEEP, launch=first))["pid"]
    said = host.launch(SLEEP)
    assert said_of(said, "live") == [f"{first} {pid}"]
    assert not record(said)


def test_after_its_end_another_may_start(host: Host) -> None:
    pid = int(record(host.launch(SLEEP))["pid"])
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not lives(pid), what="it ended")
    assert "started" in words(host.launch(SLEEP))


def test_a_pid_that_somebody_else_has_now_is_not_the_live_launch(host: Host) -> None:
    (directory,) = said_of(host.launch(["true"]), "started")
    text = f"pid {os.getpid()}\nstart {start_time(os.getpid()) - 1}\nboot {BOOT_ID}\n"
    (Path(directory) / "record").write_text(text)
    assert "started" in words(host.launch(SLEEP))


def test_a_launch_that_has_not_begun_is_forbidden_before_another_starts(host: Host) -> None:
    called = host.home / "called"
    host.program("setsid", f": > {called}")  # sent, but its wrapper comes later
    late = str(uuid4())
    process = host.start(host.launch_script(SLEEP, launch=late))
    wait_for(called.exists, what="the wrapper is sent")
    process.kill()
    assert process.stdin is not None and process.stdout is not None
    process.stdin.close()
    process.stdout.close()
    process.wait(10)
    (host.bin / "setsid").unlink()
    assert "started" in words(host.launch(SLEEP))
    directory = host.base / "launches" / late
    host.spawn("sh", str(directory / "run"), str(directory))
    assert (directory / "abandoned").exists()
    assert not (directory / "record").exists()


def test_another_boot(host: Host) -> None:
    assert words(host.launch(SLEEP, boot="00000000-0000-0000-0000-000000000000"))[0] == "rebooted"
    assert "started" in words(host.launch(SLEEP, boot=BOOT_ID))


def test_a_port_that_is_taken(host: Host) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = host.launch(SLEEP, port=port)
        assert said_of(said, "portbusy") == [str(port)]
        assert [line.split()[0] for line in said_of(said, "portowner")] == [str(os.getpid())]
    assert "started" in words(host.launch(SLEEP, port=port))


@pytest.mark.parametrize("kind", ["listens-v6", "bound", "bound-reuse", "bound-one", "connection", "twin"])
def test_a_port_that_is_taken_in_an_odd_way(host: Host, kind: str) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    kept = port_hold.KINDS[kind](port)
    try:
        said = host.launch(SLEEP, port=port)
        assert said_of(said, "portbusy") == [str(port)] and not record(said)
        assert {line.split()[0] for line in said_of(said, "portowner")} == {str(os.getpid())}
        assert not any((host.base / "launches").iterdir())
    finally:
        for one in kept:
            one.close()


def test_closed_connections_do_not_keep_the_port(host: Host) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    port_hold.KINDS["closed"](port)
    assert "started" in words(host.launch(SLEEP, port=port))


def test_where_a_port_cannot_be_tried_its_listeners_decide(host: Host) -> None:
    """A host without perl and python3."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        script = host.launch_script(SLEEP, port=port)
        bare = replace(
            script,
            stdin=script.stdin.replace(b"for tool in perl", b"for tool in no-such-tool; do :; done; for tool in"),
        )
        bare = replace(bare, stdin=bare.stdin.replace(b"/usr/bin/python3 python3 /usr/libexec/platform-python", b""))
        said = host.run(bare)
        assert said_of(said, "portbusy") == [str(port)]
        assert [line.split()[0] for line in said_of(said, "portowner")] == [str(os.getpid())]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"program": "no-such-program"}, "the program no-such-program is not there"),
        ({"workdir": "/no/such/place"}, "the working directory /no/such/place is not there"),
    ],
)
def test_what_is_missing_is_said_and_nothing_is_left(host: Host, values: dict[str, str], reason: str) -> None:
    said = host.launch(SLEEP, **values)
    assert said_of(said, "refused")[0].startswith(reason)
    assert not any((host.base / "launches").iterdir())


def test_a_home_that_cannot_be_written(host: Host) -> None:
    (host.home / ".relaunch").write_text("in the way")
    (reason,) = said_of(host.launch(SLEEP), "refused")
    assert "cannot write below" in reason and "%" in reason, "with the room there is"


@pytest.mark.parametrize("limit", [0, 100])
def test_a_full_disk(host: Host, limit: int) -> None:
    """At 0 not even the fence fits, at 100 bytes the wrapper does not."""
    launch = str(uuid4())
    said = host.run(host.launch_script(SLEEP, launch=launch), preexec=small_files_only(limit))
    assert "the disk may be full" in said_of(said, "refused")[0]
    assert not (host.base / "launches" / launch).exists()
    assert not (host.base / "live").exists()


def test_a_server_that_cannot_be_recorded_does_not_run(host: Host) -> None:
    launch = str(uuid4())
    ran = host.home / "ran"
    script = host.launch_script([str(host.program("server", f"touch {ran}"))], launch=launch)
    host.program("setsid", "shift; ulimit -f 0; trap '' XFSZ; exec \"$@\"")
    said = host.run(script)
    assert not record(said) and "started" in words(said)
    assert not ran.exists()


def test_a_start_and_giving_it_up_at_once(host: Host) -> None:
    """Whoever is first: either it runs and giving up tells who it is, or it never runs."""
    outcomes = set()
    for round_ in range(12):
        launch = str(uuid4())
        barrier = threading.Barrier(2)

        def send(mode: str, launch: str = launch, barrier: threading.Barrier = barrier) -> list[str]:
            script = host.launch_script(SLEEP, launch=launch, mode=mode)
            barrier.wait()
            return [line.word for line in host.run(script)]

        with ThreadPoolExecutor(2) as pool:
            order = ("start", "abandon") if round_ % 2 else ("abandon", "start")
            told = dict(zip(order, pool.map(send, order), strict=True))
        abandoned = "abandoned" in told["abandon"]
        assert ("abandoned" in told["start"]) == abandoned
        assert ("record" in told["start"]) == ("record" in told["abandon"]) == (not abandoned)
        assert (host.base / "launches" / launch / "record").exists() == (not abandoned)
        outcomes.add(abandoned)
        for pid in host.processes:
            if lives(pid):
                os.kill(pid, signal.SIGKILL)
                wait_for(lambda pid=pid: not lives(pid), what="it ended")
    assert outcomes


def test_what_was_given_up_never_starts(host: Host) -> None:
    launch = str(uuid4())
    assert words(host.launch(SLEEP, launch=launch, mode="abandon")) == ["abandoned", "end"]
    assert words(host.launch(SLEEP, launch=launch)) == ["abandoned", "end"]
    assert not (host.base / "live").exists()


def test_what_runs_is_not_given_up(host: Host) -> None:
    launch = str(uuid4())
    pid = record(host.launch(SLEEP, launch=launch))["pid"]
    said = host.launch(SLEEP, launch=launch, mode="abandon")
    assert record(said)["pid"] == pid and "exists" in words(said)
    assert lives(int(pid))


def _as_in_the_background() -> None:
    """For a child: a background job of a shell, and what it starts, ignores these for ever."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGQUIT, signal.SIG_IGN)


@pytest.mark.skipif(
    subprocess.run(["env", "--default-signal=INT", "true"], capture_output=True).returncode != 0,
    reason="env cannot reset an ignored signal (coreutils before 8.31)",
)
def test_the_server_may_be_interrupted(host: Host) -> None:
    said = host.run(host.launch_script(SLEEP), preexec=_as_in_the_background)
    pid = int(record(said)["pid"])
    status = Path(f"/proc/{pid}/status").read_text()
    ignored = int(next(line for line in status.splitlines() if line.startswith("SigIgn")).split()[1], 16)
    assert not ignored & (1 << (signal.SIGINT - 1) | 1 << (signal.SIGQUIT - 1))


@pytest.mark.parametrize(("text", "code"), [("exit 3", "3"), ("kill -9 $$", "137"), ("exit 0", "0")])
def test_its_exit_code_is_kept(host: Host, text: str, code: str) -> None:
    launch = str(uuid4())
    program = str(host.program("server", text))
    host.launch([program], launch=launch)
    wait_for((host.base / "launches" / launch / "exit").exists, what="the exit code is written")
    assert said_of(host.launch([program], launch=launch), "exit") == [code]


def test_it_gets_its_words_environment_directory_and_the_logins_umask(host: Host) -> None:
    place = host.home / "work dir"
    place.mkdir()
    argv = [
        str(host.program("server", 'printf "%s|" "$@" "$A" "$PWD"; umask')),
        "two words",
        "'; echo no #",
        "$HOME",
        "",
    ]
    launch = str(uuid4())
    mask = os.umask(0o022)
    try:
        host.launch(argv, launch=launch, env={"A": 'it\'s "quoted"\n$x'}, workdir=str(place))
    finally:
        os.umask(mask)
    log = host.base / "launches" / launch / "log"
    wait_for((log.parent / "exit").exists, what="it ended")
    assert log.read_text() == f"two words|'; echo no #|$HOME||it's \"quoted\"\n$x|{place}|0022\n"


def test_nothing_of_it_stands_in_argv(host: Host) -> None:
    script = host.launch_script(SLEEP, env={"A": "hidden"})
    assert script.argv == ("sh", "-s")
    assert b"hidden" in script.stdin


SMI = 'echo "GPU-a, 4, 900, 0"\necho "GPU-b, {used}, 700, 1"'


@pytest.mark.parametrize(
    ("smi", "force", "word", "text"),
    [
        (SMI.format(used=68), 0, "started", ""),
        (SMI.format(used=69), 0, "notfree", "GPU-b 69 68"),
        (SMI.format(used=69), 1, "started", ""),
        (SMI.format(used="[N/A]"), 0, "unmeasured", "GPU-b GPU-a, 4, 900, 0"),
        (SMI.format(used="[Insufficient Permissions]"), 0, "unmeasured", "GPU-b GPU-a, 4, 900, 0"),
        (SMI.format(used="[N/A]"), 1, "started", ""),
        ('echo "GPU-a, 4, 900, 0"', 0, "unmeasured", "GPU-b GPU-a, 4, 900, 0"),
        ('echo "GPU-a, 4, 900, 0"; printf "GPU-b, 6"', 0, "unmeasured", "GPU-b GPU-a, 4, 900, 0"),
        ('echo "GPU-a, 4, 9"', 0, "unmeasured", "GPU-a GPU-a, 4, 9"),
        ('echo "GPU-a, 4, 5, 0, 6"', 0, "unmeasured", "GPU-a GPU-a, 4, 5, 0, 6"),
        ('echo "GPU-a, 4, 5, 0"; echo "GPU-a, 4, 5, 0"', 0, "unmeasured", "GPU-a GPU-a, 4, 5, 0"),
        ("echo No devices were found; exit 6", 0, "unmeasured", "GPU-a No devices were found"),
        ("exit 127", 0, "unmeasured", "GPU-a "),
    ],
)
def test_memory_is_read_again_just_before_the_start(host: Host, smi: str, force: int, word: str, text: str) -> None:
    host.program("nvidia-smi", smi)
    said = host.launch(SLEEP, limits=["GPU-a=68", "GPU-b=68"], force=force)
    assert word in words(said)
    if text:
        assert said_of(said, word) == [text.rstrip()]
        assert not record(said) and not any((host.base / "launches").iterdir())


def test_memory_that_was_read_is_told(host: Host) -> None:
    host.program("nvidia-smi", SMI.format(used=5))
    assert said_of(host.launch(SLEEP, limits=["GPU-a=68", "GPU-b=68"]), "memory") == ["GPU-a 4", "GPU-b 5"]


@pytest.mark.parametrize(
    ("need", "free", "force", "word", "text"),
    [
        (700, "700", 0, "started", ""),
        (701, "700", 0, "notenough", "GPU-b 700 701"),
        (701, "700", 1, "started", ""),
        (1, "[N/A]", 0, "unmeasured", "GPU-b GPU-a, 4, 900, 0"),
        (1, "[N/A]", 1, "started", ""),
    ],
)
def test_beside_co_tenants_the_free_memory_is_read_again(
    host: Host, need: int, free: str, force: int, word: str, text: str
) -> None:
    host.program("nvidia-smi", f'echo "GPU-a, 4, 900, 0"\necho "GPU-b, 80000, {free}, 1"')
    said = host.launch(SLEEP, limits=["GPU-a=68"], needs=[f"GPU-b={need}"], force=force)
    assert word in words(said)
    assert said_of(said, "memory") == ["GPU-a 4", "GPU-b 80000"]
    if text:
        assert said_of(said, word) == [text] and not record(said)


@pytest.mark.parametrize(
    ("need", "free", "word"), [(700, "700", "started"), (701, "700", "notenough"), (1, "[N/A]", "started")]
)
def test_what_it_used_before_must_be_free_whoever_takes_the_risk(host: Host, need: int, free: str, word: str) -> None:
    host.program("nvidia-smi", f'echo "GPU-b, 80000, {free}, 1"')
    said = host.launch(SLEEP, limits=["GPU-b=68"], musts=[f"GPU-b={need}"], force=1)
    assert word in words(said) and ("started" in words(said)) == (word == "started")


def test_why_nobody_was_started_is_told(host: Host) -> None:
    """As the wrapper of a unit or a container does it: it keeps the reason in the log, and who it is nowhere."""
    run = 'mkdir "$1/begun"; echo "chat was not started: Unit is masked." >> "$1/log"; echo 125 > "$1/exit"'
    said = host.launch(SLEEP, run=run, way="unit")
    assert said_of(said, "exit") == ["125"] and said_of(said, "why") == ["chat was not started: Unit is masked."]


@pytest.mark.skipif(os.getuid() != 0, reason="only root starts a server as another user")
@pytest.mark.parametrize(("entry", "home"), [("nobody:x:65534:65534::/srv/nobody:/bin/sh", "/srv/nobody"), ("", "/")])
def test_a_server_of_another_user_has_that_users_home(host: Host, entry: str, home: str) -> None:
    """As its passwd says, also where that is no file (LDAP); never root's."""
    host.program("getent", f"echo '{entry}'")
    run = wrapper(["sh", "-c", "echo $HOME"], env={}, workdir="", user=(65534, 65534))
    (directory,) = said_of(host.launch(["sh"], run=run), "started")
    wait_for((Path(directory) / "exit").exists, what="its end")
    assert (Path(directory) / "log").read_text() == f"{home}\n"
