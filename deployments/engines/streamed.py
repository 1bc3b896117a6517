"""An answer that comes in pieces, as server-sent events, read as the whole one that it stands for. PURE."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

PARTS = ("content", "reasoning_content", "reasoning")
"""Of a chat's message, as its pieces name them too."""


def is_streamed(body: bytes) -> bool:
    """Or was it answered at once, as JSON?"""
    return body.lstrip().startswith((b"data:", b"event:", b"id:", b":"))


def as_whole(body: bytes) -> Mapping[str, Any]:
    """What the server would have answered at once; of one that has broken off with an error, that error.

    A piece that has not come whole is left out.
    """
    found: dict[str, str] = {}
    for piece in _pieces(body):
        if piece.get("error"):
            return {"error": piece["error"]}
        for name, text in _texts(piece):
            found[name] = found.get(name, "") + text
    message = {name: found[name] for name in PARTS if name in found}
    return {"choices": [{"message": message, **({"text": found["text"]} if "text" in found else {})}]}


def _pieces(body: bytes) -> Iterator[Mapping[str, Any]]:
    for line in body.split(b"\n"):
        name, _, value = line.strip().partition(b":")
        if name not in (b"data", b"error"):
            continue
        try:
            piece = json.loads(value)
        except (ValueError, RecursionError):
            continue
        if isinstance(piece, dict):
            yield piece


def _texts(piece: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What one piece brings, by the name of its part."""
    choices = piece.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        return
    delta = choice.get("delta")
    parts = {name: delta.get(name) for name in PARTS} if isinstance(delta, dict) else {}
    for name, text in {"text": choice.get("text"), **parts}.items():
        if isinstance(text, str):
            yield name, text
