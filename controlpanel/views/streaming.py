"""Answers too long for memory, row by row, under WSGI (tests) and ASGI alike."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from django.core.handlers.asgi import ASGIRequest
from django.db.models import QuerySet
from django.http import HttpRequest, StreamingHttpResponse

CHUNK_ROWS = 500


def streamed(
    request: HttpRequest,
    rows: QuerySet[Any],
    *,
    write: Callable[[Any], str],
    name: str,
    content_type: str,
    head: str = "",
    between: str = "",
    tail: str = "",
) -> StreamingHttpResponse:
    """A download named ``name``: ``head``, ``write(row)`` for each row with ``between`` between two, and ``tail``."""

    def lines() -> Iterator[str]:
        yield head
        for number, row in enumerate(rows.iterator(chunk_size=CHUNK_ROWS)):
            yield (between if number else "") + write(row)
        yield tail

    async def lines_async() -> AsyncIterator[str]:
        yield head
        number = 0
        async for row in rows.aiterator(chunk_size=CHUNK_ROWS):
            yield (between if number else "") + write(row)
            number += 1
        yield tail

    content = lines_async() if isinstance(request, ASGIRequest) else lines()
    response = StreamingHttpResponse(content, content_type=f"{content_type}; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["X-Content-Type-Options"] = "nosniff"
    return response
