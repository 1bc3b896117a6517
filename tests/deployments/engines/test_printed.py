"""What a program has printed of its settings is read, and nothing of it is evaluated."""

import pytest
from hypothesis import given
from hypothesis import settings as tries
from hypothesis import strategies as st

from deployments.engines.printed import LONGEST, settings_printed, value_printed


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("ServerArgs(a=1, b='x', c=None, d=True, e=0.88)", {"a": 1, "b": "x", "c": None, "d": True, "e": 0.88}),
        ("{'a': 1, \"b\": 'x, y', 'c': None} and more", {"a": 1, "b": "x, y", "c": None}),
        ("model='m', dtype=torch.bfloat16, n=4096", {"model": "m", "dtype": "torch.bfloat16", "n": 4096}),
        ("ServerArgs(a=[1, 2], b={'c': 3, 'd': 4}, e=-1)", {"a": "[1, 2]", "b": "{'c': 3, 'd': 4}", "e": -1}),
        ("ServerArgs(a=<Mode.FAST: 'fast'>, b=2)", {"a": "FAST", "b": 2}),
        ("ServerArgs(a=<object object at 0x7f>, b=2)", {"a": "<object object at 0x7f>", "b": 2}),
        ("ServerArgs(a='it''s', b='a\\'b, c=1', d=1)", {"a": "'it''s'", "b": "a'b, c=1", "d": 1}),
        ("ServerArgs(a=1), b=2", {"a": 1}),
        ("ServerArgs()", {}),
        ("ServerArgs(a=1, b='never closed, c=2", {"a": 1, "b": "'never closed", "c": 2}),
        ("max_tokens=5, mem=1.50 GB", {"max_tokens": 5, "mem": "1.50 GB"}),
        ("", {}),
        ("{", {}),
    ],
)
def test_settings_printed(text: str, settings: dict[str, object]) -> None:
    assert settings_printed(text) == settings


def test_nothing_is_evaluated() -> None:
    hostile = "ServerArgs(a=__import__('os').system('true'), b=(lambda: 1)(), c=9**9**9, d=1)"
    assert settings_printed(hostile) == {
        "a": "__import__('os').system('true')",
        "b": "(lambda: 1)()",
        "c": "9**9**9",
        "d": 1,
    }


@pytest.mark.parametrize(
    "piece", ["(" * 200_000, "[" * LONGEST, "'" * LONGEST, "a=" * 100_000, "-" * 90_000, "<" * 9000]
)
def test_size_and_depth_do_no_harm(piece: str) -> None:
    found = settings_printed("ServerArgs(first=1, " + piece)
    assert found["first"] == 1
    assert all(len(str(value)) <= 300 for value in found.values())


@tries(max_examples=25)
@given(
    st.dictionaries(
        st.from_regex(r"[a-z_]{1,12}", fullmatch=True),
        st.one_of(st.none(), st.booleans(), st.integers(-(10**15), 10**15), st.text(max_size=40)),
    )
)
def test_both_shapes_say_the_same(settings: dict[str, object]) -> None:
    printed = ", ".join(f"{name}={value!r}" for name, value in settings.items())
    assert settings_printed(f"ServerArgs({printed})") == settings
    assert settings_printed(repr(settings)) == settings


def test_a_value_of_odd_escapes_is_kept() -> None:
    assert value_printed(r"'\x'") == r"\x"
