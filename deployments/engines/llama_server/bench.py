"""A benchmark of llama-server: its own /completion tells the tokens so far, and at the end its drafts. PURE.

Facts: server_task_result_cmpl_partial and _final of llama.cpp's server: ``tokens_predicted``, ``timings.draft_n`` and
``timings.draft_n_accepted``. Each step gives one token beside those that were accepted of a draft. A connection that is
kept open holds one of the server's few HTTP threads (cpp-httplib), so that others would wait for all of its requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deployments.engines.bench import Bench, Piece, error_of, post, whole
from deployments.engines.request import HttpRequest


def request(prompt: str, tokens: int) -> HttpRequest:
    """Exactly so many tokens: the end of the text does not end it."""
    body = {"prompt": prompt, "n_predict": tokens, "ignore_eos": True, "temperature": 0, "stream": True}
    return post("/completion", body)


def read(told: Mapping[str, Any]) -> Piece:
    """One piece: the new text and the counts so far."""
    tokens = whole(told.get("tokens_predicted"))
    says = bool(told.get("content")) or bool(told.get("tokens"))
    return Piece(tokens=tokens, says=says, acceptance=_acceptance(told, tokens), error=error_of(told))


def _acceptance(told: Mapping[str, Any], tokens: int | None) -> float | None:
    timings = told.get("timings")
    if not isinstance(timings, Mapping) or not tokens or not whole(timings.get("draft_n")):
        return None
    steps = tokens - (whole(timings.get("draft_n_accepted")) or 0)
    return tokens / steps if steps > 0 else None


BENCH = Bench(request, read, keeps_open=False)
