"""From the moments of single answers to figures: worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deployments.benchmark.figures import Level, Sample, Spread, level, level_from, others, ratio, spread

ONE = Sample(sent=10.0, ended=14.0, first=10.5, last=13.5, first_tokens=1, tokens=31, acceptance=3.0)


def test_one_answer() -> None:
    assert ONE.rate == pytest.approx(31 / 4)
    assert ONE.wait == pytest.approx(0.5)
    assert ONE.between == pytest.approx(3.0 / 30)


@pytest.mark.parametrize(
    ("sample", "rate", "wait", "between"),
    [
        (replace(ONE, tokens=None), None, 0.5, None),  # nobody told how many
        (replace(ONE, first=None, last=None, first_tokens=None), 31 / 4, None, None),  # it came in one piece
        (replace(ONE, last=10.5, tokens=1), 1 / 4, 0.5, None),  # one token has nothing between
        (replace(ONE, first_tokens=4), 31 / 4, 0.5, 3.0 / 27),  # speculative decoding: four came at first
        (replace(ONE, first_tokens=None), 31 / 4, 0.5, None),
        (replace(ONE, ended=10.0), None, 0.5, 3.0 / 30),
        (replace(ONE, tokens=0), None, 0.5, None),
    ],
)
def test_what_is_not_known_stays_unknown(
    sample: Sample, rate: float | None, wait: float | None, between: float | None
) -> None:
    assert (sample.rate, sample.wait, sample.between) == (
        rate if rate is None else pytest.approx(rate),
        wait if wait is None else pytest.approx(wait),
        between if between is None else pytest.approx(between),
    )


def test_a_level_counts_from_its_first_request_to_the_end_of_its_last_answer() -> None:
    samples = [ONE, replace(ONE, sent=11.0, ended=16.0, first=13.0), replace(ONE, sent=10.5, ended=15.0, acceptance=2)]
    found = level(samples, at_once=3, beside=7)
    assert (found.at_once, found.answered, found.failed, found.tokens) == (3, 3, 0, 93)
    assert found.seconds == pytest.approx(6.0)
    assert found.tokens_per_second == pytest.approx(93 / 6)
    assert found.first == Spread(0.5, 0.0, 2.0)
    assert found.acceptance == Spread(3.0, 2, 3.0)
    assert found.beside == 7 and found.disturbed


@pytest.mark.parametrize(("at_once", "seconds"), [(1, 9 - 1.0), (2, 9 - 0.5)])
def test_what_a_place_waits_for_its_connection_is_not_the_servers_time(at_once: int, seconds: float) -> None:
    later = replace(ONE, sent=15.0, ended=19.0, first=15.5, last=18.5, connecting=1.0)
    found = level([replace(ONE, connecting=5.0), later], at_once=at_once, beside=None)
    assert found.seconds == pytest.approx(9.0)
    assert found.tokens_per_second == pytest.approx(62 / seconds), "before the first request nothing was measured"


def test_failed_requests_are_counted_and_give_no_figure() -> None:
    broken = Sample(sent=9.0, ended=20.0, error="status 503")
    found = level([ONE, broken], at_once=2, beside=None)
    assert (found.answered, found.failed, found.error) == (1, 1, "status 503")
    assert found.tokens == 31 and found.tokens_per_second == pytest.approx(31 / 11)
    assert found.each == Spread(*[pytest.approx(31 / 4)] * 3)


def test_a_level_without_any_answer() -> None:
    found = level([Sample(1.0, 2.0, error="refused")] * 2, at_once=2, beside=None)
    assert (found.answered, found.failed, found.tokens_per_second, found.each, found.first) == (0, 2, None, None, None)


def test_one_answer_that_does_not_tell_its_tokens_makes_the_sum_unknown() -> None:
    found = level([ONE, replace(ONE, tokens=None)], at_once=2, beside=None)
    assert found.tokens is None and found.tokens_per_second is None and found.each is not None


def test_the_acceptance_of_the_whole_is_used_where_answers_do_not_tell_theirs() -> None:
    silent = replace(ONE, acceptance=None)
    assert level([silent], at_once=1, beside=None, accepted=2.5).acceptance == Spread(2.5, 2.5, 2.5)
    assert level([ONE], at_once=1, beside=None, accepted=2.5).acceptance == Spread(3.0, 3.0, 3.0)
    assert level([silent], at_once=1, beside=None).acceptance is None


def test_a_level_is_stored_and_read_again() -> None:
    for samples in ([ONE], [Sample(1.0, 2.0, error="refused")]):
        found = level(samples, at_once=8, beside=None)
        assert level_from(found.as_data()) == found


@pytest.mark.parametrize(
    ("before", "after", "own", "expected"),
    [
        (100.0, 200.0, 100, 0),
        (100.0, 260.0, 100, 60),
        (100.0, 150.0, 100, 0),  # it counts an answer later than we do
        (None, 200.0, 100, None),
        (100.0, None, 100, None),
        (100.0, 200.0, None, None),
        (100.0, 20.0, 100, None),  # it has begun anew
    ],
)
def test_tokens_that_were_made_for_others(
    before: float | None, after: float | None, own: int | None, expected: int | None
) -> None:
    assert others(before, after, own=own) == expected


@pytest.mark.parametrize(("beside", "disturbed"), [(None, False), (0, False), (1, False), (2, True)])
def test_a_handful_of_tokens_for_others_does_not_count(beside: int | None, disturbed: bool) -> None:
    found: Level = level([replace(ONE, tokens=90)], at_once=1, beside=beside)
    assert found.disturbed is disturbed


def test_spread_and_ratio() -> None:
    assert spread([3.0, None, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0)
    assert spread([None]) is None
    assert ratio(2.0, 4.0) == 0.5
    assert ratio(None, 4.0) is ratio(2.0, None) is ratio(2.0, 0.0) is None
