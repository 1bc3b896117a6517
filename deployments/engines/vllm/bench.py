"""A benchmark of vLLM: its chunks tell the tokens so far, its metrics page what speculative decoding did. PURE.

Facts: StreamOptions.continuous_usage_stats and ignore_eos of vLLM's CompletionRequest; the counters
vllm:spec_decode_num_drafts_total and vllm:spec_decode_num_accepted_tokens_total. A draft that is wholly refused still
gives one token, so that the acceptance length is one more than what was accepted per draft.
"""

from __future__ import annotations

from deployments.engines.bench import Bench, counter, openai_piece, post
from deployments.engines.request import HttpRequest

DRAFTS = "vllm:spec_decode_num_drafts_total"
ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"


def request(prompt: str, tokens: int) -> HttpRequest:
    """Exactly so many tokens: the end of the text does not end it."""
    return post(
        "/v1/completions",
        {
            "prompt": prompt,
            "max_tokens": tokens,
            "ignore_eos": True,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        },
    )


def accepted(before: str, after: str) -> float | None:
    """Tokens per draft between two readings of /metrics; None without speculative decoding."""
    readings = [(counter(page, DRAFTS), counter(page, ACCEPTED)) for page in (before, after)]
    (drafts, taken), (drafts_after, taken_after) = readings
    if drafts is None or taken is None or drafts_after is None or taken_after is None or drafts_after <= drafts:
        return None
    return 1 + (taken_after - taken) / (drafts_after - drafts)


BENCH = Bench(request, openai_piece, accepted)
