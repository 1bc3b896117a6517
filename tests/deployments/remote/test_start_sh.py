"""How a launch's process is started, for real: its limits, its exit code, and a systemd-run that says no."""

import os
import signal
from pathlib import Path

import pytest

from deployments.remote.script import build
from tests.deployments.remote.shell import Host, lives, record, said_of, wait_for, words

pytestmark = pytest.mark.process

SLEEP = ["sleep", "60"]


def limit_of(pid: int, name: str) -> list[str]:
    text = Path(f"/proc/{pid}/limits").read_text()
    return next(line for line in text.splitlines() if line.startswith(name))[len(name) :].split()[:2]


def test_the_server_gets_the_limits_of_the_old_one(host: Host) -> None:
    said = host.launch(SLEEP, open_files="100 200", locked_memory="65536 131072")
    pid = int(record(said)["pid"])
    assert limit_of(pid, "Max open files") == ["100", "200"]
    assert limit_of(pid, "Max locked memory") == ["65536", "131072"]
    assert "limit" not in words(said)


def test_a_limit_that_cannot_be_kept_is_told(host: Host) -> None:
    said = host.launch(SLEEP, open_files="99999999999 99999999999")
    assert said_of(said, "limit") == ["n 99999999999"] and record(said)["pid"], "it is started all the same"


def test_its_exit_code_is_kept_when_all_of_its_group_is_signalled(host: Host) -> None:
    """As systemd does with a unit: the wrapper gets SIGTERM too."""
    (directory,) = said_of(said := host.launch(SLEEP), "started")
    server = int(record(said)["pid"])
    wrapper = int(Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(wrapper, signal.SIGTERM)
    os.kill(server, signal.SIGTERM)
    exit_file = Path(directory) / "exit"
    wait_for(exit_file.exists, what="the exit code")
    assert exit_file.read_text() == "143\n"


RUNS = 'while [ "$1" != -- ]; do case $1 in -p) echo "$2" >> "$HOME/properties" ;; esac; shift; done; shift; '


def test_a_unit_is_told_who_it_is_and_what_it_gets(host: Host) -> None:
    host.program("systemd-run", RUNS + 'env -i setsid -f "$@" > /dev/null 2>&1')
    said = host.launch(
        ["sh", "-c", 'echo "$HOME"; exec sleep 60'],
        way="transient",
        runner="systemd-run",
        unit="relaunch-x.service",
        stop_seconds=7,
        open_files="100 200",
    )
    assert record(said)["unit"] == "relaunch-x.service"
    (directory,) = said_of(said, "started")
    log = Path(directory) / "log"
    wait_for(lambda: log.read_text() == f"{host.home}\n", what="the login's own environment")
    assert not (Path(directory) / "environment").exists()
    told = (host.home / "properties").read_text().splitlines()
    assert {"KillMode=control-group", "TimeoutStopSec=7", "LimitNOFILE=100:200", "Type=exec"} <= {*told}


def test_a_systemd_that_says_no_starts_nothing_later(host: Host) -> None:
    host.program("systemd-run", 'echo "Failed to connect to bus" >&2; exit 1')
    said = host.launch(SLEEP, way="transient", runner="systemd-run", unit="u.service", launch="one")
    assert said_of(said, "refused") == ["systemd-run: Failed to connect to bus"]
    directory = host.base / "launches/one"
    host.spawn("sh", str(directory / "run"), str(directory), "u.service")
    assert (directory / "abandoned").exists() and not (directory / "record").exists()


def test_a_unit_whose_answer_is_lost_is_found(host: Host) -> None:
    host.program("systemd-run", RUNS + 'setsid -f "$@" > /dev/null 2>&1; sleep 0.5; exit 1')
    said = host.launch(SLEEP, way="transient", runner="systemd-run", unit="u.service")
    assert "started" in words(said) and lives(int(record(said)["pid"]))


@pytest.mark.skipif(os.getuid() != 0, reason="only root becomes somebody else")
def test_what_another_user_may_not_read_is_told(host: Host) -> None:
    values = {"PANEL": "p", "DEPLOYMENT": 7, "FENCE": 1, "BOOT": "", "RUNS_AS": 65534, "RUNS_IN": 65534}
    closed = host.home / "closed model"
    closed.write_text("x")
    closed.chmod(0o600)
    said = host.run(build("as_user", values={**values, "PATHS": f"/etc/passwd\n{closed}\n/*"}))
    assert said_of(said, "closed") == ["1", "2"] and "looked" in words(said)


@pytest.mark.skipif(os.getuid() != 0, reason="only root becomes somebody else")
def test_a_look_that_says_nothing_is_no_look(host: Host) -> None:
    values = {"PANEL": "p", "DEPLOYMENT": 7, "FENCE": 1, "BOOT": "", "RUNS_AS": 65534, "RUNS_IN": 65534}
    host.program("timeout", "exit 124")  # a network disk that does not answer
    said = host.run(build("as_user", values={**values, "PATHS": "/etc/passwd"}))
    assert words(said) == ["end"]
