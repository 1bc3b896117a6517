"""What must hold for any model, card and flags."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.engines.registry import ENGINES
from deployments.fit.asked import Asked, CardMemory
from deployments.fit.changes import changes_that_fit
from deployments.fit.estimate import Verdict, estimate, verdict_of, work_out
from deployments.fit.kv_cache import per_token
from deployments.fit.outcome import Outcome
from deployments.fit.span import CannotTell
from tests.deployments.fit import models
from tests.deployments.fit.gguf_bytes import llama
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
@given(st.integers(1, 16), st.integers(0, 4), st.integers(1, 8), st.sampled_from(["bf16", "fp8", "fp4"]))
def test_cards_beyond_the_kv_heads_never_reduce_kv(heads: int, half: int, times: int, precision: str) -> None:
    """Of the splits that an engine takes: a part of the heads on each card, or each head on the same number of them."""
    cards = heads // 2**half if heads % 2**half == 0 else 1
    known = model(hybrid(32, heads, 32))
    at_heads = per_token(known, precision, cards=heads)
    assert per_token(known, precision, cards=heads * times) == at_heads
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


ODD = st.sampled_from([None, True, 0, 1, 3, 1 << 39, 1 << 60, -1, 0.5, float("nan"), "8", "", [], {}, [1], {"a": 1}])
FIELDS = [*hybrid(4, 4, 32)["text_config"], "kv_lora_rank", "qk_rope_head_dim", "layer_types", "sliding_window",
          "rope_scaling", "quantization_config", "text_config", "vision_config", "num_experts"]  # fmt: skip
FLAGS = [
    "--tp-size", "--pp-size", "--dp-size", "--enable-dp-attention", "--mem-fraction-static", "--context-length",
    "--kv-cache-dtype", "--max-running-requests", "--mamba-full-memory-ratio", "--max-mamba-cache-size",
    "--page-size", "--max-total-tokens", "--chunked-prefill-size", "--disable-radix-cache", "--mamba-ssm-dtype",
    "--speculative-algorithm", "--speculative-num-steps", "--max-model-len", "--gpu-memory-utilization",
    "--speculative-config", "--max-num-seqs", "-c", "-ngl", "-np", "-ts", "-ctk", "-ub", "-sm", "-ncmoe",
]  # fmt: skip
WORDS = st.sampled_from(["0", "1", "2", "-1", "0.9", "1e9", "nan", "inf", "auto", "fp8", "bfloat16", "NEXTN", "8,1",
                         "x", "", "none", "999999999999", "4k", "{}"])  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(list(ENGINES)),
    st.dictionaries(st.sampled_from(FIELDS), ODD, max_size=4),
    st.lists(st.tuples(st.sampled_from(FLAGS), WORDS), max_size=4),
    st.lists(st.builds(CardMemory, st.integers(0, 1 << 40), st.integers(0, 1 << 40)), max_size=2),
    st.booleans(),
)
def test_whatever_is_asked_there_is_an_answer(
    engine: str, odd: dict[str, Any], flags: list[tuple[str, str]], cards: list[CardMemory], inner: bool
) -> None:
    config: dict[str, Any] = hybrid(32, 4, 32)
    (config["text_config"] if inner else config).update(odd)
    read = replace(files(config, 10**9), gguf=(llama(2),))
    found = estimate(Asked(ENGINES[engine], tuple(word for pair in flags for word in pair), read, tuple(cards)))
    assert found.reason and (found.outcome is None) == (found.verdict is Verdict.UNKNOWN)
    changes_that_fit(Asked(ENGINES[engine], tuple(word for pair in flags for word in pair), read, tuple(cards)))
    assert all(row.value for row in found.requests_of(4096))


@pytest.mark.parametrize(("heads", "cards"), [(4, 3), (4, 5), (8, 12)])
def test_a_split_that_engines_refuse_is_told(heads: int, cards: int) -> None:
    with pytest.raises(CannotTell, match=f"{heads} KV heads cannot be split over {cards} cards"):
        per_token(model(hybrid(32, heads, 32)), "bf16", cards=cards)
