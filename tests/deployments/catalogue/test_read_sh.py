"""The script finds the interpreter behind each kind of program, in every shell that a host may have."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from deployments.catalogue import script
from deployments.catalogue.program import Program, program_of

pytestmark = pytest.mark.process
SHELLS = [shell for shell in ("dash", "bash", "busybox") if shutil.which(shell)]
SOURCE = """
class ServerArgs:
    def add_cli_args(parser):
        parser.add_argument("--model-path", required=True)
        parser.add_argument("--tp-size", type=int, default=1)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A virtual environment whose path holds a space, with an engine that nobody can import."""
    venv = tmp_path / "a venv"
    packages = venv / f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    (packages / "sglang/srt").mkdir(parents=True)
    (packages / "sglang/__init__.py").write_text("raise SystemExit('imported')")
    (packages / "sglang/srt/server_args.py").write_text(SOURCE)
    (packages / "sglang-9.8.dist-info").mkdir()
    (packages / "sglang-9.8.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: sglang\nVersion: 9.8\n")
    (venv / "bin").mkdir()
    (venv / "pyvenv.cfg").write_text(f"home = {Path(sys.base_prefix) / 'bin'}\n")
    (venv / "bin/python3").symlink_to(Path(sys.base_prefix) / "bin/python3")
    return venv


def told(argv: list[str], *, shell: str = "sh", env: dict[str, str] | None = None, workdir: str = "") -> script.Told:
    program = program_of("sglang", argv, env=env or {}, workdir=workdir)
    assert isinstance(program, Program)
    made = script.build(program)
    words = [shell, "sh", "-s"] if shell == "busybox" else [shell, "-s"]
    done = subprocess.run(words, input=made.stdin, capture_output=True, timeout=60, check=False)
    return script.read_answer(made, done.stdout)


def is_read(found: script.Told) -> bool:
    assert found.data is not None, found.reason
    return found.data.get("version") == "9.8" and len(found.data["arguments"]) == 2 and not found.data["gaps"]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_python_is_asked_itself(place: Path, shell: str) -> None:
    assert is_read(told([str(place / "bin/python3"), "-m", "sglang.launch_server"], shell=shell))


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    "first",
    [
        "#!{python}\n",
        "#!/usr/bin/env python3\n",
        "#!/usr/bin/env -S python3\n",
        "#!/bin/sh\n'''exec' \"{spaced}\" \"$0\" \"$@\"\n' '''\n",
        "#!/bin/sh\n'''exec' '{spaced}' \"$0\" \"$@\"\n' '''\n",
    ],
)
def test_a_script_is_asked_for_its_python(place: Path, tmp_path: Path, shell: str, first: str) -> None:
    plain = tmp_path / "v"
    plain.symlink_to(place)
    (place / "bin/sglang").write_text(
        first.replace("{python}", f"{plain}/bin/python3").replace("{spaced}", f"{place}/bin/python3") + "import x\n"
    )
    (place / "bin/sglang").chmod(0o755)
    path = f"{place}/bin:/usr/local/bin:/usr/bin:/bin"
    assert is_read(told([str(place / "bin/sglang"), "serve"], shell=shell, env={"PATH": path}))
    assert is_read(told(["sglang", "serve"], shell=shell, env={"PATH": path}))


def test_a_script_of_another_kind_is_told(place: Path) -> None:
    for text in ("#!/usr/bin/perl\n", "\x7fELF\0\0", ""):
        (place / "bin/sglang").write_text(text)
        (place / "bin/sglang").chmod(0o755)
        assert "does not say which Python runs it" in told([str(place / "bin/sglang"), "serve"]).reason


def test_source_that_lies_elsewhere_is_found_as_python_finds_it(place: Path, tmp_path: Path) -> None:
    """An editable installation: a .pth file with a path; and a working directory, which goes first for -m."""
    (packages,) = place.glob("lib/*/site-packages")
    (packages / "sglang").rename(tmp_path / "sglang")
    (packages / "editable.pth").write_text(f"{tmp_path}\n")
    command = [str(place / "bin/python3"), "-m", "sglang.launch_server"]
    found = told(command)
    assert is_read(found) and found.data is not None and found.data["package"] == str(tmp_path / "sglang")
    here = tmp_path / "work/sglang/srt"
    here.mkdir(parents=True)
    (here / "server_args.py").write_text(SOURCE)
    (here.parent / "__init__.py").touch()
    found = told(command, workdir=str(tmp_path / "work"))
    assert found.data is not None and found.data["package"] == str(tmp_path / "work/sglang")
    isolated = told([command[0], "-I", *command[1:]], workdir=str(tmp_path / "work"))
    assert isolated.data is not None and isolated.data["package"] == str(tmp_path / "sglang")


@pytest.mark.parametrize(
    ("source", "gap"),
    [
        ("class Other: ...", "not where they are known to be"),
        (SOURCE + "        for name in table():\n            parser.add_argument(name)\n", "for name in table()"),
        (SOURCE + "        parser.add_argument(*names())\n", "add_argument(*names())"),
        (SOURCE + "        plugins.extend_parser(parser)\n", "plugins.extend_parser"),
        (
            "class ServerArgs:\n    def add_cli_args(parser):\n        add_cli_args_from_dataclass(parser, X)\n",
            "dataclass",
        ),
        ("def broken(:\n", "not where they are known to be"),
    ],
)
def test_what_is_not_understood_is_a_gap_and_never_guessed(place: Path, source: str, gap: str) -> None:
    next(place.rglob("server_args.py")).write_text(source)
    found = told([str(place / "bin/python3"), "-m", "sglang.launch_server"])
    assert found.data is not None and any(gap in one for one in found.data["gaps"]), found.data


def test_endless_source_ends(place: Path) -> None:
    loops = SOURCE.replace("class", "def f():\n    return g()\ndef g():\n    return f()\nclass") + (
        "        x = f()\n        parser.add_argument('--x', choices=[y for y in f()], help=f())\n"
        "        for a in ['b', 'c']:\n            for c in f():\n                parser.add_argument('--' + a + c)\n"
    )
    next(place.rglob("server_args.py")).write_text(loops)
    found = told([str(place / "bin/python3"), "-m", "sglang.launch_server"])
    assert found.data is not None and found.data["seconds"] < 10


def test_what_is_not_there_is_told(place: Path) -> None:
    assert told(["/nowhere/python", "-m", "sglang.launch_server"]).reason == "There is no program /nowhere/python."
    here = told([str(place / "bin/python3"), "-m", "sglang.launch_server"], workdir="/nowhere")
    assert here.reason == "There is no directory /nowhere."
    shutil.rmtree(next(place.rglob("sglang")))
    found = told([str(place / "bin/python3"), "-m", "sglang.launch_server"])
    assert found.data is not None and "package" not in found.data
