"""Figures in words, beside the proven ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deployments.benchmark.compared import Cell, in_words, per_second, side_by_side
from deployments.benchmark.figures import Level, Spread

PROVEN = Level(
    at_once=8,
    answered=16,
    failed=0,
    seconds=2.0,
    tokens=1024,
    tokens_per_second=512.0,
    each=Spread(64.0, 60.0, 70.0),
    first=Spread(0.2, 0.1, 0.4),
    between=Spread(0.015, 0.015, 0.015),
    acceptance=Spread(3.2, 3.0, 3.5),
)
SLOW = replace(PROVEN, tokens_per_second=256.0, first=Spread(0.5, 0.2, 1.2), acceptance=Spread(1.6, 1.5, 1.7))


def cells(now: Level, then: Level | None = None) -> dict[str, Cell]:
    (row,) = side_by_side([now], [then] if then else [])
    return {cell.label: cell for cell in row.cells}


def test_what_is_slower_than_proven_is_named() -> None:
    found = cells(SLOW, PROVEN)
    assert found["Tokens per second"] == Cell("Tokens per second", "256.0", "", "512.0", "-50 %", worse=True)
    first = found["First token"]
    assert (first.text, first.spread, first.then, first.change, first.worse) == (
        "500 ms", "200 to 1,200", "200 ms", "2.5 times", True,
    )  # fmt: skip
    assert (found["Acceptance length"].text, found["Acceptance length"].then) == ("1.60", "3.20")


def test_what_is_faster_is_not_worse() -> None:
    assert not any(cell.worse for cell in cells(PROVEN, SLOW).values())


def test_small_differences_are_none() -> None:
    found = cells(replace(PROVEN, tokens_per_second=500.0), PROVEN)["Tokens per second"]
    assert (found.change, found.worse) == ("about the same", False)


def test_what_nobody_told_is_said_so_and_never_worse() -> None:
    found = cells(replace(PROVEN, acceptance=None), PROVEN)["Acceptance length"]
    assert (found.text, found.then, found.change, found.worse) == ("not told", "3.20", "", False)


def test_a_figure_that_nobody_ever_told_has_no_column() -> None:
    silent = replace(PROVEN, acceptance=None)
    assert "Acceptance length" not in cells(silent) and "Acceptance length" not in cells(silent, silent)
    assert [cell.label for cell in side_by_side([silent, replace(PROVEN, at_once=32)])[0].cells][
        -1
    ] == "Acceptance length"


def test_a_level_that_was_not_measured_then_stands_alone() -> None:
    assert cells(PROVEN, replace(PROVEN, at_once=32))["Tokens per second"].then == ""


@pytest.mark.parametrize(("rate", "words"), [(None, "not told"), (79.52, "79.5 tokens/s"), (2140.7, "2,141 tokens/s")])
def test_rates(rate: float | None, words: str) -> None:
    assert per_second(rate) == words


def test_in_words() -> None:
    one = replace(PROVEN, at_once=1, tokens_per_second=79.5, acceptance=None)
    assert in_words([one, PROVEN]) == "1 at once: 79.5 tokens/s; 8 at once: 512.0 tokens/s; acceptance length 3.20"
