"""Hints that something changed: "look at stream X". They may be lost; nobody may ever wait for them.

`hint` is for any thread of any process: it only notes the name. One background thread per process sends, at
most five times a second, each name once, with a deadline of a second. The web process listens with one
channel for all its sockets (`Listener`). The only module that knows the channel layer.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from channels.layers import get_channel_layer

from controlpanel.live.protocol import group_of
from controlpanel.live.reading import forget_shared

logger = logging.getLogger(__name__)

FLUSH_SECONDS = 0.2
SEND_SECONDS = 1.0
MOST_PENDING = 10_000  # names; more means that nothing is being sent, and they would be stale anyway
LONGEST_PAUSE = 15.0
WORTH_SAYING = 3  # failures in a row
GROUP_SECONDS = 3600.0  # memberships expire in the layer; join again this often

Send = Callable[[str], Awaitable[None]]


async def _send_to_layer(stream: str) -> None:
    layer = get_channel_layer()
    if layer is not None:
        await layer.group_send(group_of(stream), {"type": "hint", "s": stream})


class Sender:
    """The background thread of one process."""

    def __init__(self, *, send: Send = _send_to_layer) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._pending: dict[str, None] = {}
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._failures = 0

    def hint(self, stream: str) -> None:
        """Note that `stream` has something new; returns at once, whatever the layer does."""
        with self._lock:
            if len(self._pending) < MOST_PENDING:
                self._pending[stream] = None
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="live-hints", daemon=True)
                self._thread.start()
        self._wake.set()

    def _take(self) -> list[str]:
        with self._lock:
            streams, self._pending = list(self._pending), {}
        return streams

    def _run(self) -> None:
        """Send for as long as the process lives; one event loop, because the layer keeps its connections per
        loop.
        """
        with asyncio.Runner() as runner:
            while True:
                self._wake.wait()
                self._wake.clear()
                runner.run(self._flush(self._take()))

    async def _flush(self, streams: Iterable[str]) -> None:
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await asyncio.gather(*(self._send(stream) for stream in streams))
            self._failures = 0
        except Exception as problem:  # any fault of the layer or its server: the sockets look by themselves every 2 s
            self._failures += 1
            if self._failures == WORTH_SAYING:  # the first connection of a busy machine may take its second
                logger.warning("Live hints cannot be sent (%r); pages update every two seconds instead.", problem)
        await asyncio.sleep(FLUSH_SECONDS)


_sender = Sender()


def hint(stream: str) -> None:
    """Tell all web processes that `stream` has something new. Never blocks, never fails."""
    _sender.hint(stream)


class Listener:
    """Receives the hints of one event loop's sockets; when the layer fails it tries again and again, on
    its own.
    """

    def __init__(self) -> None:
        self._wakers: dict[str, set[Callable[[str], None]]] = {}
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def add(self, stream: str, waker: Callable[[str], None]) -> None:
        """Call `waker(stream)` in this loop for each hint about `stream`."""
        self._wakers.setdefault(stream, set()).add(waker)
        self._changed.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._listen_for_ever())

    def remove(self, stream: str, waker: Callable[[str], None]) -> None:
        """Stop calling `waker`; the listener ends with its last waker."""
        wakers = self._wakers.get(stream, set())
        wakers.discard(waker)
        if not wakers:
            self._wakers.pop(stream, None)
        self._changed.set()
        if not self._wakers and self._task is not None:
            self._task.cancel()
            self._task = None

    async def _listen_for_ever(self) -> None:
        pause = 0.5
        while True:
            try:
                await self._listen()
            except Exception as problem:  # the layer is in trouble: sockets go on by their own clock
                logger.debug("No live hints (%r); trying again in %.1f s.", problem, pause)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _listen(self) -> None:
        layer = get_channel_layer()
        if layer is None:
            return
        async with asyncio.timeout(SEND_SECONDS):
            channel = await layer.new_channel()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_joined(layer, channel))
            group.create_task(self._receive(layer, channel))

    async def _receive(self, layer: Any, channel: str) -> None:
        while True:
            message = await layer.receive(channel)
            stream = message.get("s", "")
            forget_shared(stream)
            for waker in tuple(self._wakers.get(stream, ())):
                waker(stream)

    async def _keep_joined(self, layer: Any, channel: str) -> None:
        """Join the groups of the streams that somebody follows, and leave the others.

        `asyncio.timeout` and not `wait_for`: the latter can swallow a cancellation that comes together with the event.
        """
        joined: set[str] = set()
        while True:
            self._changed.clear()
            wanted = set(self._wakers)
            async with asyncio.timeout(SEND_SECONDS + 0.01 * len(wanted ^ joined)):
                for stream in wanted - joined:
                    await layer.group_add(group_of(stream), channel)
                for stream in joined - wanted:
                    await layer.group_discard(group_of(stream), channel)
            joined = wanted
            try:
                async with asyncio.timeout(GROUP_SECONDS):
                    await self._changed.wait()
            except TimeoutError:
                joined = set()


_listeners: dict[int, tuple[asyncio.AbstractEventLoop, Listener]] = {}


def listener() -> Listener:
    """Return the listener of the running event loop."""
    loop = asyncio.get_running_loop()
    for key, (known, _) in list(_listeners.items()):
        if known.is_closed():
            del _listeners[key]
    return _listeners.setdefault(id(loop), (loop, Listener()))[1]
