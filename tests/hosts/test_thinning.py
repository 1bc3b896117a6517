"""Thinning: whatever is read, a peak is still there in every coarser step, and the room it takes is bounded."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hosts.history.thinning import BUCKETS, STEPS, Block, Unreadable, block_start, pack, step_for, thin, unpack, widen

START = block_start(1_800_000_123, 60)
readings = st.lists(st.tuples(st.integers(0, 3599), st.integers(0, 200_000)), min_size=1, max_size=40)
few = settings(max_examples=40, deadline=None)


def fine(found: list[tuple[int, int]]) -> dict[int, tuple[int, int]]:
    buckets: dict[int, tuple[int, int]] = {}
    for offset, used in found:
        widen(buckets, START + offset, (used, used))
    return buckets


@few
@given(found=readings, step=st.sampled_from(STEPS))
def test_every_step_keeps_the_least_and_the_most_of_its_time(found: list[tuple[int, int]], step: int) -> None:
    coarse = thin(fine(found), step)
    for at, (least, most) in coarse.items():
        within = [used for offset, used in found if at <= START + offset < at + step]
        assert (least, most) == (min(within), max(within))
    assert all(at % step == 0 for at in coarse)
    assert len(coarse) == len({(START + offset) // step for offset, _ in found}), (
        "one bucket for each step with a reading"
    )


@few
@given(found=readings)
def test_thinned_in_two_goes_or_in_one_it_is_the_same(found: list[tuple[int, int]]) -> None:
    assert thin(thin(fine(found), 10), 60) == thin(fine(found), 60)


@few
@given(found=readings)
def test_what_was_taken_in_twice_counts_once(found: list[tuple[int, int]]) -> None:
    minute, hour = Block(10, START), Block(60, START)
    minute.cards["GPU-a"] = {at: value for at, value in thin(fine(found), 10).items() if at < START + 600}
    hour.absorb(minute)
    once = {uuid: dict(buckets) for uuid, buckets in hour.cards.items()}
    hour.absorb(minute)
    assert hour.cards == once


@few
@given(found=readings, step=st.sampled_from(STEPS))
def test_a_block_comes_back_as_it_was_stored(found: list[tuple[int, int]], step: int) -> None:
    block = Block(step, START)
    for offset, used in found:
        block.add("GPU-a", START + offset * step // 60, (used // 2, used))
    assert unpack(step, START, pack(block)) == block


def test_a_block_has_sixty_buckets_however_often_is_read() -> None:
    block = Block(1, START)
    for second in range(60):
        for used in range(5):
            block.add("GPU-a", START + second, (used, used))
    assert len(block.cards["GPU-a"]) == BUCKETS
    with pytest.raises(ValueError, match="not in the block"):
        block.add("GPU-a", START + 60, (1, 1))


def test_a_day_of_noise_on_eight_cards_stays_small() -> None:
    """Cards whose memory changes each second by as much as it can: an hour of minutes is under 5 KB."""
    block = Block(60, START)
    for minute in range(60):
        for card in range(8):
            least = (minute * 7919 + card * 104_729) % 90_000
            block.add(f"GPU-{card}", START + 60 * minute, (least, least + minute * 131))
    assert len(pack(block)) < 5000


@pytest.mark.parametrize("stored", [b"", b"x", pack(Block(1, START))[:-3], b"x\x9c\x03\x00\x00\x00\x00\x01"])
def test_what_is_no_block_is_said_to_be_none(stored: bytes) -> None:
    with pytest.raises(Unreadable):
        unpack(1, START, stored)


@pytest.mark.parametrize(("seconds", "step"), [(900, 1), (1500, 1), (1501, 2), (86400, 60), (30 * 86400, 1800)])
def test_the_step_of_a_window(seconds: int, step: int) -> None:
    assert step_for(seconds, 1500) == step
