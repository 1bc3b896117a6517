"""llama-server takes all of its memory at the start: weights of the layers on the cards, and their cache."""

from __future__ import annotations

import shlex
from dataclasses import replace
from itertools import pairwise

import pytest

from deployments.engines.registry import ENGINES
from deployments.fit.asked import Asked, CardMemory
from deployments.fit.changes import changes_that_fit
from deployments.fit.estimate import Estimate, Verdict, estimate
from deployments.fit.files import ModelFiles
from deployments.fit.gguf import GgufHeader
from deployments.fit.gguf_model import read_gguf_model
from deployments.fit.llama_server import work_out
from hosts.probe.frames import Unknown
from tests.deployments.fit.gguf_bytes import GIB, header, llama

KV_TOKEN = 32 * 8 * 128 * 2 * 2
"""Of the plain model, in f16."""


def asked(command: str = "", *parts: GgufHeader, free: tuple[float, ...] = (24.0,)) -> Asked:
    cards = tuple(CardMemory(24 * GIB, round(each * GIB)) for each in free)
    argv = ("llama-server", "-m", "/models/m.gguf", *shlex.split(command))
    return Asked(ENGINES["llama_server"], argv, ModelFiles(gguf=parts or (llama(),)), cards)


def needed(found: Estimate) -> dict[str, str]:
    return {row.label: row.value for row in found.rows}


def test_weights_and_cache_of_a_plain_model() -> None:
    found = estimate(asked("-c 32768 -fa on"))
    assert found.verdict is Verdict.FITS and found.outcome is not None
    assert found.outcome.pools.per_token == KV_TOKEN == 131_072
    assert needed(found)["Layers on the cards"] == "32 of 32"
    assert needed(found)["Weights"] == "4.2 GiB"
    # 4.25 GiB of weights, 4 GiB of cache, what CUDA takes, and the scores of one batch.
    assert needed(found)["Needed on card 0"].startswith("8.8 GiB")
    assert found.outcome.pools.requests(8192) == 4


def test_a_cache_of_fewer_bits() -> None:
    found = estimate(asked("-c 32768 -ctk q8_0 -ctv q8_0"))
    assert found.outcome is not None and found.precisions is not None
    assert found.outcome.pools.per_token == KV_TOKEN / 2 * 34 / 32
    assert found.precisions.keys() == {"f16", "q8_0"}


def test_the_models_own_context_when_none_is_asked_for() -> None:
    for flags in ("", "-c 0"):
        found = estimate(asked(flags))
        assert found.outcome is not None and found.outcome.context == 32768
    assert estimate(asked("-c 32768 -np 2")).outcome.context == 16384  # type: ignore[union-attr]


def test_layers_left_to_the_processor_need_no_card() -> None:
    small = estimate(asked("-ngl 8 -c 4096", free=(6.0,)))
    assert needed(small)["Layers on the cards"] == "7 of 32"
    assert small.verdict is Verdict.FITS
    assert estimate(asked("-ngl all -c 32768", free=(6.0,))).verdict is Verdict.DOES_NOT_FIT
    assert estimate(asked("-ngl 0", free=(0.1,))).verdict is Verdict.FITS


def test_what_would_make_it_fit() -> None:
    too_much = asked("-ngl all -c 32768 -fa on", free=(8.0,))
    assert (
        estimate(too_much).reason == "The card must hold the layers that -ngl puts there, 8.8 GiB: 0.8 GiB are missing."
    )
    found = {change.flags[0]: change.flags for change in changes_that_fit(too_much)}
    assert found.keys() == {"-c", "-ctk", "-ngl"}
    for flags in found.values():
        assert estimate(replace(too_much, argv=(*too_much.argv, *flags))).verdict is Verdict.FITS


def test_layers_are_spread_in_proportion_to_what_is_free() -> None:
    found = needed(estimate(asked("-c 4096 -fa on", free=(20.0, 10.0))))
    first, second = (float(found[f"Needed on card {card}"].split()[0]) for card in (0, 1))
    assert 1.5 < first / second < 2.2
    only = needed(estimate(asked("-c 4096 -sm none -mg 1", free=(20.0, 10.0))))
    assert only["Needed on card 0"] == "0 bytes"
    assert needed(estimate(asked("-c 4096 -ts 0,1", free=(20.0, 10.0))))["Needed on card 0"] == "0 bytes"


def test_one_full_card_is_named() -> None:
    found = estimate(asked("-ts 1,1 -c 32768 -fa on", free=(24.0, 2.0)))
    assert found.verdict is Verdict.DOES_NOT_FIT and found.reason.startswith("Card 1 must hold all layers")


def test_experts_that_stay_in_the_hosts_memory() -> None:
    everything = estimate(asked("-c 4096 -fa on"))
    without = estimate(asked("-c 4096 -fa on -cmoe"))
    half = estimate(asked("-c 4096 -fa on -ncmoe 16"))
    sizes = [float(needed(found)["Needed on card 0"].split()[0]) for found in (everything, half, without)]
    assert [round(before - after, 1) for before, after in pairwise(sizes)] == [1.5, 1.5]


def test_sliding_layers_keep_a_window() -> None:
    gemma = llama(attention__sliding_window=1024, attention__sliding_window_pattern=6)
    model = read_gguf_model([gemma])
    assert sum(layer.sliding for layer in model.layers) == 27
    low, whole = (work_out(asked(f"-c 32768 -np 1 {more}", gemma)).margins[0].left for more in ("", "--swa-full"))
    cells = 32768 - 1536  # the window and one batch, in steps of 256
    assert low.likely - whole.likely == pytest.approx(27 * 8 * 128 * 2 * 2 * cells)
    flags = llama(attention__sliding_window=1024, attention__sliding_window_pattern=[True, False] * 16)
    assert sum(layer.sliding for layer in read_gguf_model([flags]).layers) == 16


def test_a_window_that_is_not_told_leaves_it_open() -> None:
    found = estimate(asked("-c 32768 -fa on", llama(attention__sliding_window=1024), free=(7.0,)))
    assert found.verdict is Verdict.TOO_CLOSE


def test_a_hybrid_model_keeps_a_state_for_each_slot() -> None:
    metadata = {
        "general.architecture": "qwen3next", "qwen3next.block_count": 4, "qwen3next.context_length": 4096,
        "qwen3next.embedding_length": 2048, "qwen3next.attention.head_count": 16,
        "qwen3next.attention.head_count_kv": 2, "qwen3next.attention.key_length": 256,
        "qwen3next.attention.value_length": 256, "qwen3next.ssm.conv_kernel": 4, "qwen3next.ssm.inner_size": 4096,
        "qwen3next.ssm.state_size": 128, "qwen3next.ssm.group_count": 16,
    }  # fmt: skip
    tensors = [("token_embd.weight", (2048, 151936), GIB), ("output.weight", (2048, 151936), GIB)]
    tensors += [(f"blk.{layer}.{name}", (1, 1), 1 << 20) for layer in range(3) for name in ("attn_qkv.weight", "ssm_a")]
    tensors += [("blk.3.attn_k.weight", (1, 1), 1 << 20)]
    model = read_gguf_model([header(metadata, tensors)])
    assert [layer.keys for layer in model.layers] == [0, 0, 0, 512]
    assert model.layers[0].state == (3 * (4096 + 2 * 16 * 128) + 128 * 4096) * 4
    found = work_out(asked("-c 4096 -np 2", header(metadata, tensors)))
    assert found.pools.per_token == 2 * 512 * 2


def test_compressed_attention_has_bounds() -> None:
    metadata = {
        "general.architecture": "deepseek2", "deepseek2.block_count": 1, "deepseek2.context_length": 1024,
        "deepseek2.embedding_length": 512, "deepseek2.attention.head_count": 8, "deepseek2.attention.head_count_kv": 1,
        "deepseek2.attention.kv_lora_rank": 512, "deepseek2.attention.key_length_mla": 192,
        "deepseek2.rope.dimension_count": 64,
    }  # fmt: skip
    tensors = [("token_embd.weight", (512, 100), 4096), ("blk.0.attn_kv_a_mqa.weight", (1, 1), 4096)]
    model = read_gguf_model([header(metadata, tensors)])
    assert (model.layers[0].keys, model.layers[0].values, model.output) == (576, 512, 4096)
    left = work_out(asked("-c 1024 -fa on", header(metadata, tensors))).margins[0].left
    assert left.high - left.low >= 512 * 1024 * 2


def test_a_model_in_parts() -> None:
    whole = llama()
    half = GgufHeader({}, whole.tensors[40:], 100)
    first = GgufHeader(whole.metadata, whole.tensors[:40], 100)
    assert read_gguf_model([first, half]).weights == read_gguf_model([whole]).weights
    found = estimate(asked("", first))
    assert found.verdict is Verdict.UNKNOWN and "are all its parts there?" in found.reason


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("-sm row", "-sm row"), ("-ot x=CPU", "-ot"), ("--mmproj /m", "--mmproj"), ("-ctk moon", "cache in moon"),
        ("-ts 1,2,3", "-ts 1,2,3"), ("-sm none -mg 3", "-mg 3"), ("-c many", "-c many"), ("-ngl some", "-ngl some"),
    ],
)  # fmt: skip
def test_what_cannot_be_told_is_named(flags: str, says: str) -> None:
    found = estimate(asked(flags))
    assert found.verdict is Verdict.UNKNOWN and says in found.reason


@pytest.mark.parametrize("key", ["block_count", "embedding_length", "attention.head_count_kv", "attention.head_count"])
def test_a_missing_key_is_named(key: str) -> None:
    whole = llama()
    metadata = {name: value for name, value in whole.metadata.items() if name != f"llama.{key}"}
    found = estimate(asked("", GgufHeader(metadata, whole.tensors, 100)))
    assert found.verdict is Verdict.UNKNOWN and key in found.reason


def test_a_file_that_was_not_read() -> None:
    for model in (ModelFiles(), ModelFiles(gguf=Unknown("The disk is gone."))):
        found = estimate(replace(asked(), model=model))
        assert found.verdict is Verdict.UNKNOWN
    assert found.reason == "The disk is gone."
