"""How an engine is asked in a benchmark, and how the pieces of its streamed answer are read. PURE."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from deployments.engines.request import HttpRequest

ANSWER_SECONDS = 600.0
LARGEST = 2**53
"""Above it nothing is counted or measured."""


@dataclass(frozen=True)
class Piece:
    """What one piece of a stream tells. ``tokens``: made so far in this answer; ``says``: it brings new text.

    ``acceptance``: tokens per step of speculative decoding, of this answer. None: not told.
    """

    tokens: int | None = None
    says: bool = False
    acceptance: float | None = None
    error: str = ""


@dataclass(frozen=True)
class Bench:
    """One engine's way. ``request(prompt, tokens)`` asks for exactly so many tokens, at temperature 0, as a stream.

    It never asks to flush a cache. ``accepted(before, after)`` reads the acceptance length from two readings of the
    metrics page, for an engine that does not tell it with the answer. ``keeps_open``: may a connection carry one
    request after another?
    """

    request: Callable[[str, int], HttpRequest]
    read: Callable[[Mapping[str, Any]], Piece]
    accepted: Callable[[str, str], float | None] | None = None
    keeps_open: bool = True


def post(path: str, body: Mapping[str, object]) -> HttpRequest:
    """A request of a benchmark."""
    return HttpRequest("POST", path, body, timeout=ANSWER_SECONDS)


def whole(value: object) -> int | None:
    """A count as it stands in JSON; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < LARGEST else None


def number(value: object) -> float | None:
    """A measured number as it stands in JSON; None for anything else, and for what is no number of this world."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < LARGEST else None


def error_of(told: Mapping[str, Any]) -> str:
    """What an engine says of a failure in the middle of a stream; empty when it says nothing of one."""
    error = told.get("error")
    if isinstance(error, Mapping):
        return str(error.get("message") or error)
    return str(error) if error else ""


def counter(metrics: str, name: str) -> float | None:
    """The sum of a counter over all its labels on a Prometheus page; None when it is not there."""
    found = re.findall(rf"^{re.escape(name)}(?:\{{[^}}\n]*\}})? +([0-9.eE+]+)$", metrics, re.M)
    try:
        return sum(map(float, found)) if found else None
    except ValueError:
        return None


def openai_request(prompt: str, tokens: int) -> HttpRequest:
    """As every server with OpenAI's API takes it."""
    return post(
        "/v1/completions",
        {
            "prompt": prompt,
            "max_tokens": tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        },
    )


def openai_piece(told: Mapping[str, Any]) -> Piece:
    """A chunk of a completion, or the whole of one that was not streamed."""
    usage, choices = told.get("usage"), told.get("choices")
    tokens = whole(usage.get("completion_tokens")) if isinstance(usage, Mapping) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    says = isinstance(first, Mapping) and bool(first.get("text"))
    return Piece(tokens=tokens, says=says, error=error_of(told))


OPENAI = Bench(openai_request, openai_piece)
"""For a server of which nothing else is known."""
