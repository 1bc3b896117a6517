"""A small HTTP/1.1 server on asyncio: enough of uvicorn for the panel, curl and a benchmark client."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from . import logs

IDLE_SECONDS = 5.0
MAX_BODY = 64 * 2**20


@dataclass(frozen=True)
class Request:
    """One request, its body read."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        """The body as an object; {} when there is none. Raises ValueError for anything else."""
        value = json.loads(self.body) if self.body.strip() else {}
        if not isinstance(value, dict):
            raise ValueError("The body must be a JSON object")
        return value


@dataclass(frozen=True)
class Response:
    """An answer; with `stream` the body comes in pieces as they are made."""

    status: int = 200
    body: bytes = b""
    kind: str = "text/plain; charset=utf-8"
    stream: AsyncIterator[bytes] | None = field(default=None, compare=False)


def json_response(value: object, *, status: int = 200) -> Response:
    return Response(status, json.dumps(value, separators=(",", ":")).encode(), "application/json")


Handler = Callable[[Request], Awaitable[Response]]


class WebServer:
    """Serves one handler. Connections are kept alive between requests."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> None:
        """Listen. Raises OSError when the port is taken."""
        self._server = await asyncio.start_server(self._serve, host, port, backlog=2048)

    async def stop(self) -> None:
        """Close the listening socket; open connections are not waited for."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while request := await _read(reader):
                await self._answer(request, writer)
                if request.headers.get("connection", "").lower() == "close":
                    break
        except (ConnectionError, asyncio.IncompleteReadError, TimeoutError, ValueError):
            pass  # the client went away, or spoke no HTTP
        finally:
            writer.close()

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> None:
        try:
            response = await self.handler(request)
        except ValueError as error:
            response = json_response({"object": "error", "message": str(error), "code": 400}, status=400)
        phrase = HTTPStatus(response.status).phrase
        host, port = writer.get_extra_info("peername")[:2]
        logs.web(f'{host}:{port} - "{request.method} {request.path} HTTP/1.1" {response.status} {phrase}')
        length = "transfer-encoding: chunked" if response.stream else f"content-length: {len(response.body)}"
        lines = (
            f"HTTP/1.1 {response.status} {phrase}",
            "server: uvicorn",
            f"content-type: {response.kind}",
            length,
            "\r\n",
        )
        writer.write("\r\n".join(lines).encode() + response.body)
        if response.stream:
            async for piece in response.stream:
                writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                await writer.drain()
            writer.write(b"0\r\n\r\n")
        await writer.drain()


async def _read(reader: asyncio.StreamReader) -> Request | None:
    """None when the client closed between two requests."""
    try:
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), IDLE_SECONDS)
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return None
    first, *rest = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    headers = {}
    for line in rest:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    length = int(headers.get("content-length", "0"))
    if length > MAX_BODY:
        raise ValueError("body too large")
    body = await reader.readexactly(length) if length else b""
    parts = urlsplit(target)
    return Request(method, parts.path, dict(parse_qsl(parts.query)), headers, body)
