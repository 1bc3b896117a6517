"""The ladder as a table, and what holds for any sequence of things that may be seen on the way."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.decisions.stop_ladder import (
    Action,
    Ask,
    CannotBeKilled,
    Gone,
    Record,
    Rung,
    Signal,
    StopPolicy,
    StopSeen,
    Wait,
    Who,
    decide,
)

ROOT, WORKER = (100, 1000), (101, 1001)
RECORD = Record("boot", ROOT, (ROOT, WORKER))
KILLS = StopPolicy(term_seconds=20, kill_seconds=10)
ASKS = StopPolicy(term_seconds=20, kill_seconds=10, by_itself=Rung.TERM)
FAR = StopPolicy(term_seconds=20, kill_seconds=10, by_itself=Rung.NODE_KILL)
BOTH, ONE, NOBODY = {100: "S", 101: "R"}, {101: "S"}, dict[int, str]()
STUCK = {100: "D", 101: "D"}


def seen(
    rung: Rung, elapsed: float, alive: Mapping[int, str] = BOTH, *, confirmed: Rung | None = None, node: bool = False
) -> StopSeen:
    return StopSeen(alive, rung, elapsed, frozenset([confirmed] if confirmed else []), node)


@pytest.mark.parametrize(
    ("state", "policy", "action"),
    [
        (seen(Rung.NONE, 0, NOBODY), KILLS, Gone()),
        (seen(Rung.KILL, 99, NOBODY), ASKS, Gone()),
        (seen(Rung.NONE, 0, {7: "S"}), KILLS, Gone()),
        (seen(Rung.NONE, 0), KILLS, Signal(Rung.TERM, (ROOT,))),
        (seen(Rung.NONE, 999), ASKS, Signal(Rung.TERM, (ROOT,))),
        (seen(Rung.NONE, 0, ONE), KILLS, Signal(Rung.TERM, (WORKER,))),
        (seen(Rung.TERM, 0), KILLS, Wait(20)),
        (seen(Rung.TERM, 19.5), ASKS, Wait(0.5)),
        (seen(Rung.TERM, 20), KILLS, Signal(Rung.KILL, (ROOT, WORKER))),
        (seen(Rung.TERM, 20, ONE), KILLS, Signal(Rung.KILL, (WORKER,))),
        (seen(Rung.TERM, 20, STUCK), KILLS, Signal(Rung.KILL, (ROOT, WORKER))),
        (seen(Rung.TERM, 20), ASKS, Ask(Rung.KILL)),
        (seen(Rung.TERM, 20, confirmed=Rung.KILL), ASKS, Signal(Rung.KILL, (ROOT, WORKER))),
        (seen(Rung.TERM, 20, confirmed=Rung.NODE_KILL), ASKS, Ask(Rung.KILL)),
        (seen(Rung.TERM, 5, confirmed=Rung.KILL), ASKS, Wait(15)),
        (seen(Rung.TERM, 20, node=True), ASKS, Ask(Rung.KILL)),
        (seen(Rung.KILL, 9, node=True), KILLS, Wait(1)),
        (seen(Rung.KILL, 10), FAR, CannotBeKilled((ROOT, WORKER))),
        (seen(Rung.KILL, 10, node=True), KILLS, Ask(Rung.NODE_KILL)),
        (seen(Rung.KILL, 10, node=True), FAR, Signal(Rung.NODE_KILL, (ROOT, WORKER))),
        (seen(Rung.KILL, 10, node=True, confirmed=Rung.NODE_KILL), KILLS, Signal(Rung.NODE_KILL, (ROOT, WORKER))),
        (seen(Rung.KILL, 10, STUCK, node=True), FAR, CannotBeKilled((ROOT, WORKER))),
        (seen(Rung.KILL, 10, {100: "D", 101: "S"}, node=True), KILLS, Ask(Rung.NODE_KILL)),
        (seen(Rung.NODE_KILL, 9, node=True), KILLS, Wait(1)),
        (seen(Rung.NODE_KILL, 10, ONE, node=True), FAR, CannotBeKilled((WORKER,))),
    ],
)
def test_next_action(state: StopSeen, policy: StopPolicy, action: Action) -> None:
    assert decide(RECORD, state, policy) == action


pids = st.integers(100, 106)
whos = st.tuples(pids, st.integers(1, 3))
records = st.lists(whos, max_size=5, unique_by=lambda who: who[0]).flatmap(
    lambda found: st.builds(
        Record,
        st.just("boot"),
        st.sampled_from([None, *found]),
        st.just(tuple(found)),
    )
)
seconds = st.floats(min_value=0, max_value=1000)
policies = st.builds(StopPolicy, seconds, seconds, st.sampled_from([Rung.TERM, Rung.KILL, Rung.NODE_KILL]))
looks = st.dictionaries(pids, st.sampled_from("SRDZT"))
"""What a host may say at one moment: any pids, others' too, in any state, back from the dead as it likes."""
ANSWERS = st.sampled_from([None, True, False])


@given(
    records,
    policies,
    st.lists(st.tuples(looks, st.floats(min_value=0.5, max_value=500), ANSWERS), max_size=60),
    st.booleans(),
)
@pytest.mark.long
def test_whatever_is_seen_only_the_record_is_signalled_and_it_ends(
    record: Record, policy: StopPolicy, story: list[tuple[dict[int, str], float, bool | None]], in_container: bool
) -> None:
    """Goes up the ladder as the step does; None of an answer: nobody has answered yet, False: wait longer."""
    rung, elapsed, confirmed = Rung.NONE, 0.0, frozenset[Rung]()
    sent: list[tuple[Rung, Who]] = []
    order = list(Rung)
    for alive, passed, answer in story:
        action = decide(record, StopSeen(alive, rung, elapsed, confirmed, in_container), policy)
        living = [who for who in record.processes if who[0] in alive]
        match action:
            case Gone():
                assert not living
                return
            case CannotBeKilled(left):
                assert rung in (Rung.KILL, Rung.NODE_KILL) and set(left) == set(living) != set()
                return
            case Ask(asked):
                assert not asked.is_within(policy.by_itself) and asked not in confirmed
                if answer is None:
                    return  # a gate is an end for the worker
                confirmed = confirmed | {asked} if answer else confirmed
                elapsed = elapsed if answer else 0.0
            case Signal(climbed, targets):
                assert order.index(climbed) == order.index(rung) + 1, "one rung at a time"
                assert climbed.is_within(policy.by_itself) or climbed in confirmed or climbed == Rung.TERM
                assert climbed != Rung.NODE_KILL or in_container
                assert targets and set(targets) <= set(living)
                sent += [(climbed, who) for who in targets]
                rung, elapsed = climbed, 0.0
            case Wait(wait):
                assert wait > 0
                elapsed += passed
    assert {who for _, who in sent} <= set(record.processes)


@given(records.filter(lambda record: record.processes), policies, st.booleans())
@pytest.mark.long
def test_with_nobody_in_the_way_a_deaf_server_brings_it_to_an_end(
    record: Record, policy: StopPolicy, in_container: bool
) -> None:
    """Waiting as long as it asks, it is over after three signals: no loop, and nothing but an end or a question."""
    alive = {pid: "S" for pid, _ in record.processes}
    rung, elapsed, signals = Rung.NONE, 0.0, 0
    for _ in range(8):
        action = decide(record, StopSeen(alive, rung, elapsed, through_node=in_container), policy)
        if isinstance(action, Ask | CannotBeKilled):
            break
        if isinstance(action, Wait):
            elapsed += action.seconds
        if isinstance(action, Signal):
            rung, elapsed, signals = action.rung, 0.0, signals + 1
    else:
        raise AssertionError("it went on for ever")
    assert 1 <= signals <= 3
