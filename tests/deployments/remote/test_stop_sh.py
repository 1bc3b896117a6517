"""The stop script for real: it signals exactly who was recorded, and watches until they are gone."""

import sys
from pathlib import Path

import pytest

from deployments.remote.script import Said
from tests.deployments.remote.shell import BOOT_ID, Host, lives, said_of, sent, start_time, wait_for, words

pytestmark = pytest.mark.process

STUBBORN = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nopen('{flag}', 'w')\ntime.sleep(60)\n"
DYING = (
    "import threading, signal, sys, time\nopen('{flag}', 'w')\n"
    "signal.signal(signal.SIGTERM, lambda *_: time.sleep(0.3) or sys.exit())\ntime.sleep(60)\n"
)


def sleeper(host: Host) -> str:
    pid = host.spawn("sleep", "60")
    return f"{pid}:{start_time(pid)}"


def python(host: Host, code: str) -> str:
    flag = host.home / f"ready-{len(host.processes)}"
    pid = host.spawn(sys.executable, "-S", "-c", code.format(flag=flag))
    wait_for(flag.exists, what="it has begun")
    return f"{pid}:{start_time(pid)}"


def stop(
    host: Host,
    *targets: str,
    signal: str = "TERM",
    watched: list[str] | None = None,
    seconds: int = 5,
    through: str = "",
    answer: str = "",
    **values: object,
) -> list[Said]:
    watch = list(targets) if watched is None else watched
    known = {"signal": signal, "targets": list(targets), "watched": watch, "through": through, "seconds_max": seconds}
    known["answer"] = answer or ("5-1" if through else "")
    return host.run(host.script("signal", "stop", **({"sudo": ""} | known | values)))


def pid_of(word: str) -> int:
    return int(word.partition(":")[0])


def test_who_was_recorded_is_ended_and_nobody_else(host: Host) -> None:
    server, neighbour = sleeper(host), sleeper(host)
    said = stop(host, server)
    assert sent(said) == [f"TERM {pid_of(server)}"]
    assert said_of(said, "alive")[-1] == ""
    assert words(said)[-1] == "end"
    assert not lives(pid_of(server))
    assert lives(pid_of(neighbour))


def test_another_start_time_is_another_process(host: Host) -> None:
    word = sleeper(host)
    pid, start = map(int, word.split(":"))
    said = stop(host, f"{pid}:{start - 1}", f"{pid}:{start + 1}", signal="KILL")
    assert said_of(said, "gone") == [str(pid)] * 2
    assert "sent" not in words(said)
    assert lives(pid)


@pytest.mark.parametrize("target", ["1:0", "0:0"])
def test_nobody_signals_init_or_a_group(host: Host, target: str) -> None:
    assert words(stop(host, target, signal="CONT"))[0] == "gone"


def test_survivors_are_named_after_the_time(host: Host) -> None:
    word, other = python(host, STUBBORN), sleeper(host)
    said = stop(host, other, word, seconds=1)
    assert said_of(said, "alive")[-1] == f"{word.partition(':')[0]}:S"
    assert lives(pid_of(word))
    assert said_of(stop(host, word, signal="KILL"), "alive")[-1] == ""


def test_it_waits_until_the_last_is_gone(host: Host) -> None:
    slow, quick = python(host, DYING), sleeper(host)
    alive = said_of(stop(host, slow, quick), "alive")
    assert alive[-1] == ""
    assert any(line.startswith(f"{pid_of(slow)}:") and str(pid_of(quick)) not in line for line in alive)


def test_watching_alone_signals_nobody(host: Host) -> None:
    word = sleeper(host)
    said = stop(host, signal="", watched=[word], seconds=1)
    assert said_of(said, "alive")[-1] == f"{pid_of(word)}:S"
    assert "sent" not in words(said) and lives(pid_of(word))


def test_a_process_that_nobody_has_reaped_is_gone(host: Host) -> None:
    code = "import os, time\nif os.fork() == 0: os._exit(0)\nopen('{flag}', 'w')\ntime.sleep(60)\n"
    parent = python(host, code)
    child = int(Path(f"/proc/{pid_of(parent)}/task/{pid_of(parent)}/children").read_text())
    wait_for(lambda: not lives(child), what="the child is a zombie")
    said = stop(host, signal="", watched=[f"{child}:{start_time(child)}"], seconds=3)
    assert said_of(said, "alive") == [""]


def test_an_older_worker_signals_nobody(host: Host) -> None:
    word = sleeper(host)
    stop(host, fence=9)
    assert words(stop(host, word, signal="KILL", fence=8)) == ["fenced", "end"]
    assert lives(pid_of(word))


def test_another_boot_signals_nobody(host: Host) -> None:
    word = sleeper(host)
    said = stop(host, word, boot="00000000-0000-0000-0000-000000000000")
    assert said_of(said, "rebooted") == [BOOT_ID]
    assert lives(pid_of(word))


def test_in_another_pid_namespace_nobody_is_signalled(host: Host) -> None:
    word, here = sleeper(host), str(Path("/proc/self/ns/pid").readlink())
    assert said_of(stop(host, word, seconds=1, space="pid:[1]"), "gone") == [str(pid_of(word))] and lives(pid_of(word))
    assert sent(stop(host, word, space=here)) == [f"TERM {pid_of(word)}"]


def test_it_ends_when_the_panel_hangs_up(host: Host) -> None:
    word = sleeper(host)
    process = host.start(host.script("stop", signal="", targets=[], watched=[word], seconds_max=60))
    assert process.stdin is not None and process.stdout is not None
    process.stdout.readline()
    process.stdin.close()
    process.wait(5)
    process.stdout.close()


def test_a_name_that_looks_like_a_process_table(host: Host) -> None:
    program = host.home / "a) R (b 1 2 3"
    program.symlink_to("/bin/sleep")
    pid = host.spawn(str(program), "60")
    word = f"{pid}:{start_time(pid)}"
    assert sent(stop(host, word)) == [f"TERM {pid}"]
    assert not lives(pid)


# --- Through what looks after the server


def test_a_manager_is_asked_instead_of_a_signal(host: Host) -> None:
    server, neighbour = sleeper(host), sleeper(host)
    said = stop(host, watched=[server], through=f"sleep 0.3; kill {pid_of(server)}; sleep 0.1; echo stopped")
    assert "sent" not in words(said)
    assert said_of(said, "alive")[0] == f"{pid_of(server)}:S" and said_of(said, "alive")[-1] == ""
    assert lives(pid_of(neighbour))


def test_what_the_manager_could_not_do_is_told_with_its_last_words(host: Host) -> None:
    server = sleeper(host)
    said = stop(host, watched=[server], through="echo one; echo 'Access denied' >&2; exit 4", seconds=2)
    assert said_of(said, "manager") == ["4 Access denied"]
    assert lives(pid_of(server))


def test_a_manager_that_hangs_holds_nobody_up(host: Host) -> None:
    server = sleeper(host)
    said = stop(host, watched=[server], through="sleep 30", seconds=1)
    assert words(said)[-1] == "end" and "manager" not in words(said)


def test_a_later_call_that_only_watches_is_told_too_and_each_time(host: Host) -> None:
    server = sleeper(host)
    stop(host, watched=[server], through="sleep 30", answer="4-1", seconds=1)
    go_on = host.home / "go-on"
    slow = f"until [ -e {go_on} ]; do sleep 0.02; done; echo 'Access denied' >&2; exit 4"
    assert "manager" not in words(stop(host, watched=[server], through=slow, answer="5-2", seconds=1))
    go_on.touch()
    wait_for((host.base / "asked.5-2").exists, what="the manager has answered")
    for _ in range(2):
        later = stop(host, signal="", watched=[server], answer="5-2", fence=9, seconds=0)
        assert said_of(later, "manager") == ["4 Access denied"]
    assert "manager" not in words(stop(host, signal="", watched=[server], answer="4-1", fence=9, seconds=0))
    assert "manager" not in words(stop(host, signal="KILL", watched=[server], fence=9, seconds=0))


def test_an_answer_of_before_is_none_to_a_new_question(host: Host) -> None:
    server = sleeper(host)
    asked = {"watched": [server], "answer": "5-1", "seconds": 1}
    assert said_of(stop(host, through="exit 4", **asked), "manager") == ["4"]  # type: ignore[arg-type]
    assert "manager" not in words(stop(host, through="sleep 30", **asked))  # type: ignore[arg-type]
