"""What must hold for any model, card and flags."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.engines.registry import ENGINES
from deployments.fit.asked import Asked, CardMemory
from deployments.fit.estimate import Verdict, estimate, verdict_of, work_out
from deployments.fit.kv_cache import per_token
from deployments.fit.outcome import Outcome
from tests.deployments.fit import models
from tests.deployments.fit.models import GIB, files, hybrid, model

ORDER = [Verdict.DOES_NOT_FIT, Verdict.TOO_CLOSE, Verdict.FITS]
CONFIGS = st.sampled_from([models.QWEN3_8B, models.QWEN35_9B, models.QWEN35_27B, models.NEXT_80B, models.KIMI_K2])
SPECULATION = ("--speculative-algorithm", "NEXTN", "--speculative-num-draft-tokens", "4")


@st.composite
def questions(draw: st.DrawFn) -> Asked:
    """A start of SGLang or vLLM on 1 to 8 cards, from hopeless to easy."""
    key = draw(st.sampled_from(["sglang", "vllm"]))
    cards = draw(st.sampled_from([1, 2, 4, 8]))
    total = draw(st.integers(16, 180)) * GIB
    free = draw(st.integers(0, 100)) * total // 100
    flags: list[str] = ["--tp-size" if key == "sglang" else "-tp", str(cards)]
    if draw(st.booleans()):
        name = "--mem-fraction-static" if key == "sglang" else "--gpu-memory-utilization"
        flags += [name, str(draw(st.integers(20, 98)) / 100)]
    config: dict[str, Any] = draw(CONFIGS)
    if key == "sglang" and draw(st.booleans()) and config is not models.KIMI_K2 and config is not models.QWEN3_8B:
        flags += SPECULATION
    weights = draw(st.integers(1, 700)) * 10**9
    version = draw(st.sampled_from(["", "0.5.9", "0.5.11", "0.19.1"]))
    return Asked(ENGINES[key], tuple(flags), files(config, weights), (CardMemory(total, free),) * cards, version)


def with_context(asked: Asked, tokens: int) -> Asked:
    flag = "--context-length" if asked.engine.key == "sglang" else "--max-model-len"
    return replace(asked, argv=(*asked.argv, flag, str(tokens)))


def rank(asked: Asked) -> int:
    found = work_out(asked)
    assert isinstance(found, Outcome), found
    return ORDER.index(verdict_of(found)[0])


@settings(max_examples=15, deadline=None)
@given(questions(), st.integers(1, 40 * GIB))
def test_more_memory_never_fits_less(asked: Asked, more: int) -> None:
    """More of the same card is free."""
    freer = tuple(CardMemory(card.total, min(card.total, card.free + more)) for card in asked.cards)
    assert rank(replace(asked, cards=freer)) >= rank(asked)


@settings(max_examples=15, deadline=None)
@given(questions(), st.integers(1, 300_000), st.integers(1, 300_000))
def test_more_context_never_fits_more(asked: Asked, one: int, other: int) -> None:
    shorter, longer = sorted((one, other))
    assert rank(with_context(asked, shorter)) >= rank(with_context(asked, longer))


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 16), st.integers(1, 16), st.integers(0, 8), st.sampled_from(["bf16", "fp8", "fp4"]))
def test_cards_beyond_the_kv_heads_never_reduce_kv(heads: int, cards: int, more: int, precision: str) -> None:
    known = model(hybrid(32, heads, 32))
    at_heads = per_token(known, precision, cards=heads)
    assert per_token(known, precision, cards=heads + more) == at_heads
    assert per_token(known, precision, cards=cards) >= at_heads
    latent = model(models.KIMI_K2)
    assert per_token(latent, precision, cards=cards) == per_token(latent, precision, cards=1)


@settings(max_examples=15, deadline=None)
@given(questions())
def test_the_verdict_and_the_numbers_agree(asked: Asked) -> None:
    found = estimate(asked)
    assert found.outcome is not None, found.reason
    pools, context = found.outcome.pools, found.outcome.context
    for span in (pools.kv, found.outcome.weights, *pools.limits(context).values()):
        assert span.low <= span.likely <= span.high
    if found.verdict is Verdict.FITS:
        assert pools.requests(context) >= 1
    assert found.reason
