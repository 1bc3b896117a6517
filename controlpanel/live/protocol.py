"""What browser and panel say to each other on the websocket. Pure: text in, values out.

A browser says hello, subscribes to named streams with the cursor it has reached, unsubscribes and pings; it
cannot act. The panel answers with frames: batches of items and the cursor after them, or an error about one
stream.
"""

import json
import re
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

VERSION = 1
LARGEST_MESSAGE = 4096  # bytes from a browser
MOST_STREAMS = 32
MOST_ITEMS = 200  # of one batch
LARGEST_BATCH = 64 * 1024  # bytes of one batch, which a reader keeps to

NOT_SIGNED_IN = 4401
NOT_ALLOWED = 4403
BAD_MESSAGE = 1008
FAILED = 1011
TOO_SLOW = 1013

Cursor = str | int | None
_NAME = re.compile(r"[a-z][a-z_-]{0,31}(?::[A-Za-z0-9_.-]{1,64}){0,4}")


class ItemsFrame(TypedDict):
    s: str
    items: list[dict[str, Any]]
    cursor: Cursor


class ErrorFrame(TypedDict, total=False):
    s: str
    error: str


class HelloFrame(TypedDict):
    op: Literal["hello"]
    v: int
    build: str


class PongFrame(TypedDict):
    op: Literal["pong"]


Frame = ItemsFrame | ErrorFrame | HelloFrame | PongFrame


@dataclass(frozen=True)
class Hello:
    version: int


@dataclass(frozen=True)
class Ping:
    pass


@dataclass(frozen=True)
class Subscribe:
    stream: str
    cursor: Cursor


@dataclass(frozen=True)
class Unsubscribe:
    stream: str


Op = Hello | Ping | Subscribe | Unsubscribe


class BadMessage(ValueError):
    """The browser said something that is not in the protocol."""


def parse(text: str | bytes | None) -> Op:
    """Return what a browser's message means. Raises `BadMessage`."""
    if not isinstance(text, str):
        raise BadMessage("only text is understood")
    if len(text.encode(errors="replace")) > LARGEST_MESSAGE:
        raise BadMessage("the message is too long")
    try:
        said = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise BadMessage("the message is not JSON") from problem
    if not isinstance(said, dict):
        raise BadMessage("the message is not an object")
    return _op(said)


def _op(said: dict[str, Any]) -> Op:
    op = said.get("op")
    if op == "ping":
        return Ping()
    if op == "hello":
        if said.get("v") != VERSION:
            raise BadMessage(f"this panel speaks version {VERSION}")
        return Hello(version=VERSION)
    if op == "sub":
        return Subscribe(stream=stream_name(said.get("s")), cursor=_cursor(said.get("cursor")))
    if op == "unsub":
        return Unsubscribe(stream=stream_name(said.get("s")))
    raise BadMessage("unknown op")


def stream_name(name: object) -> str:
    """Return a well-formed stream name such as `job:42:log`. Raises `BadMessage`."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadMessage("not a stream name")
    return name


def _cursor(cursor: object) -> Cursor:
    if cursor is None or (isinstance(cursor, str) and len(cursor) <= 200):
        return cursor
    if isinstance(cursor, int) and not isinstance(cursor, bool) and abs(cursor) < 2**63:
        return cursor
    raise BadMessage("not a cursor")


def encode(frame: Frame | list[dict[str, Any]]) -> str:
    """Return a frame, or the items of one, as the text that is sent."""
    return json.dumps(frame, separators=(",", ":"), default=str)


def items_frame(stream: str, items: str, cursor: Cursor) -> str:
    """Return the text of an `ItemsFrame` whose items are encoded already."""
    return f'{{"s":{json.dumps(stream)},"items":{items},"cursor":{json.dumps(cursor)}}}'


def group_of(stream: str) -> str:
    """Return the channel-layer group of a stream; group names allow fewer characters."""
    return "live." + stream.replace(":", ".")
