"""Ready is what the server says in its own log, on its own socket."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.decisions.readiness import Listener, Readiness, limit, usual
from deployments.engines.registry import ENGINES

SGLANG = ENGINES["sglang"].ready
LOG = (
    "[2026-01-01] loading\nINFO: Uvicorn running on http://0.0.0.0:30000 (Press CTRL+C to quit)\n"
    "The server is fired up and ready to roll!\n"
)


@pytest.mark.parametrize("listener", Listener)
def test_both_lines_and_its_own_port_are_needed(listener: Listener) -> None:
    readiness = Readiness(SGLANG, listener)
    assert not readiness.may_be_ready
    readiness.read(LOG)
    assert readiness.said_ready
    assert readiness.may_be_ready == (listener == Listener.OURS)


@pytest.mark.parametrize("line", LOG.splitlines())
def test_one_line_alone_is_not_enough(line: str) -> None:
    readiness = Readiness(SGLANG, Listener.OURS)
    readiness.read(line)
    assert not readiness.may_be_ready


LONG = "x" * 700 + "\n" + LOG + "y" * 700


@given(st.sets(st.integers(0, len(LONG)), max_size=20))
def test_a_line_is_found_however_the_log_is_cut(cuts: set[int]) -> None:
    readiness = Readiness(SGLANG, Listener.OURS)
    ends = sorted({0, *cuts, len(LONG)})
    for begin, end in pairwise(ends):
        readiness.read(LONG[begin:end])
    assert readiness.may_be_ready


@pytest.mark.parametrize(
    ("listener", "said", "words"),
    [
        (Listener.OTHER, True, "another process"),
        (Listener.OTHER, False, "another process"),
        (Listener.NOBODY, False, "does not say ready"),
        (Listener.NOBODY, True, "nobody listens"),
    ],
)
def test_what_is_missing_is_said(listener: Listener, said: bool, words: str) -> None:
    readiness = Readiness([re.compile("ready")], listener)
    readiness.read("ready\n" if said else "loading\n")
    assert words in readiness.missing


@pytest.mark.parametrize(
    ("listener", "said", "lied"),
    [(Listener.OTHER, True, True), (Listener.OTHER, False, False), (Listener.OURS, True, False)],
)
def test_ready_with_anothers_port_is_a_lie(listener: Listener, said: bool, lied: bool) -> None:
    readiness = Readiness(SGLANG, listener)
    readiness.read("The server is fired up and ready to roll!\n" if said else "loading\n")
    assert readiness.lied == lied


@pytest.mark.parametrize(
    ("chosen", "took", "seconds"),
    [
        (None, [], 1800),
        (None, [240.0], 480),
        (None, [240.0, 230.0, 900.0], 480),
        (None, [240.0, 230.0, 900.0, 5000.0], 480),
        (None, [1200.0], 2400),
        (None, [3.0, 4.0, 5.0], 120),
        (1800, [240.0], 1800),
        (600, [240.0], 600),
        (5, [240.0], 5),
    ],
)
def test_how_long_a_start_may_take_before_it_is_asked(chosen: int | None, took: list[float], seconds: int) -> None:
    assert limit(chosen, took) == seconds


def test_what_is_usual_is_the_middle_of_the_last_three() -> None:
    assert usual([]) is None
    assert usual([10.0, 30.0, 20.0, 1000.0]) == 20.0
