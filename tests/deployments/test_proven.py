"""What a proven launch ran with, and what has moved since."""

from __future__ import annotations

from typing import Any

import pytest

from deployments.proven import cards_in_words, moved, not_known, ran_with

CARDS = [
    {"uuid": "GPU-a", "label": "GPU 0", "name": "NVIDIA L40S"},
    {"uuid": "GPU-b", "label": "GPU 1", "name": "NVIDIA L40S"},
]
THEN = ran_with(
    effective={"version": "0.5.9"},
    requested={"container": {"image": "lmsysorg/sglang:v0.5.9"}},
    model={"path": "/models/qwen", "print": "aaaa"},
    cards=CARDS,
)


def now(**values: Any) -> dict[str, Any]:
    return {**THEN, **values}


def test_nothing_has_moved() -> None:
    assert moved(THEN, THEN) == [] == not_known(THEN)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"engine": "0.5.11"}, "The engine was 0.5.9 when it was proven; it is 0.5.11 now."),
        (
            {"image": "lmsysorg/sglang:v0.6"},
            "It was proven with the image lmsysorg/sglang:v0.5.9; it is lmsysorg/sglang:v0.6 now.",
        ),
        (
            {"model": {"path": "/models/qwen", "print": "bbbb"}},
            "The files of the model at /models/qwen are not those with which it was proven.",
        ),
        (
            {"cards": CARDS[1:]},
            "It was proven on GPU 0, GPU 1 (NVIDIA L40S); it has GPU 1 (NVIDIA L40S) now.",
        ),
    ],
)
def test_what_has_moved_is_named(values: dict[str, Any], sentence: str) -> None:
    assert moved(THEN, now(**values)) == [sentence]


@pytest.mark.parametrize(
    "values",
    [
        {"engine": ""},
        {"image": ""},
        {"model": {}},
        {"model": {"path": "/models/qwen", "unknown": "The panel's login may not read it."}},
        {"model": {"path": "/models/other", "print": "bbbb"}},  # the flags say that
        {"cards": []},
        {"cards": CARDS[::-1]},
    ],
)
def test_what_is_not_told_has_not_moved(values: dict[str, Any]) -> None:
    assert moved(THEN, now(**values)) == [] == moved(now(**values), THEN)


def test_what_was_not_known_then_is_said() -> None:
    bare = ran_with(effective={}, requested={}, model={}, cards=[])
    assert not_known(bare) == ["the engine's version", "the model's files (its model is not a path on the host)"]
    refused = now(model={"path": "/m", "unknown": "The panel's login may not read /m."})
    assert not_known(refused) == ["the model's files (The panel's login may not read /m)"]
    assert not_known(now(engine="")) == [], "the image tells its version"
    assert moved(bare, THEN) == []


def test_cards_of_two_kinds() -> None:
    mixed = [*CARDS[:1], {"uuid": "GPU-c", "label": "GPU 2", "name": "NVIDIA H100"}]
    assert cards_in_words({"cards": mixed}) == "GPU 0, GPU 2 (NVIDIA L40S, NVIDIA H100)"
    assert cards_in_words({"cards": [{"uuid": "GPU-x", "label": "GPU-x", "name": ""}]}) == "GPU-x"
    assert cards_in_words({}) == ""
