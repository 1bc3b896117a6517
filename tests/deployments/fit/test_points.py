"""Bytes a token and a slot, times the counts that real servers have logged, give the sizes that they have logged.

Data points of published logs: configuration, counts and sizes in GiB as printed there, to two decimals.
"""

from __future__ import annotations

from typing import Any

import pytest

from deployments.fit.files import IndexFacts
from deployments.fit.kv_cache import of_layers, per_token
from deployments.fit.model import Attention, read_model
from deployments.fit.recurrent import slot_of
from deployments.fit.span import CannotTell
from hosts.probe.frames import Unknown
from tests.deployments.fit import models
from tests.deployments.fit.models import GIB, hybrid, model


def assert_near(what: str, found: float, logged: float, *, within: float = 0.01) -> None:
    error = (found - logged) / logged
    print(f"{what}: {found:.3f} GiB, logged {logged} ({error:+.2%})")
    assert abs(error) <= within


@pytest.mark.parametrize(
    ("row", "config", "precision", "cards", "tokens", "logged"),
    [
        (1, models.QWEN35_9B, "bf16", 2, 327_310, 5.00),
        (2, models.NEXT_80B, "bf16", 4, 2_896_645, 33.14),
        (3, models.QWEN3_235B, "bf16", 4, 367_404, 16.46),
        (4, models.KIMI_K2, "bf16", 8, 2_454_421, 160.63),
        (5, models.QWEN35_27B, "fp8", 1, 228_520, 6.98),
        (6, models.QWEN35_27B, "fp8", 2, 454_112, 6.92),
        (7, models.QWEN3_8B, "bf16", 1, 992_896, 136.36),
        (8, models.QWEN35_35B, "bf16", 1, 278_000, 5.3),
        (9, models.QWEN35_9B, "bf16", 1, 295_950, 9.04),
    ],
)
def test_kv_bytes_a_token(
    row: int, config: dict[str, Any], precision: str, cards: int, tokens: int, logged: float
) -> None:
    found = per_token(model(config), precision, cards=cards) * tokens / GIB
    assert_near(f"row {row}, KV of {tokens:,} tokens", found, logged)


def test_kv_bytes_a_token_of_vllm() -> None:
    """Row 3 again: its log states the memory of one rank, and the tokens of the one that has least."""
    found = per_token(model(models.QWEN3_235B), "bf16", cards=4) * 178_880 / GIB
    assert_near("row 3, vLLM, KV of 178,880 tokens", found, 8.11, within=0.012)


def test_kv_of_the_draft_model() -> None:
    """Row 6: five layers beside the target's, of the same heads."""
    draft = Attention(5, 4, 256, 256)
    assert_near("row 6, draft KV", of_layers(draft, width=1, cards=2) * 454_112 / GIB, 2.16)


@pytest.mark.parametrize(
    ("row", "config", "cards", "slots", "conv", "ssm"),
    [
        (1, models.QWEN35_9B, 2, 187, 0.10, 4.38),
        (5, models.QWEN35_27B, 1, 361, 0.99, 50.77),
        (9, models.QWEN35_9B, 1, 65, 0.07, 3.05),
    ],
)
def test_state_bytes_a_slot(row: int, config: dict[str, Any], cards: int, slots: int, conv: float, ssm: float) -> None:
    linear = model(config).linear
    assert linear is not None
    slot = slot_of(linear, cards=cards)
    # 0.10 and 0.07 are all that the log has of the digits.
    assert abs(slot.conv * slots / GIB - conv) <= 0.005
    assert_near(f"row {row}, state of {slots} slots", slot.total * slots / GIB, conv + ssm)


def test_states_kept_while_drafts_are_verified() -> None:
    """Row 9: 64 slots and one to pad, 16 draft tokens each."""
    linear = model(models.QWEN35_9B).linear
    assert linear is not None
    slot = slot_of(linear, cards=1)
    assert_near("row 9, intermediate states", 65 * 16 * slot.ssm / GIB, 48.75)
    assert_near("row 9, windows of convolution", 65 * slot.window(16) / GIB, 0.43)


@pytest.mark.parametrize(
    ("config", "tp1", "tp2"),
    [
        (models.NEXT_80B, 24_576, 12_288),
        (models.QWEN35_35B, 20_480, 10_240),
        (models.QWEN35_27B, 65_536, 32_768),
        (hybrid(48, 2, 64), 24_576, 12_288),
        (models.QWEN35_397B, 30_720, 15_360),
    ],
)
def test_heads_are_replicated_beyond_their_number(config: dict[str, Any], tp1: int, tp2: int) -> None:
    known = model(config)
    assert (per_token(known, "bf16", cards=1), per_token(known, "bf16", cards=2)) == (tp1, tp2)
    assert per_token(known, "bf16", cards=16) == per_token(known, "bf16", cards=8)
    assert per_token(known, "fp8", cards=2) == tp2 / 2


def test_sliding_layers_have_a_smaller_pool_where_the_engine_knows_them() -> None:
    kinds = ["sliding_attention", "full_attention"] * 12
    config = models.dense(24, 64, 8, 64, layer_types=kinds, sliding_window=128, architectures=["GptOssForCausalLM"])
    layer = 8 * 128 * 2
    assert per_token(model(config), "bf16", cards=1) == layer * 12 + layer * 12 * 0.8
    assert per_token(model({**config, "architectures": ["Other"]}), "bf16", cards=1) == layer * 24


def test_fp4_has_scales() -> None:
    assert per_token(model(models.KIMI_K2), "fp4", cards=8) == (512 + 64) * 61 * (0.5 + 1 / 16)


@pytest.mark.parametrize("name", ["num_hidden_layers", "num_key_value_heads", "full_attention_interval",
                                  "linear_num_key_heads", "linear_conv_kernel_dim"])  # fmt: skip
def test_a_missing_field_is_named(name: str) -> None:
    config = hybrid(32, 4, 32)
    del config["text_config"][name]
    read = read_model(models.files(config, GIB))
    assert isinstance(read, Unknown) and name in read.reason


@pytest.mark.parametrize("value", [-1, True, "32", 1.5, 1 << 60, [2]])
def test_an_odd_field_is_named(value: object) -> None:
    read = read_model(models.files({**models.QWEN3_8B, "num_key_value_heads": value}, GIB))
    assert isinstance(read, Unknown) and "num_key_value_heads" in read.reason


@pytest.mark.parametrize(
    "config",
    [
        {**models.QWEN3_8B, "hybrid_override_pattern": "M*"},
        {**models.QWEN3_8B, "layer_types": ["moon_attention"] * 36},
        {**models.QWEN3_8B, "layer_types": ["full_attention"]},
        {**models.QWEN3_8B, "is_encoder_decoder": True},
    ],
)
def test_what_is_not_understood_is_unknown(config: dict[str, Any]) -> None:
    read = read_model(models.files(config, GIB))
    assert isinstance(read, Unknown) and read.reason.endswith(".")


@pytest.mark.parametrize(
    ("cards", "more", "says"),
    [
        (1, {"mamba_ssm_dtype": "float8"}, "float8"),
        (64, {}, "cannot be split over 64 cards"),
        (1, {"linear_num_value_heads": 0, "linear_num_key_heads": 0}, "keeps nothing"),
    ],
)
def test_a_state_that_cannot_be_told(cards: int, more: dict[str, Any], says: str) -> None:
    linear = model(hybrid(32, 4, 32, **more)).linear
    assert linear is not None
    with pytest.raises(CannotTell, match=says):
        slot_of(linear, cards=cards)


@pytest.mark.parametrize(
    ("side", "config", "asks"),
    [
        ({"quantization": {"kv_cache_quant_algo": "FP8"}}, {}, True),
        ({"quantization": {"kv_cache_quant_algo": None}}, {}, False),
        (None, {"quantization_config": {"kv_cache_scheme": {"num_bits": 8}}}, True),
        (None, {"quantization_config": {"kv_cache_scheme": None}}, False),
        (None, {}, False),
    ],
)
def test_the_checkpoint_may_ask_for_fp8(side: object, config: dict[str, Any], asks: bool) -> None:
    assert model({**models.QWEN3_8B, **config}, quantization=side).fp8_kv is asks


@pytest.mark.parametrize(
    ("scaling", "context"),
    [
        (None, 40960),
        ({"rope_type": "yarn", "factor": 4.0}, 163840),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 10240}, 40960),
        ({"rope_type": "llama3", "factor": 8.0}, 40960),
    ],
)
def test_the_context_that_the_model_has(scaling: object, context: int) -> None:
    assert model({**models.QWEN3_8B, "rope_scaling": scaling}).context == context


def test_weights_of_an_incomplete_folder_are_those_of_the_index() -> None:
    """The missing file is named elsewhere; what the server will need does not depend on it."""
    index = IndexFacts(30 * GIB, frozenset({"a.safetensors", "b.safetensors"}))
    half = models.files(models.QWEN3_8B, 0, index=index, sizes={"a.safetensors": 15 * GIB, "other.safetensors": GIB})
    assert half.missing == ("b.safetensors",)
    read = read_model(half)
    assert not isinstance(read, Unknown) and read.weights.likely == 30 * GIB


def test_files_that_the_index_does_not_name_do_not_count() -> None:
    index = IndexFacts(None, frozenset({"a.safetensors"}))
    read = read_model(models.files(models.QWEN3_8B, 0, index=index, sizes={"a.safetensors": 7, "copy.safetensors": 9}))
    assert not isinstance(read, Unknown) and read.weights.likely == 7
