"""Answers too long for memory, row by row, under WSGI (tests) and ASGI alike."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from django.core.handlers.asgi import ASGIRequest
from django.db.models import QuerySet
from django.http import HttpRequest, StreamingHttpResponse

CHUNK_ROWS = 500


def streamed(
    request: HttpRequest, rows: QuerySet[Any], *, write: Callable[[Any], str], head: str, name: str, content_type: str
) -> StreamingHttpResponse:
    """A download named ``name``: ``head``, then ``write(row)`` for each row."""

    def lines() -> Iterator[str]:
        yield head
        for row in rows.iterator(chunk_size=CHUNK_ROWS):
            yield write(row)

    async def lines_async() -> AsyncIterator[str]:
        yield head
        async for row in rows.aiterator(chunk_size=CHUNK_ROWS):
            yield write(row)

    content = lines_async() if isinstance(request, ASGIRequest) else lines()
    response = StreamingHttpResponse(content, content_type=f"{content_type}; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["X-Content-Type-Options"] = "nosniff"
    return response
