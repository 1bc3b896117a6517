"""vLLM's fraction counts of the whole card, and all of it must be free."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from deployments.engines.registry import ENGINES
from deployments.fit.asked import Asked, CardMemory
from deployments.fit.changes import changes_that_fit
from deployments.fit.estimate import Verdict, estimate
from deployments.fit.outcome import KV, RUNNING
from tests.deployments.fit import models
from tests.deployments.fit.models import GIB, files


def asked(command: str, config: dict[str, Any], weights: float, *, cards: int = 1, free: float = 79.0) -> Asked:
    """On H100s of 79.6 GiB, with ``free`` GiB."""
    card = CardMemory(round(79.65 * GIB), round(free * GIB))
    argv = ("vllm", "serve", "/models/m", *shlex.split(command))
    return Asked(ENGINES["vllm"], argv, files(config, weights), (card,) * cards, "0.19.1")


def test_row_3_is_within_its_bounds() -> None:
    """178,880 tokens were logged; the trial run took more than most."""
    found = estimate(asked("-tp 4 --max-model-len 40960", models.QWEN3_235B, 236.5e9, cards=4))
    assert found.outcome is not None
    tokens = found.outcome.pools.tokens(40960)
    print(f"row 3, vLLM: {tokens.low:,.0f} to {tokens.high:,.0f} tokens, logged 178,880")
    assert tokens.low <= 178_880 <= tokens.high


def test_what_is_not_free_stops_the_start() -> None:
    """SGLang would start with less; vLLM refuses, although the model would fit into what is free."""
    held = estimate(asked("", models.QWEN3_8B, 16e9, free=60))
    assert held.verdict is Verdict.DOES_NOT_FIT
    assert held.reason.startswith("vLLM refuses to start") and "11.7 GiB are missing" in held.reason
    assert estimate(asked("", models.QWEN3_8B, 16e9)).verdict is Verdict.FITS
    first = changes_that_fit(asked("", models.QWEN3_8B, 16e9, free=60))[0]
    assert first.flags == ("--gpu-memory-utilization", "0.75")


def test_one_request_must_go_in() -> None:
    found = estimate(asked("--gpu-memory-utilization 0.4", models.QWEN3_8B, 29e9))
    assert found.verdict is Verdict.DOES_NOT_FIT and found.reason.startswith(
        "One request of 40,960 tokens takes 5.6 GiB"
    )


def test_requests_at_once() -> None:
    found = estimate(asked("--max-num-seqs 3", models.QWEN3_8B, 16e9))
    assert found.outcome is not None and found.precisions is not None
    assert (found.outcome.pools.requests(4096), found.limiting) == (3, RUNNING)
    fp8, bf16 = found.precisions["fp8"].limits(40960)[KV], found.precisions["bf16"].limits(40960)[KV]
    assert fp8.likely == pytest.approx(2 * bf16.likely)


def test_sliding_layers_keep_their_window() -> None:
    kinds = ["sliding_attention", "full_attention"] * 18
    config = {**models.QWEN3_8B, "layer_types": kinds, "sliding_window": 1024}
    found = estimate(asked("", config, 16e9))
    assert found.outcome is not None
    layer = 8 * 256 * 2 * 18
    assert found.outcome.pools.cost(40960) == layer * (40960 + 1024)
    assert found.outcome.pools.cost(512) == layer * 1024


def test_states_come_from_the_same_memory() -> None:
    found = estimate(asked("--max-model-len 32768", models.QWEN35_9B, 18e9))
    assert found.outcome is not None
    pools = found.outcome.pools
    assert pools.cost(32768) == 32768 * 32_768 + 24.5625 * 2 * (1 << 20)
    drafts = estimate(
        asked('--speculative-config \'{"method":"mtp","num_speculative_tokens":1}\'', models.QWEN35_9B, 18e9)
    )
    assert drafts.outcome is not None and drafts.outcome.pools.fixed == 2 * pools.fixed


def test_a_context_that_the_engine_chooses() -> None:
    found = estimate(asked("--max-model-len -1 --gpu-memory-utilization 0.35", models.QWEN3_8B, 16e9))
    assert found.verdict is Verdict.FITS and found.outcome is not None
    assert 0 < found.outcome.context < 40960
    plenty = estimate(asked("--max-model-len -1", models.QWEN3_8B, 16e9))
    assert plenty.outcome is not None and plenty.outcome.context == 40960


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("-dp 2", "The flags ask for 2 cards"),
        ("--kv-cache-dtype moon", "KV cache in moon"),
        ("--speculative-config {}", "num_speculative_tokens"),
        (f"--speculative-config {'[' * 50_000}", "num_speculative_tokens"),
        ('--speculative-config \'{"num_speculative_tokens": 2, "model": "/d"}\'', "draft model /d"),
        ("--max-model-len 12q", "--max-model-len 12q"),
    ],
)
def test_what_cannot_be_told_is_named(flags: str, says: str) -> None:
    found = estimate(asked(flags, models.QWEN3_8B, 16e9))
    assert found.verdict is Verdict.UNKNOWN and says in found.reason
