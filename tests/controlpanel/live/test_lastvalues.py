"""Only what changed is told, all of it, and once."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from controlpanel.live.lastvalues import LastValues
from controlpanel.live.protocol import Cursor


def tell_all(values: LastValues, cursor: Cursor, *, most: int = 2) -> tuple[list[int], Cursor]:
    """All passes that are due."""
    keys: list[int] = []
    while True:
        told = values.after(cursor, most=most)
        assert len(told.keys) <= most
        keys, cursor = keys + told.keys, told.cursor
        if not told.more:
            return keys, cursor


def test_all_are_told_first_and_then_those_that_changed() -> None:
    values = LastValues()
    values.see({1: "a", 2: "b", 3: "c"})
    keys, cursor = tell_all(values, None)
    assert keys == [1, 2, 3]
    assert values.after(cursor) == values.after(cursor) and values.after(cursor).cursor == cursor
    values.see({1: "a", 2: "B", 3: "c", 4: "d"})
    assert tell_all(values, cursor)[0] == [2, 4]


def test_what_changes_within_a_pass_is_told_in_the_next() -> None:
    values = LastValues()
    values.see({1: "a", 2: "b", 3: "c"})
    told = values.after(None, most=2)
    values.see({1: "A", 2: "b", 3: "c"})
    rest = values.after(told.cursor, most=2)
    assert (rest.keys, rest.more) == ([3], True)
    assert tell_all(values, rest.cursor)[0] == [1]


def test_what_changes_all_the_time_does_not_keep_others_back() -> None:
    values, cursor, keys = LastValues(), None, []
    for number in range(3):
        values.see(dict.fromkeys(range(6), number))
        told = values.after(cursor, most=2)
        cursor, keys = told.cursor, keys + told.keys
    assert keys == [0, 1, 2, 3, 4, 5]


def test_what_is_gone_is_not_told_and_what_comes_back_is() -> None:
    values = LastValues()
    values.see({1: "a", 2: "b"})
    _, cursor = tell_all(values, None)
    values.see({2: "b"})
    assert values.after(cursor).keys == []
    values.see({1: "a", 2: "b"})
    assert values.after(cursor).keys == [1]


def test_a_place_of_another_process_begins_anew() -> None:
    values, other = LastValues(), LastValues()
    for each in (values, other):
        each.see({1: "a"})
    _, cursor = tell_all(other, None)
    assert values.after(cursor).keys == [1]


STATES = st.lists(st.dictionaries(st.integers(0, 9), st.integers(0, 2)), min_size=1, max_size=12)


@settings(max_examples=150)
@given(states=STATES, reads=st.lists(st.integers(0, 4), max_size=12), most=st.integers(1, 4))
def test_a_page_that_reads_now_and_then_ends_with_what_there_is(
    states: list[dict[int, int]], reads: list[int], most: int
) -> None:
    values, cursor, page = LastValues(), None, dict[int, int]()
    for number, state in enumerate(states):
        values.see(state)
        for _ in range(reads[number] if number < len(reads) else 0):
            told = values.after(cursor, most=most)
            cursor = told.cursor
            page |= {key: state[key] for key in told.keys}
    keys, cursor = tell_all(values, cursor, most=most)
    page |= {key: states[-1][key] for key in keys}
    assert {key: page[key] for key in states[-1]} == states[-1]
    assert values.after(cursor, most=most).keys == []
