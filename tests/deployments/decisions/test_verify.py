"""Free, not free, could not measure: what was not measured never counts as free."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.decisions.verify import (
    CLEAN_ROUNDS,
    CardSeen,
    Free,
    HolderSeen,
    KeepLooking,
    NotFree,
    Round,
    Unmeasured,
    Verdict,
    VerifyPolicy,
    Waiting,
    decide,
    limit_for,
    waiting_for,
)

POLICY = VerifyPolicy(memory_seconds=30, stuck_seconds=120, port_seconds=10)
CARD = CardSeen("GPU-1", "GPU 0", 4, 68)
FULL = replace(CARD, used_mib=83_501)
SILENT = replace(CARD, used_mib=None, reason="nvidia-smi hangs")
SHARED = CardSeen("GPU-2", "GPU 1", 60_000, 68, shared=True, free_mib=20_000, need_mib=20_000)
PYTHON = HolderSeen(77, 500, "python3", "root", ("GPU 0",))
CLEAN = Round(cards=(CARD,), survivors=(), holders=(), port_free=True)

DIRTY = {
    "memory": replace(CLEAN, cards=(FULL,)),
    "one of two cards": replace(CLEAN, cards=(CARD, FULL)),
    "memory unmeasured": replace(CLEAN, cards=(SILENT,)),
    "one card unmeasured": replace(CLEAN, cards=(CARD, SILENT)),
    "survivor": replace(CLEAN, survivors=(42,)),
    "survivors unmeasured": replace(CLEAN, survivors=None),
    "holder": replace(CLEAN, holders=(PYTHON,)),
    "port taken": replace(CLEAN, port_free=False),
    "port unmeasured": replace(CLEAN, port_free=None),
    "port taken by": replace(CLEAN, port_free=False, port_note="Port 1 is taken: x."),
    "port unmeasured for": replace(CLEAN, port_free=None, port_note="The host did not say."),
}


def test_three_clean_rounds_in_a_row_are_free() -> None:
    assert decide([CLEAN] * CLEAN_ROUNDS, POLICY, elapsed=0.3) == Free()


@pytest.mark.parametrize("count", [0, 1, 2])
def test_fewer_are_not(count: int) -> None:
    assert decide([CLEAN] * count, POLICY, elapsed=0.3) == KeepLooking(False)


@pytest.mark.parametrize("dirty", DIRTY.values(), ids=DIRTY.keys())
@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_round_that_is_not_clean_begins_the_count_anew(dirty: Round, place: int) -> None:
    rounds = [CLEAN] * CLEAN_ROUNDS
    rounds[place] = dirty
    assert not isinstance(decide(rounds, POLICY, elapsed=0.3), Free)
    assert decide([*rounds, *[CLEAN] * CLEAN_ROUNDS], POLICY, elapsed=0.3) == Free()


def test_holders_that_we_may_not_see_do_not_count_against_free_memory() -> None:
    assert decide([replace(CLEAN, holders=None)] * 3, POLICY, elapsed=0.3) == Free()


@pytest.mark.parametrize(
    ("dirty", "elapsed", "verdict"),
    [
        ("memory", 29, KeepLooking(False)),
        ("memory", 31, KeepLooking(True)),
        ("memory", 119, KeepLooking(True)),
        ("memory", 120, NotFree(("GPU 0 still holds 83,501 MiB (limit 68 MiB).",))),
        ("memory unmeasured", 29, KeepLooking(False)),
        ("memory unmeasured", 30, Unmeasured(("GPU 0: nvidia-smi hangs",))),
        ("holder", 4.9, KeepLooking(False)),
        ("holder", 5, NotFree(("python3 (pid 77, root) holds GPU 0.",))),
        ("survivor", 29, KeepLooking(False)),
        ("survivor", 30, NotFree(("Processes of the old server still live: 42.",))),
        ("survivors unmeasured", 30, Unmeasured(("Whether the old server's processes live could not be measured.",))),
        ("port taken", 9.9, KeepLooking(False)),
        ("port taken", 10, NotFree(("The port is still taken.",))),
        ("port taken by", 10, NotFree(("Port 1 is taken: x.",))),
        ("port unmeasured for", 30, Unmeasured(("The host did not say.",))),
        ("port unmeasured", 30, Unmeasured(("Whether the port is free could not be measured.",))),
    ],
)
def test_after_its_limit_it_is_said_what_is_in_the_way(dirty: str, elapsed: float, verdict: Verdict) -> None:
    assert decide([DIRTY[dirty]], POLICY, elapsed=elapsed) == verdict


@pytest.mark.parametrize(
    ("dirty", "words", "seconds"),
    [
        ("memory", "GPU 0 to release 83,501 MiB", 120),
        ("memory unmeasured", "what could not be measured", 30),
        ("survivor", "the old server's processes to end", 30),
        ("port taken", "the port to be free", 10),
    ],
)
def test_what_is_waited_for_and_how_long(dirty: str, words: str, seconds: float) -> None:
    assert waiting_for(DIRTY[dirty], POLICY) == Waiting(words, seconds)
    assert not isinstance(decide([DIRTY[dirty]], POLICY, elapsed=seconds), KeepLooking)


@pytest.mark.parametrize("round_", [CLEAN, DIRTY["holder"]], ids=["clean", "somebody is asked within seconds"])
def test_where_nobody_has_to_wait_long_nothing_is_said(round_: Round) -> None:
    assert waiting_for(round_, POLICY) is None


BESIDE = replace(CLEAN, cards=(CARD, SHARED))
NOT_BESIDE = {
    "too little free": replace(BESIDE, cards=(CARD, replace(SHARED, free_mib=19_999))),
    "free unmeasured": replace(BESIDE, cards=(replace(SHARED, free_mib=None, reason="no answer"),)),
    "used unmeasured": replace(BESIDE, cards=(replace(SHARED, used_mib=None, reason="no answer"),)),
    "need unknown": replace(BESIDE, cards=(replace(SHARED, need_mib=None),)),
    "one more": replace(BESIDE, holders=(PYTHON,)),
    "one less": replace(BESIDE, missing=("embed (pid 7)",)),
    "one less, nothing shared any more": replace(CLEAN, missing=("embed (pid 7)",)),
    "holders unseen": replace(BESIDE, holders=None, holders_note="No sudo."),
}


def test_beside_the_co_tenants_of_the_plan_with_room_enough_it_is_free() -> None:
    assert decide([BESIDE] * 3, POLICY, elapsed=0.3) == Free()
    nothing_to_launch = replace(BESIDE, cards=(replace(SHARED, free_mib=0, need_mib=0),))
    assert decide([nothing_to_launch] * 3, POLICY, elapsed=0.3) == Free()


@pytest.mark.parametrize("dirty", NOT_BESIDE.values(), ids=NOT_BESIDE.keys())
def test_on_a_shared_card_all_of_it_must_be_right(dirty: Round) -> None:
    assert not dirty.is_clean
    assert not isinstance(decide([dirty] * 3, POLICY, elapsed=0.3), Free)
    assert isinstance(decide([dirty] * 3, POLICY, elapsed=500), NotFree | Unmeasured)


@pytest.mark.parametrize(
    ("dirty", "elapsed", "verdict"),
    [
        ("too little free", 119, KeepLooking(True)),
        (
            "too little free",
            120,
            NotFree(("GPU 1 has 19,999 MiB free beside its co-tenants; 20,000 MiB are needed.",)),
        ),
        ("free unmeasured", 30, Unmeasured(("GPU 1: no answer",))),
        ("need unknown", 4.9, KeepLooking(False)),
        (
            "need unknown",
            5,
            Unmeasured(("GPU 1: how much memory this revision needs there, beside the co-tenants, is not known",)),
        ),
        (
            "one less",
            5,
            NotFree(("embed (pid 7) shared the cards when the plan was made, and does so no more.",)),
        ),
        ("holders unseen", 30, Unmeasured(("Who holds the cards beside the co-tenants is not known. No sudo.",))),
    ],
)
def test_what_is_in_the_way_on_a_shared_card(dirty: str, elapsed: float, verdict: Verdict) -> None:
    assert decide([NOT_BESIDE[dirty]], POLICY, elapsed=elapsed) == verdict


def test_no_reading_at_all() -> None:
    assert decide([], POLICY, elapsed=29) == KeepLooking(False)
    assert decide([], POLICY, elapsed=30) == Unmeasured(("No reading has come back.",))


def test_what_is_in_the_way_is_said_before_what_is_unknown() -> None:
    verdict = decide([replace(CLEAN, cards=(FULL, SILENT))], POLICY, elapsed=120)
    assert verdict == NotFree(("GPU 0 still holds 83,501 MiB (limit 68 MiB).", "GPU 0: nvidia-smi hangs"))


def test_the_limit_of_a_card() -> None:
    assert limit_for(None) == 64
    assert limit_for(0) == 64
    assert limit_for(412) == 476
    assert limit_for(412, tolerance_mib=0) == 412
    assert limit_for(None, tolerance_mib=500) == 64, "what was never learnt is not widened"
    assert limit_for(None, ceiling_mib=1024) == 1024


amounts = st.none() | st.integers(0, 96_000)
cards = st.builds(
    CardSeen,
    st.just("GPU-1"),
    st.just("GPU 0"),
    amounts,
    st.integers(0, 1_000),
    shared=st.booleans(),
    free_mib=amounts,
    need_mib=amounts,
)
rounds = st.builds(
    Round,
    cards=st.lists(cards, min_size=1, max_size=3).map(tuple),
    survivors=st.sampled_from([(), (), (42,), None]),
    holders=st.sampled_from([(), (), (PYTHON,), None]),
    port_free=st.sampled_from([True, True, False, None]),
    missing=st.sampled_from([(), (), ("embed",)]),
)


def room(card: CardSeen) -> bool:
    if card.used_mib is None:
        return False
    if card.shared:
        return card.free_mib is not None and card.need_mib is not None and card.free_mib >= card.need_mib
    return card.used_mib <= card.limit_mib


@pytest.mark.slow
@given(st.lists(rounds, max_size=5), st.floats(0, 500))
def test_free_only_after_three_rounds_in_which_everything_needed_was_measured_and_good(
    seen: list[Round], elapsed: float
) -> None:
    verdict = decide(seen, POLICY, elapsed=elapsed)
    good = [
        all(room(card) for card in one.cards)
        and one.survivors == ()
        and (one.holders == () or (one.holders is None and not any(card.shared for card in one.cards)))
        and one.missing == ()
        and one.port_free is True
        for one in seen[-3:]
    ]
    assert isinstance(verdict, Free) == (len(good) == 3 and all(good))
    if isinstance(verdict, NotFree | Unmeasured):
        assert verdict.reasons
