"""A flag is found by what people know of it, and set in a command without touching the other words."""

from __future__ import annotations

import shlex

import pytest

from deployments.catalogue.model import Catalogue, Flag
from deployments.catalogue.setting import CannotSet, drop_flag, given, search, set_flag
from tests.deployments.catalogue.samples import SGLANG, VLLM

LLAMA = Catalogue("llama_server", "1", "", "help", (Flag(("-c", "--ctx-size")), Flag(("-ot", "--override-tensor"))))
HELPED = Catalogue(
    "sglang", "1", "", "source",
    (Flag(("--a-b",), help="The context of it."), Flag(("--context-length", "--max-len")), Flag(("--my-context",)),
     Flag(("--dtype",), choices=("auto", "bfloat16"))),
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("context", ["--context-length", "--my-context", "--a-b"]),
        ("--max_len", ["--context-length"]),
        ("CONTEXT of", ["--a-b"]),
        ("bfloat", ["--dtype"]),
        ("nothing like it", []),
        ("--", []),
        ("", []),
    ],
)
def test_a_flag_is_found_by_name_choice_and_help(text: str, found: list[str]) -> None:
    assert [flag.name for flag in search(HELPED, text)] == found


@pytest.mark.parametrize(
    ("catalogue", "before", "name", "value", "after"),
    [
        (SGLANG, "--model-path /m", "--page-size", "64", "--model-path /m --page-size 64"),
        (SGLANG, "--page-size 32 --model-path /m", "--page-size", " 64 ", "--page-size 64 --model-path /m"),
        (SGLANG, "--page-size=32 --model-path /m", "--page-size", "64", "--page-size 64 --model-path /m"),
        (SGLANG, "--page-s 32 --model /m", "--page-size", "64", "--page-size 64 --model /m"),
        (
            SGLANG,
            "--page-size 1 --model /m --page-size 2",
            "--page-size",
            "3",
            "--page-size 1 --model /m --page-size 3",
        ),
        (SGLANG, "--cuda-graph-bs 1 2 --old", "--cuda-graph-bs", "1 2 4", "--cuda-graph-bs 1 2 4 --old"),
        (SGLANG, "--hf-config '{}'", "--hf-config", '{"a b": 1}', """--hf-config '{"a b": 1}'"""),
        (SGLANG, "", "--disable-radix-cache", "ignored", "--disable-radix-cache"),
        (SGLANG, "--sleep-on-idle --old", "--no-sleep-on-idle", "", "--no-sleep-on-idle --old"),
        (SGLANG, "", "--served-model-name", "--odd", "--served-model-name=--odd"),
        (SGLANG, "", "--random-seed", "-1", "--random-seed -1"),
        (VLLM, "/m -tp 2 --seed 1", "--tensor-parallel-size", "4", "/m --tensor-parallel-size 4 --seed 1"),
        (LLAMA, "-c 1", "--override-tensor", "-x", "-c 1 --override-tensor -x"),
    ],
)
def test_a_flag_is_set_in_its_place_or_at_the_end(
    catalogue: Catalogue, before: str, name: str, value: str, after: str
) -> None:
    words = shlex.split(before)
    assert set_flag(words, catalogue, name, value) == shlex.split(after)
    assert words == shlex.split(before)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("--page-size", "  ", "Write a value"),
        ("--cuda-graph-bs", "", "at least one value"),
        ("--cuda-graph-bs", '1 "2', "not closed"),
        ("--rope", "1", "takes 2 values"),
        ("--nobody", "1", "no flag of this engine"),
    ],
)
def test_a_value_that_is_none_is_refused_in_words(name: str, value: str, why: str) -> None:
    two = Catalogue("sglang", "1", "", "source", (*SGLANG.flags, Flag(("--rope",), takes="2")))
    with pytest.raises(CannotSet, match=why):
        set_flag([], two, name, value)


def test_a_flag_is_taken_out_however_often_it_is_there() -> None:
    words = shlex.split("--old --page-size 1 --model /m --page-size=2 --no-sleep-on-idle")
    assert drop_flag(words, SGLANG, "--page-size") == ["--old", "--model", "/m", "--no-sleep-on-idle"]
    assert drop_flag(words, SGLANG, "--sleep-on-idle") == words[:-1]
    assert drop_flag(words, SGLANG, "--config") == words


def test_what_the_command_has_is_told_in_its_order() -> None:
    found = given(shlex.split("--tp-size 2 --model /m --tp-size 4"), SGLANG)
    assert list(found) == ["--tensor-parallel-size", "--model-path"]
    assert found["--tensor-parallel-size"].values == ("4",)
