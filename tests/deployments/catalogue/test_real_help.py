"""The fall-back on what the real llama-server says of itself, against its own list of its flags."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache

import pytest

from deployments.catalogue.help_text import flags_of_help
from deployments.catalogue.model import Catalogue
from deployments.catalogue.validate import check

pytestmark = pytest.mark.process


@cache
def told(word: str) -> str:
    """What the llama.cpp of the lab prints; it ends the process."""
    program = f"from lab.engines.llama_words import tell; tell({word!r})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


@cache
def catalogue() -> Catalogue:
    return Catalogue("llama_server", "", "", "help", flags_of_help(told("--help"), engine="llama_server"))


def test_every_flag_of_its_own_list_is_read_from_its_help() -> None:
    """The list that it makes for a shell's completion leaves out the forms that mean the opposite."""
    found = re.search(r'opts="([^"]*)"', told("--completion-bash"))
    assert found
    listed = set(found[1].split())
    read = set(catalogue().by_name)
    assert listed <= read and len(listed) > 300
    assert all(name.startswith("--no-") or name.startswith("-n") for name in read - listed), read - listed


def test_each_line_that_begins_with_a_dash_is_one_flag() -> None:
    heads = [line for line in told("--help").splitlines() if re.match(r"--?[A-Za-z]", line)]
    assert catalogue().count == len(heads) > 200
    assert all(flag.help for flag in catalogue().flags)


@pytest.mark.parametrize(
    ("name", "takes", "choices", "default"),
    [
        ("--ctx-size", "1", None, "0, 0 = loaded from model"),
        ("-fa", "1", ("on", "off", "auto"), None),
        ("--spec-type", "1", None, "none"),
        ("--device", "1", None, None),
        ("--cpu-range", "1", None, None),
        ("--control-vector-layer-range", "2", None, None),
        ("--metrics", "0", None, "disabled"),
        ("--no-slots", "0", None, "enabled"),
        ("--split-mode", "1", ("none", "layer", "row", "tensor"), None),
    ],
)
def test_what_they_take(name: str, takes: str, choices: tuple[str, ...] | None, default: str | None) -> None:
    flag = catalogue().by_name[name]
    assert (flag.takes, flag.choices, flag.default) == (takes, choices, default)


def test_a_command_as_people_write_it_is_known_and_a_wrong_one_is_not() -> None:
    words = "-m /m.gguf -c 8192 -ngl 99 -fa on -dev CUDA0,CUDA1 --spec-type draft-mtp -ctk q8_0 --jinja --metrics -np 4"
    assert not [each.text for each in check(words.split(), catalogue())]
    wrong = check(["-m", "/m.gguf", "--ctx-sise", "8", "--draft-max", "4"], catalogue())
    assert [each.flag for each in wrong] == ["--ctx-sise", "--draft-max"]
