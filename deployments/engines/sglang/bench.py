"""A benchmark of SGLang: its own /generate tells tokens and acceptance with each piece. PURE.

Facts: TokenizerManager puts ``completion_tokens``, and with speculative decoding ``spec_verify_ct`` and
``spec_accept_length``, into ``meta_info`` of each piece (0.5.9 to 0.5.23).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deployments.engines.bench import Bench, Piece, error_of, number, post, whole
from deployments.engines.request import HttpRequest


def request(prompt: str, tokens: int) -> HttpRequest:
    """Exactly so many tokens: the end of the text does not end it."""
    sampling = {"max_new_tokens": tokens, "ignore_eos": True, "temperature": 0}
    return post("/generate", {"text": prompt, "sampling_params": sampling, "stream": True})


def read(told: Mapping[str, Any]) -> Piece:
    """One piece: the text and the counts so far."""
    meta = told.get("meta_info")
    if not isinstance(meta, Mapping):
        return Piece(error=error_of(told))
    tokens = whole(meta.get("completion_tokens"))
    return Piece(tokens=tokens, says=bool(tokens), acceptance=_acceptance(meta, tokens), error=_aborted(meta))


def _acceptance(meta: Mapping[str, Any], tokens: int | None) -> float | None:
    steps = whole(meta.get("spec_verify_ct"))
    if steps and tokens:
        return tokens / steps
    return number(meta.get("spec_accept_length"))


def _aborted(meta: Mapping[str, Any]) -> str:
    reason = meta.get("finish_reason")
    if not isinstance(reason, Mapping) or reason.get("type") != "abort":
        return ""
    return f"SGLang broke it off: {reason.get('message') or 'no reason given'}"


BENCH = Bench(request, read)
