"""Flags side by side: what runs, what would run, what was proven."""

import pytest

from deployments.flags import compare, flags_of, settings_of


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        ("python -m sglang.launch_server", {"command": "python -m sglang.launch_server"}),
        ("python -m x --tp 2 --quiet", {"command": "python -m x", "--tp": "2", "--quiet": "(set)"}),
        ("llama-server -m a.gguf -c 10", {"command": "llama-server -m a.gguf", "-c": "10"}),
        ("x --tp=2", {"command": "x", "--tp": "2"}),
        ("x --bias -1 --t -0.5", {"command": "x", "--bias": "-1", "--t": "-0.5"}),
        ("x --bs 1 2 4 --y", {"command": "x", "--bs": "1 2 4", "--y": "(set)"}),
        ("x --a 1 --a 2", {"command": "x", "--a": "2"}),
    ],
)
def test_flags_of(command: str, flags: dict[str, str]) -> None:
    assert flags_of(command.split()) == flags


def test_only_what_differs_is_shown() -> None:
    rows = compare(
        flags_of(["x", "--tp", "2", "--steps", "1", "--old"]),
        flags_of(["x", "--tp", "2", "--steps", "3"]),
        flags_of(["x", "--tp", "2", "--steps", "3", "--ctx", "9"]),
    )
    assert rows == [
        {"flag": "--steps", "running": "1", "new": "3", "proven": "3"},
        {"flag": "--old", "running": "(set)", "new": None, "proven": None},
        {"flag": "--ctx", "running": None, "new": None, "proven": "9"},
    ]


def test_a_side_that_is_not_there_does_not_make_a_difference() -> None:
    assert compare(None, flags_of(["x", "--tp", "2"]), None) == []
    assert compare(None, None, None) == []
    assert compare(flags_of(["x", "--tp", "2"]), None, flags_of(["x", "--tp=2"])) == []


def test_the_same_flag_written_otherwise_is_the_same() -> None:
    assert compare(flags_of(["x", "--tp", "2"]), flags_of(["x", "--tp=2"]), None) == []


def test_variables_and_the_directory_count_too() -> None:
    left = settings_of(["x"], {"A": "1", "B": "2"}, "")
    right = settings_of(["x"], {"A": "1"}, "/srv")
    assert compare(left, right, None) == [
        {"flag": "B=", "running": "2", "new": None, "proven": None},
        {"flag": "directory", "running": None, "new": "/srv", "proven": None},
    ]


def test_what_is_around_the_command_counts_too() -> None:
    docker = {"tool": "docker", "image": "img:1", "options": ["-v", "/a:/a", "--rm", "--volume=/b:/b", "-p8000:1"]}
    left = settings_of(["numactl", "-N", "0", "-m", "0", "python", "-m", "x", "--tp", "2"], {}, "")
    right = settings_of(["python", "-m", "x", "--tp", "2"], {}, "", docker)
    assert compare(left, right, None) == [
        {"flag": "started by", "running": "numactl -N 0 -m 0", "new": None, "proven": None},
        {"flag": "image", "running": None, "new": "img:1", "proven": None},
        {"flag": "container by", "running": None, "new": "docker", "proven": None},
        {"flag": "docker --volume", "running": None, "new": "/a:/a, /b:/b", "proven": None},
        {"flag": "docker --rm", "running": None, "new": "(set)", "proven": None},
        {"flag": "docker --publish", "running": None, "new": "8000:1", "proven": None},
    ]
