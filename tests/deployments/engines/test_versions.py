"""Versions as people write them, and whether an installed one is among them."""

import pytest

from deployments.engines.versions import is_among, program_with_version, stated


@pytest.mark.parametrize(
    ("installed", "text", "among"),
    [
        ("0.5.9", "0.5.10 or newer", False),
        ("0.5.10", "0.5.10 or newer", True),
        ("0.5.10.post1", ">=0.5.10", True),
        ("0.6", ">= 0.5.10", True),
        ("0.5.9", "0.5.10+", False),
        ("0.10.0", "0.9.2 or newer", True),
        ("0.5.11", "0.5.11", True),
        ("0.5.11.post2", "0.5.11", True),
        ("0.5.12", "0.5.11", False),
        ("0.5.9", "0.5.9, 0.5.11 or newer", True),
        ("0.5.10", "0.5.9, 0.5.11 or newer", False),
        ("0.5.14", "0.5.10 - 0.5.14", True),
        ("0.5.14.post1", "0.5.10 - 0.5.14", True),
        ("0.5.15", "0.5.10 to 0.5.14", False),
        ("0.5.9", "0.5.10..0.5.14", False),
        ("0.19.1+cu130", "0.19", True),
        ("b4242-abcdef", "b4200 or newer", True),
        ("b4100", "b4200 or newer", False),
        ("main", "0.5.10", None),
        ("", "0.5.10", None),
        ("0.5.9", "", None),
    ],
)
def test_is_among(installed: str, text: str, among: bool | None) -> None:
    assert is_among(installed, text) is among


@pytest.mark.parametrize("text", ["newest", "0.5.x", ">0.5.9 maybe", "0.5.14 - 0.5.10", "0.5.9; 0.5.10"])
def test_what_cannot_be_read_is_said(text: str) -> None:
    with pytest.raises(ValueError, match="Write a version"):
        stated(text)


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("/opt/x/bin/python3.12 -m sglang.launch_server", "/opt/x/bin/python3.12"),
        ("numactl -N 0 python -m sglang.launch_server", "python"),
        ("/venv/bin/sglang serve --model-path m", "/venv/bin/sglang"),
        ("./run.sh --model m", None),
    ],
)
def test_program_with_version(command: str, program: str | None) -> None:
    assert program_with_version(command.split(), "sglang") == program
