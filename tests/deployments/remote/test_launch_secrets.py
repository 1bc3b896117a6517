"""Secrets of a launch for real: only the server's own environment has them, and no file outlives the need for it."""

import os
import shutil
import signal
import stat
from pathlib import Path
from uuid import uuid4

import pytest

from deployments.remote.script import wrapper
from tests.deployments.remote.shell import Host, lives, record, said_of, small_files_only, start_time, wait_for, words

pytestmark = pytest.mark.process

SECRET = "it's-a-$HOME-secret"
SECRETS = "export HF_TOKEN='it'\\''s-a-$HOME-secret'"
SETTINGS = 'api-key: "plain-horse-battery"'
SLEEP = ["sleep", "60"]
PROGRAMS = ("printf", "echo", "cat", "tee", "dd", "cp", "mv", "rm", "mkdir", "setsid", "install", "sleep")


def launch(
    host: Host, argv: list[str], *, settings: str = "", **values: object
) -> tuple[list[str], dict[str, str], Path]:
    """Its words, its record, and its directory."""
    env = {"HF_TOKEN": "of the revision"}
    run = wrapper(argv, env=env, workdir="", secrets=True, settings=bool(settings))
    said = host.run(host.launch_script(argv, run=run, secrets=SECRETS, settings=settings, **values))  # type: ignore[arg-type]
    return words(said), record(said), Path((said_of(said, "started") or [""])[0])


def environment(pid: str | int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


def test_the_server_has_it_and_the_file_is_gone(host: Host) -> None:
    _, told, directory = launch(host, SLEEP)
    wait_for(lambda: Path(f"/proc/{told['pid']}/cmdline").read_bytes() == b"sleep\x0060\0", what="it is the server")
    assert f"HF_TOKEN={SECRET}\0".encode() in environment(told["pid"])
    above = Path(f"/proc/{told['pid']}/stat").read_text().rpartition(")")[2].split()[1]
    assert SECRET.encode() not in environment(above) + Path(f"/proc/{above}/cmdline").read_bytes(), (
        "its wrapper has not"
    )
    assert not (directory / "secrets").exists()
    assert not any(SECRET in path.read_text(errors="replace") for path in directory.iterdir() if path.is_file())


def test_no_program_is_told_it(host: Host) -> None:
    """A command line is read by every user, however short it lives: only the shell itself may write the files."""
    seen = host.home / "seen"
    for real in (path for path in map(shutil.which, PROGRAMS) if path):
        host.program(Path(real).name, f'echo "$0" "$@" >> {seen}; exec {real} "$@"')
    _, _, directory = launch(host, SLEEP, settings=SETTINGS)
    wait_for((directory / "exit").exists, what="sleep refuses the flag")
    asked = seen.read_text()
    assert all(f"bin/{name} " in asked for name in ("mkdir", "mv", "rm", "setsid", "sleep"))
    assert SECRET not in asked and "plain-horse-battery" not in asked


def test_the_files_are_for_the_login_alone(host: Host) -> None:
    """Seen by a program in place of setsid, before the wrapper begins."""
    seen = host.home / "seen"
    host.program("setsid", f'stat -c "%a %n" "$4"/* > {seen}; exit 1')
    assert "refused" in launch(host, SLEEP, settings=SETTINGS)[0]
    modes = {Path(name).name: mode for mode, name in (line.split() for line in seen.read_text().splitlines())}
    assert modes == {"log": "600", "run": "600", "secrets": "600", "settings.yaml": "600"}
    (directory,) = (host.base / "launches").iterdir()
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {path.name for path in directory.iterdir()} == {"log", "run"}, "what is not started keeps no secret"


def test_the_engine_is_told_where_its_settings_are(host: Host) -> None:
    copy = host.home / "copy"
    program = host.program("server", f'cat "$4" > {copy}; exec sleep 60')
    _, told, directory = launch(host, [str(program), "--port", "1"], settings=SETTINGS)
    wait_for(lambda: copy.exists() and copy.read_text(), what="the server reads it")
    assert copy.read_text() == SETTINGS + "\n"
    os.kill(int(told["pid"]), signal.SIGTERM)
    wait_for((directory / "exit").exists, what="its end")
    assert not (directory / "settings.yaml").exists()


@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("setpriv"), reason="needs root to become somebody else")
def test_a_server_of_another_user_reads_its_settings_and_nobody_else_does(host: Host) -> None:
    told_of = ["sh", "-c", 'cat "$2"; stat -c "%a %u %n" "$2" "${2%/*}"; id -u; exec sleep 60', "x"]
    run = wrapper(told_of, env={}, workdir="/", user=(65534, 65534), settings=True)
    said = host.run(host.launch_script(told_of, run=run, settings=SETTINGS))
    told, directory = record(said), Path(said_of(said, "started")[0])
    log = directory / "log"
    wait_for(lambda: log.read_text().endswith("\n65534\n"), what="what the server can read")
    reach = Path(f"/run/relaunch-{directory.name}")
    assert log.read_text().splitlines()[:-1] == [SETTINGS, f"600 65534 {reach}/settings.yaml", f"700 65534 {reach}"]
    os.kill(int(told["pid"]), signal.SIGKILL)
    wait_for((directory / "exit").exists, what="its end")
    assert not reach.exists() and not (directory / "settings.yaml").exists()


def test_the_settings_are_gone_once_it_listens(host: Host) -> None:
    program = host.program("server", "exec sleep 60")
    _, told, directory = launch(host, [str(program)], settings=SETTINGS)
    assert (directory / "settings.yaml").exists()
    listen = (
        "import socket,time\ns=socket.create_server(('127.0.0.1',0))\n"
        f"open('{host.home}/port','w').write(str(s.getsockname()[1])+'\\n')\ntime.sleep(60)"
    )
    pid = host.spawn("python3", "-c", listen)
    port = host.home / "port"
    wait_for(lambda: port.exists() and port.read_text().endswith("\n"), what="it listens")
    follow = host.script(
        "follow", launch=directory.name, pid=pid, start_was=start_time(pid), port=port.read_text().strip(), offset=0,
        file="", overlap=0, cards="", seconds_max=1,
    )  # fmt: skip
    assert "ours" in said_of(host.run(follow), "listen")
    assert not (directory / "settings.yaml").exists() and lives(int(told["pid"]))


def test_a_launch_that_is_given_up_keeps_none(host: Host) -> None:
    host.program("setsid", ":")  # sent, but its wrapper comes later
    late = str(uuid4())
    run = wrapper(SLEEP, env={}, workdir="", secrets=True, settings=True)
    process = host.start(host.launch_script(SLEEP, launch=late, run=run, secrets=SECRETS, settings=SETTINGS))
    directory = host.base / "launches" / late
    wait_for((directory / "log").exists, what="the last of its files")
    process.kill()
    assert process.stdin is not None and process.stdout is not None
    process.stdin.close()
    process.stdout.close()
    process.wait(10)
    (host.bin / "setsid").unlink()
    assert "abandoned" in words(host.launch(SLEEP, launch=late, mode="abandon"))
    assert {path.name for path in directory.iterdir()} == {"log", "run", "begun", "abandoned"}
    host.spawn("sh", str(directory / "run"), str(directory))


def test_what_a_power_cut_has_left_goes_with_the_next_launch(host: Host) -> None:
    _, told, directory = launch(host, SLEEP)
    os.kill(int(told["pid"]), signal.SIGKILL)
    wait_for((directory / "exit").exists, what="its end")
    for name in ("secrets", "settings.yaml"):
        (directory / name).write_text(SECRET)
    launch(host, SLEEP)
    assert not any((directory / name).exists() for name in ("secrets", "settings.yaml"))


def test_without_its_secrets_nothing_starts(host: Host) -> None:
    run = wrapper(SLEEP, env={}, workdir="", secrets=True)
    (directory,) = said_of(host.run(host.launch_script(SLEEP, run=run, secrets="", settings="")), "started")
    wait_for((Path(directory) / "exit").exists, what="its end")
    assert (Path(directory) / "exit").read_text() != "0\n"
    assert "secrets" in (Path(directory) / "log").read_text()


def test_variables_of_these_names_of_the_login_get_nothing(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "env", lambda: {**Host.env(host), "SECRETS": "theirs", "SETTINGS": "theirs"})
    _, told, _ = launch(host, SLEEP)
    wait_for(lambda: Path(f"/proc/{told['pid']}/cmdline").read_bytes() == b"sleep\x0060\0", what="it is the server")
    assert b"export HF_TOKEN" not in environment(told["pid"])


def test_a_full_disk_leaves_no_half_of_one(host: Host) -> None:
    run = wrapper(SLEEP, env={}, workdir="", secrets=True)
    script = host.launch_script(SLEEP, run=run, secrets=SECRETS + "x" * 4096, settings="")
    said = host.run(script, preexec=small_files_only(2048))
    assert "refused" in words(said) and not list((host.base / "launches").iterdir())
