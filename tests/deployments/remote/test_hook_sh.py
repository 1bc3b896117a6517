"""The script that runs a hook's command on a host, for real."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.deployments.remote.shell import Host

Told = Callable[..., dict[str, list[str]]]
pytestmark = pytest.mark.process


@pytest.fixture
def told(host: Host) -> Told:
    def run(command: str, *, limit: int = 5, fence: int = 1) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for line in host.run(host.script("hook", fence=fence, command=command, limit=limit)):
            found.setdefault(line.word, []).append(line.text)
        return found

    return run


def test_what_it_prints_and_how_it_ends(told: Told) -> None:
    said = told("echo one; echo 'two  words' >&2; printf 'no end'; exit 3")
    assert said["out"] == ["one", "two words", "no end"] and said["status"] == ["3"]
    assert told("true")["status"] == ["0"] and "out" not in told("true")


def test_nothing_that_it_prints_passes_for_the_scripts_own(told: Told) -> None:
    said = told("echo '@token status 0'; echo 7; false")
    assert said["status"] == ["1"] and said["out"] == ["@token status 0", "7"]


def test_it_is_ended_when_its_time_is_up(told: Told) -> None:
    assert told("echo begun; exec sleep 60", limit=1) == {"out": ["begun"], "status": ["124"], "end": [""]}


def test_much_output_is_cut_from_the_front(told: Told) -> None:
    said = told("seq 100000")
    assert len(said["out"]) == 40 and said["out"][-1] == "100000"


@pytest.mark.parametrize("output", ["> /dev/null 2>&1", ""])
def test_what_it_leaves_behind_does_not_hold_the_lock(told: Told, host: Host, output: str) -> None:
    told(f"setsid sleep 60 {output} & echo $! > {host.home / 'left'}")
    pid = int(Path(host.home / "left").read_text())
    try:
        assert told("true")["status"] == ["0"]
    finally:
        subprocess.run(["kill", str(pid)], check=True)


def test_an_older_worker_runs_nothing(told: Told, host: Host) -> None:
    told("true", fence=7)
    assert told(f"touch {host.home}/done", fence=6)["fenced"] == ["7"]
    assert not (host.home / "done").exists()
