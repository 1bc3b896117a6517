"""A plan says what the installed engine makes of the flags, and stands in the way only of what is sure to fail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from deployments.catalogue.model import Catalogue
from deployments.catalogue.validate import check
from deployments.plan.flagcheck import FlagCheck
from tests.deployments.catalogue.samples import SGLANG
from tests.deployments.machine import serving_machine
from tests.deployments.plan.test_plan import blocking, plan

HELP = replace(SGLANG, source="help")
GAPS = replace(SGLANG, gaps=("for x in y",))


def checked(words: str, catalogue: Catalogue = SGLANG) -> FlagCheck:
    return FlagCheck(tuple(check(["--model-path", "/m", *words.split()], catalogue)), catalogue, "SGLang")


def flags_row(made: Any) -> dict[str, str] | None:
    return next((row for row in made.data["sections"][0]["rows"] if row["label"] == "Flags"), None)


@pytest.mark.parametrize("words", ["--zzz", "--kv-cache-dtype fp16", "--tp-size x"])
def test_what_the_installed_engine_refuses_for_sure_blocks_before_anything_is_stopped(words: str) -> None:
    made = plan(serving_machine(), flags=checked(words))
    assert len(blocking(made)) == 1 and made.data["blocked"]
    (warning,) = (one for one in made.data["warnings"] if one["blocks"])
    assert "cannot start" in warning["why"] and "new revision" in warning["todo"]
    assert flags_row(made) == {
        "label": "Flags", "value": "1 wrong", "status": "not ok",
        "detail": "checked against SGLang 0.5.11 of /srv/venv/bin/python3, 32 flags, read from its source",
    }  # fmt: skip


@pytest.mark.parametrize("catalogue", [HELP, GAPS])
@pytest.mark.parametrize("words", ["--zzz", "--kv-cache-dtype fp16"])
def test_where_the_list_may_not_be_whole_it_is_only_a_warning(words: str, catalogue: Catalogue) -> None:
    made = plan(serving_machine(), flags=checked(words, catalogue))
    assert not made.data["blocked"] and len(made.data["warnings"]) == 1
    assert flags_row(made)["value"] == "look at the warnings"  # type: ignore[index]


def test_flags_that_contradict_each_other_warn() -> None:
    made = plan(serving_machine(), flags=checked("--mamba-scheduler-strategy extra_buffer --disable-radix-cache"))
    assert not made.data["blocked"]
    assert "needs the radix cache" in made.data["warnings"][0]["text"]


def test_what_only_a_writer_wants_to_know_is_not_in_a_plan() -> None:
    made = plan(serving_machine(), flags=checked("--tensor-par 2 --old"))
    assert made.data["warnings"] == [] and flags_row(made)["value"] == "known"  # type: ignore[index]


def test_not_checked_is_told_with_its_reason_and_is_no_warning() -> None:
    made = plan(serving_machine(), flags=FlagCheck(reason="SGLang is not installed for /usr/bin/python3."))
    assert made.data["warnings"] == [] and not made.data["blocked"]
    row = flags_row(made)
    assert row is not None and (row["value"], row["status"]) == ("not checked", "unknown")
    assert row["detail"].startswith("SGLang is not installed")


def test_nothing_is_said_where_nothing_is_launched() -> None:
    made = plan(serving_machine(), kind="stop", new=None, flags=checked("--zzz"))
    assert not made.data["blocked"] and made.data["warnings"] == []
    assert flags_row(plan(serving_machine())) is None
