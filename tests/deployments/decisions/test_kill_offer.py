"""Whom a confirmed kill may hit: nobody that the question does not name, and nobody that was seen only once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.decisions.kill_offer import FROM_NODE, NO_BOOT, Again, Inside, KillOffer, kill_offer
from deployments.decisions.verify import HolderSeen
from hosts.probe.frames import Unknown


def holder(pid: int, start: int | None = None) -> HolderSeen:
    return HolderSeen(pid, pid * 10 if start is None else start, f"train-{pid}", "root", ("GPU 0",))


A, B, C = holder(9), holder(12), holder(15)
ANOTHER_A = holder(9, 91)
"""The pid of A, and another process."""


NODE_A, NODE_B = holder(109, 90), holder(112, 120)
"""A and B as the node of their container numbers them."""
SEEN_INSIDE = {"inside": Inside((A,), {(9, 90): 109, (12, 120): 112})}


def planned(*holders: HolderSeen) -> frozenset[tuple[int, int]]:
    return frozenset((each.pid, each.start_time) for each in holders)


@pytest.mark.parametrize(
    ("last", "again", "more", "expected"),
    [
        pytest.param([A], Again((A,)), {}, KillOffer((A,), (A,)), id="seen twice"),
        pytest.param([A, B], Again((A,)), {}, KillOffer((A,), (A,)), id="one has closed the card and lives"),
        pytest.param([A], Again(()), {}, KillOffer(()), id="the only one has closed the card"),
        pytest.param([A], Again((ANOTHER_A,)), {}, KillOffer(()), id="the pid is another process now"),
        pytest.param([A], Again((A, B)), {}, KillOffer((A,), (A,)), id="who has just come was not judged"),
        pytest.param([], Again((A,)), {}, KillOffer((A,)), id="seen in the second look only"),
        pytest.param([A], Unknown("no"), {}, KillOffer((A,)), id="the second look saw nothing"),
        pytest.param([A, B], Again((A, B)), {"spared": {12}}, KillOffer((A, B), (A,)), id="a spared one is named"),
        pytest.param([A], Again((A,)), {"boot_id": ""}, KillOffer((A,), why_not=NO_BOOT), id="no boot, no kill"),
        pytest.param([], Again((A,)), {"boot_id": ""}, KillOffer((A,)), id="nobody to kill needs no reason"),
        pytest.param(
            [A, B],
            Again((NODE_A, NODE_B)),
            SEEN_INSIDE,
            KillOffer((NODE_A, NODE_B), (A,), why_not=FROM_NODE, own={109: 9}),
            id="in a container, its own and another's",
        ),
        pytest.param(
            [], Again((NODE_A,)), SEEN_INSIDE, KillOffer((NODE_A,), own={109: 9}), id="its own, seen inside only once"
        ),
        pytest.param([A], Again((B,)), SEEN_INSIDE, KillOffer((B,), why_not=FROM_NODE), id="not its own any more"),
        pytest.param(
            [A],
            Again((NODE_A,)),
            SEEN_INSIDE | {"spared": {9}},
            KillOffer((NODE_A,), own={109: 9}),
            id="its own, that is spared",
        ),
        pytest.param(
            [A],
            Again((NODE_A,)),
            SEEN_INSIDE | {"boot_id": ""},
            KillOffer((NODE_A,), why_not=NO_BOOT, own={109: 9}),
            id="its own, of an unknown boot",
        ),
        pytest.param(
            [A],
            Again((), (NODE_A,)),
            SEEN_INSIDE,
            KillOffer((NODE_A,), found=(NODE_A,), own={109: 9}),
            id="a stranger to the container, and a co-tenant to the node",
        ),
        pytest.param([], Again((), (B,)), SEEN_INSIDE, KillOffer((B,), found=(B,)), id="to be agreed to, on the node"),
        pytest.param([A], Again((), (A,)), {}, KillOffer((A,), found=(A,)), id="a co-tenant that is new"),
        pytest.param([A], Again((), (A, B), planned(B)), {}, KillOffer((A,), found=(A, B)), id="one more"),
        pytest.param([], Again((), (B,), planned(B)), {}, KillOffer(()), id="those of the plan"),
        pytest.param([], Again((), (B,), planned(B), True), {}, KillOffer((), found=(B,)), id="one less"),
        pytest.param([A, C], Again((C,), (A,)), {}, KillOffer((C, A), (C,)), id="with a stranger there is more to do"),
    ],
)
def test_the_offer(
    last: list[HolderSeen], again: Again | Unknown, more: dict[str, object], expected: KillOffer
) -> None:
    assert kill_offer(last, again, **({"boot_id": "x"} | more)) == expected  # type: ignore[arg-type]


HOLDERS = st.lists(st.builds(holder, st.integers(2, 5), st.integers(1, 2)), max_size=4).map(tuple)


OWN = st.lists(st.integers(0, 3), max_size=3)
"""Which of the strangers are a container's own, whose numbers there are a hundred less than on the node."""


@given(HOLDERS, HOLDERS, HOLDERS, st.sets(st.integers(2, 5)), st.none() | OWN, st.sampled_from(["", "x"]))
@pytest.mark.long
def test_who_is_killed_was_seen_twice_is_named_and_is_not_spared(
    last: tuple[HolderSeen, ...],
    strangers: tuple[HolderSeen, ...],
    co_tenants: tuple[HolderSeen, ...],
    spared: set[int],
    own: list[int] | None,
    boot_id: str,
) -> None:
    named = tuple(replace(each, name="with its command line") for each in strangers)
    inside = None if own is None else Inside(tuple(named[at] for at in own if at < len(named)), {})
    if inside is not None:
        inside = replace(inside, on_node={(each.pid, each.start_time): each.pid + 100 for each in inside.strangers})
        named = tuple(replace(each, pid=each.pid + 100) for each in named)
    offer = kill_offer(last, Again(named, co_tenants), spared=spared, boot_id=boot_id, inside=inside)
    killed = {(each.pid, each.start_time) for each in offer.killable}
    offered = planned(*strangers) if inside is None else planned(*inside.strangers)
    assert killed <= planned(*last) & offered
    assert {(pid + 100 if inside else pid, start) for pid, start in killed} <= planned(*offer.named)
    assert not {pid for pid, _ in killed} & spared
    assert not killed or boot_id
