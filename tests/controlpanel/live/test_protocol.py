"""The protocol is pure: text in, values out, and anything else is refused with a reason."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlpanel.live.protocol import (
    LARGEST_MESSAGE,
    BadMessage,
    Cursor,
    Hello,
    Ping,
    Subscribe,
    Unsubscribe,
    encode,
    group_of,
    items_frame,
    parse,
)
from controlpanel.live.streams import Batch


@pytest.mark.parametrize(
    ("text", "op"),
    [
        ('{"op":"hello","v":1}', Hello(version=1)),
        ('{"op":"ping"}', Ping()),
        ('{"op":"sub","s":"job:42:log","cursor":17}', Subscribe(stream="job:42:log", cursor=17)),
        ('{"op":"sub","s":"gpus","cursor":null}', Subscribe(stream="gpus", cursor=None)),
        ('{"op":"sub","s":"gpus"}', Subscribe(stream="gpus", cursor=None)),
        ('{"op":"sub","s":"readings:7","cursor":"a-1"}', Subscribe(stream="readings:7", cursor="a-1")),
        ('{"op":"unsub","s":"gpus"}', Unsubscribe(stream="gpus")),
    ],
)
def test_what_a_browser_may_say(text: str, op: object) -> None:
    assert parse(text) == op


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no json",
        "[]",
        '"sub"',
        "{}",
        '{"op":"approve","job":1}',
        '{"op":"hello","v":2}',
        '{"op":"sub"}',
        '{"op":"sub","s":"../etc"}',
        '{"op":"sub","s":"Job:1"}',
        '{"op":"sub","s":"job:1\\n"}',
        '{"op":"sub","s":["job:1"]}',
        '{"op":"sub","s":"job:1","cursor":true}',
        '{"op":"sub","s":"job:1","cursor":{}}',
        '{"op":"sub","s":"job:1","cursor":1e999}',
        '{"op":"sub","s":"job:1","cursor":99999999999999999999}',
        json.dumps({"op": "ping", "x": "y" * LARGEST_MESSAGE}),
        "[" * 4000,
        b"{}",
        None,
    ],
)
def test_what_is_refused(text: str | bytes | None) -> None:
    with pytest.raises(BadMessage):
        parse(text)


@given(st.text(max_size=200) | st.binary(max_size=50))
@pytest.mark.long
def test_no_message_does_more_than_be_refused(text: str | bytes) -> None:
    try:
        parse(text)
    except BadMessage as problem:
        assert str(problem)


def test_frames_are_compact_and_groups_are_valid_names() -> None:
    assert encode({"s": "gpus", "items": [{"a": 1}], "cursor": 3}) == '{"s":"gpus","items":[{"a":1}],"cursor":3}'
    assert group_of("job:42:log") == "live.job.42.log"


@pytest.mark.parametrize("cursor", [None, 7, "0123:7"])
def test_items_that_were_encoded_before_make_the_same_frame(cursor: Cursor) -> None:
    items = [{"text": 'a "line"\n', "at": 1}, {}]
    assert items_frame("job:7", encode(items), cursor) == encode({"s": "job:7", "items": items, "cursor": cursor})


def test_what_many_pages_are_sent_is_encoded_once() -> None:
    batch = Batch([{"id": 1}])
    assert batch.encoded is batch.encoded
