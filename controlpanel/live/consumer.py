"""The websocket of a page: checks who it is, then reads rows after the browser's cursor and sends them.

One method, `_push`, serves the backlog, a hint and the look every two seconds, so a lost hint costs two
seconds and no data. Sockets are read-only: every action is a POST.
"""

import asyncio
import contextlib
import logging
import time
from dataclasses import dataclass

from channels.generic.websocket import AsyncWebsocketConsumer

from controlpanel.access import Action, may
from controlpanel.build import build_id
from controlpanel.live import protocol
from controlpanel.live.hints import listener
from controlpanel.live.people import person_of, session_key
from controlpanel.live.reading import in_thread, is_authorised, read_all

logger = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
CHECK_SECONDS = 30.0
SEND_SECONDS = 10.0
OPS_IN_TEN_SECONDS = 100  # a page subscribes to all of its streams at once
LARGEST_FRAME = 4 * protocol.LARGEST_BATCH  # one line may be longer than a batch should be


class BrowserLeft(Exception):
    """Nobody is at the other end of the socket any more, which is no fault of anybody's."""


@dataclass
class Followed:
    """A stream that this page follows, and how far it got."""

    cursor: protocol.Cursor
    trouble: str = ""


class LiveConsumer(AsyncWebsocketConsumer):
    # Without a layer of its own: opening a socket must not wait for the broker.
    channel_layer_alias = "none"

    async def connect(self) -> None:
        self._key = session_key(self.scope)
        self._followed: dict[str, Followed] = {}
        self._due: set[str] = set()
        self._wake = asyncio.Event()
        self._checked = 0.0
        self._ops: list[float] = []
        self._pump: asyncio.Task[None] | None = None
        await self.accept()
        if await self._is_welcome():
            self._pump = asyncio.create_task(self._pump_until_it_fails())

    async def disconnect(self, code: int) -> None:
        for stream in self._followed:
            listener().remove(stream, self._on_hint)
        self._followed = {}
        if self._pump is not None and self._pump is not asyncio.current_task():
            self._pump.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._pump

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        with contextlib.suppress(BrowserLeft):
            await self._receive(text_data)

    async def _receive(self, text_data: str | None) -> None:
        try:
            op = protocol.parse(text_data)
        except protocol.BadMessage as problem:
            await self._say({"error": str(problem)})
            await self.close(protocol.BAD_MESSAGE)
            return
        now = time.monotonic()
        self._ops = [at for at in self._ops if now - at < 10] + [now]
        if len(self._ops) > OPS_IN_TEN_SECONDS:
            await self.close(protocol.BAD_MESSAGE)
        elif await self._is_welcome():
            await self._do(op)

    async def _do(self, op: protocol.Op) -> None:
        if isinstance(op, protocol.Hello):
            await self._say({"op": "hello", "v": protocol.VERSION, "build": build_id()})
        elif isinstance(op, protocol.Ping):
            await self._say({"op": "pong"})
        elif isinstance(op, protocol.Subscribe):
            await self._subscribe(op)
        else:
            self._unsubscribe(op.stream)

    async def _subscribe(self, op: protocol.Subscribe) -> None:
        if len(self._followed) >= protocol.MOST_STREAMS and op.stream not in self._followed:
            await self._say({"s": op.stream, "error": f"a page follows at most {protocol.MOST_STREAMS} streams"})
        elif not await in_thread(is_authorised, self._user, op.stream):
            await self._say({"s": op.stream, "error": "not found, or not for you"})
        else:
            self._followed[op.stream] = Followed(cursor=op.cursor)
            listener().add(op.stream, self._on_hint)
            self._on_hint(op.stream)

    def _unsubscribe(self, stream: str) -> None:
        if self._followed.pop(stream, None) is not None:
            listener().remove(stream, self._on_hint)

    def _on_hint(self, stream: str) -> None:
        self._due.add(stream)
        self._wake.set()

    async def _pump_until_it_fails(self) -> None:
        """A pump that cannot go on closes the socket: the page then says so, connects anew and resumes by cursor."""
        try:
            await self._pump_for_ever()
        except BrowserLeft:
            logger.debug("a browser left while something was sent to it")
        except Exception:  # whatever the database does just then
            logger.exception("a live connection could not be served and is closed")
            await self.close(protocol.FAILED)

    async def _pump_for_ever(self) -> None:
        """Send what is new, when a hint comes and every two seconds; one batch is on its way at a time."""
        next_look = time.monotonic() + LOOK_SECONDS
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, next_look - time.monotonic())):
                    await self._wake.wait()
            self._wake.clear()
            due, self._due = self._due, set()
            if time.monotonic() >= next_look:
                due = set(self._followed)
                next_look = time.monotonic() + LOOK_SECONDS
                if time.monotonic() - self._checked > CHECK_SECONDS and not await self._is_still_allowed():
                    return
            await self._push(due)

    async def _push(self, names: set[str]) -> None:
        """Read what follows each stream's cursor and send it; nothing is sent where nothing is new."""
        places = {name: self._followed[name].cursor for name in names if name in self._followed}
        if not places:
            return
        for name, batch in (await in_thread(read_all, self._user, places)).items():
            followed = self._followed.get(name)
            if followed is None or followed.cursor != places[name]:
                continue  # unsubscribed, or subscribed anew from another place, while we read
            if isinstance(batch, str):
                await self._say_trouble(name, followed, batch)
                continue
            if batch.items or batch.cursor != followed.cursor:
                followed.cursor, followed.trouble = batch.cursor, ""
                await self._send(protocol.items_frame(name, batch.encoded, batch.cursor), about=name)
            if batch.more:
                self._on_hint(name)

    async def _say_trouble(self, name: str, followed: Followed, trouble: str) -> None:
        if followed.trouble != trouble:
            followed.trouble = trouble
            await self._say({"s": name, "error": trouble})

    async def _is_welcome(self) -> bool:
        """Whether somebody who may look is signed in; else the socket is closed with the reason."""
        user = await in_thread(person_of, self._key)
        self._checked = time.monotonic()
        if user is None:
            await self.close(protocol.NOT_SIGNED_IN)
            return False
        self._user = user
        if not await in_thread(may, user, Action.LOOK):
            await self.close(protocol.NOT_ALLOWED)
            return False
        return True

    async def _is_still_allowed(self) -> bool:
        """Look again at the person and at each stream; a stream that is no longer theirs ends, with a word
        about it.
        """
        if not await self._is_welcome():
            return False
        for name in list(self._followed):
            if not await in_thread(is_authorised, self._user, name):
                self._unsubscribe(name)
                await self._say({"s": name, "error": "no longer there, or not for you"})
        return True

    async def _say(self, frame: protocol.Frame) -> None:
        await self._send(protocol.encode(frame), about=str(frame.get("s")))

    async def _send(self, text: str, *, about: str) -> None:
        """Send one frame; a browser that needs more than ten seconds is let go, and resumes later."""
        if len(text) > LARGEST_FRAME:
            logger.error("A batch of %s is %d bytes long and is not sent.", about, len(text))
            text = protocol.encode({"s": about, "error": "too much at once"})
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self.send(text_data=text)
        except TimeoutError:
            await self.close(protocol.TOO_SLOW)
        except OSError as error:  # how the server says that nobody is at the other end any more
            raise BrowserLeft from error
