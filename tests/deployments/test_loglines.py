"""How the lines of a log are counted over pieces, and which say a text."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.loglines import LineCount, pieces, saying

SERVER, PANEL = "server", "panel"


@pytest.mark.parametrize(
    ("said", "places"),
    [
        ([(SERVER, "a\nb\n"), (SERVER, "c\n")], [(1, 2), (3, 1)]),
        ([(SERVER, "a\nb"), (SERVER, "c\nd\n")], [(1, 2), (3, 1)]),
        ([(SERVER, "a"), (PANEL, "x\n"), (SERVER, "b"), (SERVER, "c\n")], [(1, 1), (2, 1), (3, 0), (3, 0)]),
        ([(SERVER, "a"), (SERVER, "\n"), (SERVER, "b\n")], [(1, 1), (2, 0), (2, 1)]),
        ([(SERVER, "a\r\nb\r"), (SERVER, "b2\r\n")], [(1, 2), (3, 0)]),
        ([(SERVER, ""), (SERVER, "\n\n")], [(1, 0), (1, 2)]),
    ],
)  # fmt: skip
def test_each_piece_knows_where_its_lines_begin(said: list[tuple[str, str]], places: list[tuple[int, int]]) -> None:
    count = LineCount()
    assert [count.take(source, text) for source, text in said] == places


def test_dropped_bytes_are_a_line_and_end_the_one_before() -> None:
    count = LineCount()
    assert count.take(SERVER, "half") == (1, 1)
    assert count.take(SERVER, "", dropped=9) == (2, 1)
    assert count.take(SERVER, "new\n") == (3, 1)


@settings(max_examples=40)
@given(st.text(alphabet="ab\n", max_size=40), st.lists(st.integers(0, 40), max_size=6))
def test_any_cutting_counts_the_same(text: str, cuts: list[int]) -> None:
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    parts = [text[begin:end] for begin, end in pairwise(places)]
    whole, cut = LineCount(), LineCount()
    _, lines = whole.take(SERVER, text)
    assert sum(cut.take(SERVER, part)[1] for part in parts) == lines
    assert (cut.next, cut.open) == (whole.next, whole.open)


def test_a_copy_counts_by_itself() -> None:
    count = LineCount()
    count.copy().take(SERVER, "a")
    assert (count.next, count.open) == (1, set())


@pytest.mark.parametrize(
    ("text", "needle", "lines"),
    [
        ("one\nTwo\ntwo two\n", "two", [1, 2]),
        ("two", "two", [0]),
        ("one\n", "two", []),
        ("\x1b[31mCUDA\x1b[0m out\nof\n", "cuda out", [0]),
        ("10 %\r20 %\nx\n", "10", []),
        ("10 %\r20 %\nx\n20 %\r\n", "20", [0, 2]),
        ("a\tb\n", "a        b", [0]),
        ("a\nb", "a\nb", []),
        ("<b>\n", "<b>", [0]),
    ],
)
def test_lines_that_say_a_text(text: str, needle: str, lines: list[int]) -> None:
    assert [number for number in saying(text, needle) if "\n" not in needle] == lines


@settings(max_examples=40)
@given(st.text(alphabet="aB\n \r", max_size=60), st.sampled_from(["a", "b", "ab", " "]))
def test_found_is_what_stands_there(text: str, needle: str) -> None:
    shown = [[*filter(None, line.split("\r")), ""] for line in pieces(text)]
    last = [states[-2] if len(states) > 1 else "" for states in shown]
    assert saying(text, needle) == [number for number, line in enumerate(last) if needle in line.lower()]
