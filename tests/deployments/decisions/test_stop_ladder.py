"""The ladder as a table, and two promises over every state there is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.decisions.stop_ladder import (
    Action,
    AskToKill,
    CannotBeKilled,
    Gone,
    Rung,
    Signal,
    StopPolicy,
    StopSeen,
    Wait,
    decide,
)

KILLS = StopPolicy(term_seconds=20, kill_seconds=10, kill_own_by_itself=True)
ASKS = StopPolicy(term_seconds=20, kill_seconds=10, kill_own_by_itself=False)


def seen(rung: Rung, elapsed: float, *, alive: int = 2, confirmed: bool = False, node: bool = False) -> StopSeen:
    return StopSeen(alive, rung, elapsed, confirmed, node)


@pytest.mark.parametrize(
    ("state", "policy", "action"),
    [
        (seen(Rung.NONE, 0, alive=0), KILLS, Gone()),
        (seen(Rung.KILL, 99, alive=0), ASKS, Gone()),
        (seen(Rung.NONE, 0), KILLS, Signal(Rung.TERM)),
        (seen(Rung.NONE, 999), ASKS, Signal(Rung.TERM)),
        (seen(Rung.TERM, 0), KILLS, Wait(20)),
        (seen(Rung.TERM, 19.5), ASKS, Wait(0.5)),
        (seen(Rung.TERM, 20), KILLS, Signal(Rung.KILL)),
        (seen(Rung.TERM, 20), ASKS, AskToKill()),
        (seen(Rung.TERM, 20, confirmed=True), ASKS, Signal(Rung.KILL)),
        (seen(Rung.TERM, 5, confirmed=True), ASKS, Wait(15)),
        (seen(Rung.TERM, 20, node=True), ASKS, AskToKill()),
        (seen(Rung.KILL, 9, node=True), KILLS, Wait(1)),
        (seen(Rung.KILL, 10), KILLS, CannotBeKilled()),
        (seen(Rung.KILL, 10, node=True), KILLS, Signal(Rung.NODE_KILL)),
        (seen(Rung.NODE_KILL, 9, node=True), KILLS, Wait(1)),
        (seen(Rung.NODE_KILL, 10, node=True), KILLS, CannotBeKilled()),
    ],
)
def test_next_action(state: StopSeen, policy: StopPolicy, action: Action) -> None:
    assert decide(state, policy) == action


seconds = st.floats(min_value=0, max_value=10_000)
states = st.builds(
    StopSeen,
    st.integers(0, 40),
    st.sampled_from(Rung),
    seconds,
    kill_confirmed=st.booleans(),
    through_node=st.booleans(),
)
policies = st.builds(StopPolicy, seconds, seconds, st.booleans())


@given(states, policies)
def test_every_state_has_an_action_that_the_policy_allows(state: StopSeen, policy: StopPolicy) -> None:
    action = decide(state, policy)
    assert isinstance(action, Action)
    assert isinstance(action, Gone) == (state.alive == 0)
    if isinstance(action, Wait):
        assert action.seconds > 0
    if isinstance(action, Signal):
        order = list(Rung)
        assert order.index(action.rung) == order.index(state.rung) + 1, "one rung at a time"
        if action.rung == Rung.KILL:
            assert policy.kill_own_by_itself or state.kill_confirmed
        if action.rung == Rung.NODE_KILL:
            assert state.through_node


@given(policies, st.booleans(), st.booleans())
def test_the_ladder_ends(policy: StopPolicy, confirmed: bool, node: bool) -> None:
    """Somebody who never dies: after each time-out one rung more, and then a person."""
    rung = Rung.NONE
    for _ in Rung:
        action = decide(StopSeen(1, rung, 20_000, confirmed, node), policy)
        if not isinstance(action, Signal):
            break
        rung = action.rung
    assert isinstance(action, AskToKill | CannotBeKilled)
    assert isinstance(action, AskToKill) == (not policy.kill_own_by_itself and not confirmed)
