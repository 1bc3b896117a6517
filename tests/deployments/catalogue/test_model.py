"""What a host tells of its flags is taken for what anybody there may have written."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest

from deployments.catalogue import script
from deployments.catalogue.model import BadAnswer, Flag, catalogue_from, flags_from
from deployments.catalogue.program import Program
from tests.deployments.catalogue.samples import SGLANG

PROGRAM = Program("sglang", "python", "python", (), ("-m", "sglang.launch_server", "--help"))


def test_what_is_stored_reads_back_the_same() -> None:
    plain = json.loads(json.dumps([flag.plain() for flag in SGLANG.flags]))
    assert flags_from(plain) == SGLANG.flags


@pytest.mark.parametrize(
    "told",
    [
        None,
        {},
        [],
        [1],
        [{"names": []}],
        [{"names": ["--x; rm"]}],
        [{"names": ["--" + "x" * 200]}],
        [{"names": ["model"]}],
        [{"names": ["--x"]}] * 3001,
    ],
)
def test_what_no_engine_has_is_refused(told: Any) -> None:
    with pytest.raises(BadAnswer):
        flags_from(told)


def test_texts_lose_what_is_not_text_and_what_is_too_long() -> None:
    (flag,) = flags_from(
        [
            {
                "names": ["--x"],
                "help": "a\x1b[31m\u202eb\n c" + "d" * 2000,
                "takes": "999",
                "choices": [{}],
                "default": [],
            }
        ]
    )
    assert flag.help.startswith("a [31m b c") and len(flag.help) == 600
    assert (flag.takes, flag.choices, flag.has_default) == ("1", None, False)


def test_a_catalogue_of_an_odd_answer_is_not_sure() -> None:
    made = catalogue_from("sglang", {"arguments": [{"names": ["--x"]}], "gaps": 3, "version": 7})
    assert not made.is_sure and made.version == ""


JUNK = (
    None,
    True,
    -1,
    1e300,
    "",
    "\0",
    "x" * 70_000,
    [],
    [[]],
    {},
    {"names": None},
    {"names": ["--x"]},
    [{"names": [3]}],
)


@pytest.mark.parametrize("junk", JUNK, ids=lambda junk: repr(junk)[:20])
def test_any_answer_is_flags_or_refused(junk: Any) -> None:
    keys = ("takes", "type", "choices", "default", "help", "required", "instead", "refused")
    for told in (junk, [junk], {"names": junk}, [{"names": junk}], [{"names": ["--x"], **dict.fromkeys(keys, junk)}]):
        with contextlib.suppress(BadAnswer):
            assert all(isinstance(flag, Flag) and len(flag.help) <= 600 for flag in flags_from(told))


# --- The frame around it


def answer(lines: str, *, end: bool = True) -> script.Told:
    made = script.build(PROGRAM)
    text = lines.replace("@", f"@{made.token} ") + (f"@{made.token} end\n" if end else "")
    return script.read_answer(made, text.encode())


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("", "says nothing"),
        ("@none There is no program python.\n", "There is no program python."),
        ("@{cut\n", "cannot be read"),
        ("@[1]\n", "says nothing"),
        ("@{" + '"a":' * 10 + "\n", "cannot be read"),
    ],
)
def test_an_answer_that_is_none_has_a_reason(lines: str, reason: str) -> None:
    assert reason in answer(lines).reason


def test_a_cut_or_endless_answer_is_not_read() -> None:
    assert "cut" in answer('@{"arguments": []}\n', end=False).reason
    assert "far larger" in answer('@{"x": "' + "y" * 4_000_000 + '"}\n').reason


def test_noise_around_an_answer_does_no_harm() -> None:
    assert answer('Welcome!\n@{"version": "1"}\nwarning\n').data == {"version": "1"}
    assert answer("@help\n  --x X  help\n").help.strip() == "--x X  help"


def test_values_are_quoted_and_no_value_is_in_argv() -> None:
    odd = Program("sglang", "python", "py'; touch /tmp/x #", (), ("--help",), surroundings=(("PYTHONPATH", "$(id)"),))
    text = script.build(odd).stdin.decode()
    assert "export PYTHONPATH='$(id)'" in text and "PROGRAM='py'\"'\"'; touch /tmp/x #'" in text
