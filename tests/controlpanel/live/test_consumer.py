"""The websocket of a page over the real application: who gets in, what is sent, what lost hints do."""

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

import pytest
from asgiref.sync import sync_to_async
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.contrib.auth.models import User
from django.db import OperationalError
from django.test import Client

from controlpanel.asgi import application
from controlpanel.live import consumer, streams
from controlpanel.live.hints import get_channel_layer, listener
from controlpanel.live.protocol import MOST_STREAMS, Cursor, group_of
from controlpanel.live.streams import Batch

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.asyncio, pytest.mark.long]

OWN = b"http://testserver"


@dataclass
class Rows:
    """A stream reader over a list; the cursor is how many were read."""

    rows: list[str] = field(default_factory=list)
    allowed: bool = True
    broken: bool = False
    reads: int = 0

    def authorise(self, user: User, key: str) -> bool:
        return self.allowed and key == "1"

    def read(self, key: str, cursor: Cursor, user: User) -> Batch:
        self.reads += 1
        if self.broken:
            raise RuntimeError("the table is gone")
        begin = int(cursor or 0)
        found = self.rows[begin : begin + 3]
        end = begin + len(found)
        return Batch([{"text": text} for text in found], cursor=end, more=end < len(self.rows))


@pytest.fixture
def rows() -> Iterator[Rows]:
    reader = Rows()
    streams.register("rows", reader)
    yield reader
    streams.unregister("rows")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(consumer, "CHECK_SECONDS", 0.2)


@pytest.fixture
def cookie(viewer: User) -> bytes:
    return cookie_of(viewer)


def cookie_of(user: User) -> bytes:
    client = Client()
    client.force_login(user)
    return f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}".encode()


def page(cookie: bytes = b"", *, origin: bytes | None = OWN, host: bytes = b"testserver") -> WebsocketCommunicator:
    headers = [(b"host", host), (b"cookie", cookie)]
    if origin is not None:
        headers.append((b"origin", origin))
    return WebsocketCommunicator(application, "/ws/", headers=headers)


async def opened(cookie: bytes) -> WebsocketCommunicator:
    communicator = page(cookie)
    connected, _ = await communicator.connect(timeout=5)
    assert connected
    return communicator


async def say(communicator: WebsocketCommunicator, **message: object) -> None:
    await communicator.send_to(text_data=json.dumps(message))


async def heard(communicator: WebsocketCommunicator) -> dict[str, Any]:
    frame: dict[str, Any] = json.loads(await communicator.receive_from(timeout=5))
    return frame


async def close_code(communicator: WebsocketCommunicator) -> int:
    while True:
        message = await communicator.receive_output(timeout=5)
        if message["type"] == "websocket.close":
            return int(message["code"])


@pytest.mark.parametrize(
    "origin",
    [None, b"null", b"http://evil.example", b"http://testserver:9999", b"https://testserver", b"http://testserver.evil.example",
     b"http://testserver@evil.example", b"file://"],
)  # fmt: skip
async def test_a_foreign_page_is_refused_before_anything_else(cookie: bytes, origin: bytes | None) -> None:
    connected, _ = await page(cookie, origin=origin).connect(timeout=5)

    assert not connected


async def test_a_foreign_host_name_is_refused(cookie: bytes) -> None:
    connected, _ = await page(cookie, origin=b"http://rebound.example", host=b"rebound.example").connect(timeout=5)

    assert not connected


async def test_a_trusted_origin_gets_in(cookie: bytes, settings: Any) -> None:
    settings.CSRF_TRUSTED_ORIGINS = ["https://panel.example.com"]
    communicator = page(cookie, origin=b"https://panel.example.com", host=b"panel.example.com")
    connected, _ = await communicator.connect(timeout=5)

    assert connected
    await communicator.disconnect()


async def test_nobody_is_turned_away_with_a_code_that_says_so() -> None:
    assert await close_code(await opened(b"")) == 4401
    assert await close_code(await opened(b"relaunch_sessionid=made-up")) == 4401


async def test_somebody_without_a_role_is_turned_away(stranger: User) -> None:
    cookie = await sync_to_async(cookie_of)(stranger)

    assert await close_code(await opened(cookie)) == 4403


async def test_hello_and_ping(cookie: bytes) -> None:
    communicator = await opened(cookie)
    await say(communicator, op="hello", v=1)
    hello = await heard(communicator)
    await say(communicator, op="ping")

    assert hello["op"] == "hello" and len(hello["build"]) == 12
    assert await heard(communicator) == {"op": "pong"}
    await communicator.disconnect()


async def test_the_backlog_comes_in_batches_and_in_order(cookie: bytes, rows: Rows) -> None:
    rows.rows = list("abcdefg")
    communicator = await opened(cookie)
    await say(communicator, op="sub", s="rows:1", cursor=1)

    frames = [await heard(communicator), await heard(communicator)]
    assert [item["text"] for frame in frames for item in frame["items"]] == list("bcdefg")
    assert [frame["cursor"] for frame in frames] == [4, 7]
    await communicator.disconnect()


@pytest.mark.long
async def test_new_rows_come_without_any_hint(cookie: bytes, rows: Rows, quick: None) -> None:
    communicator = await opened(cookie)
    await say(communicator, op="sub", s="rows:1", cursor=0)
    assert await communicator.receive_nothing(timeout=0.3)
    rows.rows.append("a")

    assert (await heard(communicator))["items"] == [{"text": "a"}]
    await communicator.disconnect()


@pytest.mark.long
async def test_nothing_is_sent_when_nothing_changed(cookie: bytes, rows: Rows, quick: None) -> None:
    rows.rows = ["a"]
    communicator = await opened(cookie)
    await say(communicator, op="sub", s="rows:1", cursor=1)

    assert await communicator.receive_nothing(timeout=0.5)
    assert rows.reads >= 3
    await communicator.disconnect()


async def test_what_cannot_be_served_is_closed_so_that_the_page_connects_anew(
    cookie: bytes, rows: Rows, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    communicator = await opened(cookie)
    await say(communicator, op="sub", s="rows:1", cursor=0)
    monkeypatch.setattr(consumer, "person_of", _fails)

    assert await close_code(communicator) == 1011


def _fails(*_: Any) -> NoReturn:
    raise OperationalError("database is locked")


async def test_a_hint_brings_new_rows_at_once(cookie: bytes, rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer, "LOOK_SECONDS", 60.0)
    communicator = await opened(cookie)
    await say(communicator, op="sub", s="rows:1", cursor=0)
    await _until(lambda: rows.reads == 1)
    rows.rows.append("a")

    layer = get_channel_layer()
    async with asyncio.timeout(5):
        while not layer.groups.get(group_of("rows:1")):
            await asyncio.sleep(0.01)
    await layer.group_send(group_of("rows:1"), {"type": "hint", "s": "rows:1"})
    assert (await heard(communicator))["items"] == [{"text": "a"}]
    await communicator.disconnect()


async def test_a_frozen_layer_does_not_keep_the_page_waiting(
    cookie: bytes, rows: Rows, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(type(get_channel_layer()), "new_channel", never)
    rows.rows = ["a"]
    communicator = await opened(cookie)
    await say(communicator, op="sub", s="rows:1", cursor=0)

    assert (await heard(communicator))["items"] == [{"text": "a"}]
    rows.rows.append("b")
    assert (await heard(communicator))["items"] == [{"text": "b"}]
    await communicator.disconnect()


@pytest.mark.parametrize("stream", ["rows:2", "nobody:1"])
async def test_a_stream_that_is_not_there_or_not_theirs(cookie: bytes, rows: Rows, stream: str) -> None:
    communicator = await opened(cookie)
    await say(communicator, op="sub", s=stream)

    frame = await heard(communicator)
    assert frame["s"] == stream and "not found" in frame["error"]
    await communicator.disconnect()


@pytest.mark.long
async def test_an_unsubscribed_stream_is_silent(cookie: bytes, rows: Rows, quick: None) -> None:
    communicator = await opened(cookie)
    await say(communicator, op="sub", s="rows:1", cursor=0)
    await say(communicator, op="unsub", s="rows:1")
    await say(communicator, op="ping")
    assert await heard(communicator) == {"op": "pong"}
    rows.rows.append("a")

    assert await communicator.receive_nothing(timeout=0.4)
    await communicator.disconnect()


@pytest.mark.long
async def test_a_reader_that_fails_is_said_once_and_recovers(cookie: bytes, rows: Rows, quick: None) -> None:
    rows.broken = True
    communicator = await opened(cookie)
    await say(communicator, op="sub", s="rows:1", cursor=0)
    assert "cannot be read" in (await heard(communicator))["error"]
    assert await communicator.receive_nothing(timeout=0.4)
    rows.rows, rows.broken = ["a"], False

    assert (await heard(communicator))["items"] == [{"text": "a"}]
    await communicator.disconnect()


@pytest.mark.long
async def test_a_page_follows_a_limited_number_of_streams(
    cookie: bytes, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Rows, "authorise", lambda *_: True)
    communicator = await opened(cookie)
    for number in range(MOST_STREAMS + 1):
        await say(communicator, op="sub", s=f"rows:{number}", cursor=0)

    assert "at most" in (await heard(communicator))["error"]
    await communicator.disconnect()


@pytest.mark.parametrize("text", ["no json", '{"op":"approve"}', "x" * 5000])
async def test_nonsense_ends_the_socket(cookie: bytes, text: str) -> None:
    communicator = await opened(cookie)
    await communicator.send_to(text_data=text)

    assert await close_code(communicator) == 1008


@pytest.mark.long
async def test_a_flood_ends_the_socket(cookie: bytes) -> None:
    communicator = await opened(cookie)
    for _ in range(consumer.OPS_IN_TEN_SECONDS + 1):
        await say(communicator, op="ping")

    assert await close_code(communicator) == 1008


async def test_a_lost_role_ends_the_socket(cookie: bytes, viewer: User, rows: Rows, quick: None) -> None:
    communicator = await opened(cookie)
    await sync_to_async(viewer.groups.clear)()

    assert await close_code(communicator) == 4403


async def test_a_sign_out_ends_the_socket(viewer: User, rows: Rows, quick: None) -> None:
    def signed_in_client() -> Client:
        client = Client()
        client.force_login(viewer)
        return client

    client = await sync_to_async(signed_in_client)()
    value = client.cookies[settings.SESSION_COOKIE_NAME].value
    communicator = await opened(f"{settings.SESSION_COOKIE_NAME}={value}".encode())
    await sync_to_async(client.logout)()
    await say(communicator, op="ping")

    assert await close_code(communicator) == 4401


async def test_a_switched_off_person_is_turned_away(cookie: bytes, viewer: User, quick: None) -> None:
    communicator = await opened(cookie)
    await User.objects.filter(pk=viewer.pk).aupdate(is_active=False)

    assert await close_code(communicator) == 4401


@pytest.mark.long
async def test_a_stream_that_is_taken_away_ends_with_a_word(cookie: bytes, rows: Rows, quick: None) -> None:
    communicator = await opened(cookie)
    await say(communicator, op="sub", s="rows:1", cursor=0)
    await _until(lambda: rows.reads > 0)
    rows.allowed = False

    assert "no longer there" in (await heard(communicator))["error"]
    await communicator.disconnect()


async def test_a_closed_page_leaves_nothing_behind(cookie: bytes, rows: Rows) -> None:
    communicator = await opened(cookie)
    await say(communicator, op="sub", s="rows:1", cursor=0)
    await _until(lambda: rows.reads > 0)
    await communicator.disconnect()

    assert not listener()._wakers and listener()._task is None


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.01)


async def test_a_browser_that_leaves_while_something_is_sent_is_no_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Uvicorn says so by an OSError."""
    socket = consumer.LiveConsumer()

    async def gone(**_: Any) -> NoReturn:
        raise ConnectionResetError

    monkeypatch.setattr(socket, "send", gone)

    async def pump() -> None:
        await socket._say({"s": "rows:1", "items": []})

    monkeypatch.setattr(socket, "_pump_for_ever", pump)
    await socket._pump_until_it_fails()
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
