"""Which version of an engine is installed, asked for real."""

import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.deployments.remote.shell import Host, said_of

pytestmark = pytest.mark.process


def ask(host: Host, program: str, *, package: str = "django", workdir: str = "") -> tuple[list[str], list[str]]:
    said = host.run(host.script("version", program=program, package=package, workdir=workdir))
    return said_of(said, "version"), said_of(said, "unknown")


def test_an_interpreter_knows_its_packages(host: Host) -> None:
    assert ask(host, sys.executable) == ([version("django")], [])


def test_a_command_of_the_package_names_its_interpreter(host: Host, tmp_path: Path) -> None:
    command = tmp_path / "sglang"
    command.write_text(f"#!{sys.executable} -s\nraise SystemExit('it was started')\n")
    command.chmod(0o755)
    assert ask(host, str(command)) == ([version("django")], [])
    assert ask(host, "./sglang", workdir=str(tmp_path)) == ([version("django")], [])


@pytest.mark.parametrize(
    ("program", "package", "workdir", "why"),
    [
        ("/nowhere/python3", "django", "", "/nowhere/python3 is not there"),
        (sys.executable, "no-such-engine", "", "no-such-engine"),
        (sys.executable, "django", "/nowhere", "/nowhere cannot be entered"),
        ("/bin/sh", "django", "", "names no Python"),
    ],
)
def test_what_is_not_known_has_its_reason(host: Host, program: str, package: str, workdir: str, why: str) -> None:
    known, unknown = ask(host, program, package=package, workdir=workdir)
    assert not known and why in unknown[0]


def test_a_python_that_answers_nonsense_is_unknown(host: Host) -> None:
    host.program("python9", "echo 'cannot load' >&2; exit 3")
    assert ask(host, "python9") == ([], ["cannot load (exit status 3)"])
