"""The plan warns of an engine's version with which the recipe was not tried."""

from dataclasses import replace
from typing import Any

import pytest

from hosts.probe.frames import Unknown
from tests.deployments.machine import serving_machine
from tests.deployments.plan.test_plan import NEW, plan

STATED = replace(NEW, engine_versions="0.5.10 or newer")


def warned(**values: Any) -> list[str]:
    made = plan(serving_machine(), **values)
    return [warning["text"] for warning in made.data["warnings"] if "known to be good" in warning["text"]]


@pytest.mark.parametrize(
    ("installed", "words"),
    [
        ("0.5.9", "qwen r2 is known to be good with SGLang 0.5.10 or newer; 0.5.9, which gpu1 has, is not among them."),
        ("main", "main, which gpu1 has, cannot be compared with them."),
        (Unknown("python3 is not there."), "installed on gpu1 is not known: python3 is not there."),
    ],
)
def test_another_version_is_warned_of(installed: str | Unknown, words: str) -> None:
    (text,) = warned(new=STATED, engine_version=installed)
    assert words in text
    assert not plan(serving_machine(), new=STATED, engine_version=installed).data["blocked"]


def test_a_version_that_is_stated_is_not() -> None:
    assert warned(new=STATED, engine_version="0.5.11") == []
    assert warned(new=NEW, engine_version="0.5.9") == []
    assert warned(new=STATED, engine_version=None) == []
    assert warned(kind="stop", new=None, engine_version="0.5.9") == []
