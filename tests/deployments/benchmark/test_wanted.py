"""What may be asked for."""

from __future__ import annotations

import pytest

from deployments.benchmark.wanted import Wanted, levels_from, prompt, requests_at


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("1, 8, 32", (1, 8, 32)),
        ("32 8;1,", (1, 8, 32)),
        ("8,8", (8,)),
        (" 4 ", (4,)),
        ("256", (256,)),
    ],
)
def test_levels(text: str, levels: tuple[int, ...]) -> None:
    assert levels_from(text) == levels


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "whole numbers"),
        ("1, many", "whole numbers"),
        ("-1", "whole numbers"),
        ("1.5", "whole numbers"),
        ("٣", "whole numbers"),
        ("0", "from 1 to 256"),
        ("257", "from 1 to 256"),
        ("1 2 3 4 5 6 7 8 9", "at most 8"),
    ],
)
def test_what_cannot_be_a_level_is_refused_in_words(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        levels_from(text)


def test_each_place_is_filled_twice_and_one_at_a_time_three_times() -> None:
    assert [requests_at(at_once) for at_once in (1, 2, 8, 32)] == [3, 4, 16, 64]
    assert Wanted().requests == 1 + 3 + 16 + 64


def test_no_prompt_begins_like_another() -> None:
    prompts = [prompt(run, number) for run in ("ab", "ab-8", "cd") for number in range(30)]
    assert len({text.partition(":")[0] for text in prompts}) == len(prompts)
