"""What a checkpoint and flags cost, said before the start."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from deployments.engines.registry import ENGINES
from deployments.fit.asked import Asked, CardMemory
from deployments.fit.cautions import Caution, cautions
from deployments.fit.estimate import work_out
from deployments.fit.files import IndexFacts, ModelFiles
from deployments.fit.outcome import Outcome
from hosts.probe.frames import Unknown
from tests.deployments.fit import models
from tests.deployments.fit.models import GIB, files

SIDE = {"quantization": {"kv_cache_quant_algo": "FP8"}}
SCHEME = {"quantization_config": {"kv_cache_scheme": {"num_bits": 8}}}
DRAFTS = "--speculative-algorithm NEXTN --speculative-num-draft-tokens 4"


def said(
    flags: str, config: dict[str, Any], *, engine: str = "sglang", version: str = "0.5.11", **more: Any
) -> list[Caution]:
    """Without cards: as a plan does it."""
    model = ModelFiles(config=config, **more)
    return list(cautions(Asked(ENGINES[engine], ("x", *shlex.split(flags)), model, (), version=version), None))


def texts(*arguments: Any, **more: Any) -> list[str]:
    return [caution.text for caution in said(*arguments, **more)]


@pytest.mark.parametrize("more", [{"quantization": SIDE}, {}])
def test_a_checkpoint_that_switches_the_kv_cache_to_fp8(more: dict[str, Any]) -> None:
    config = models.QWEN3_8B if more else {**models.QWEN3_8B, **SCHEME}
    (found,) = said("", config, **more)
    assert found.text.startswith("The checkpoint itself switches the KV cache to FP8")
    assert "Whether the checkpoint has scales" in found.why and "--kv-cache-dtype bf16" in found.todo
    assert texts("--kv-cache-dtype bf16", config, **more) == []
    assert texts("", models.QWEN3_8B) == []


@pytest.mark.parametrize(("scales", "says"), [(0, "no scales"), (72, "brings scales"), (None, "is not known")])
def test_scales_that_are_missing_are_named(scales: int | None, says: str) -> None:
    (found,) = said("", models.QWEN3_8B, quantization=SIDE, index=IndexFacts(1, frozenset(), scales))
    assert says in found.why


def test_vllm_follows_it_in_newer_versions() -> None:
    (found,) = said("", {**models.QWEN3_8B, **SCHEME}, engine="vllm")
    assert "asks for the KV cache in FP8" in found.text and "bfloat16" in found.todo


@pytest.mark.parametrize(
    ("engine", "flags", "kind"),
    [
        ("sglang", "--kv-cache-dtype fp8_e4m3", "fp8_e4m3"), ("vllm", "--kv-cache-dtype=fp8", "fp8"),
        ("sglang", "--kv-cache-dtype fp4_e2m1", "fp4_e2m1"), ("llama_server", "-ctk q8_0 -ctv q8_0", "q8_0"),
        ("llama_server", "--cache-type-v q4_0", "q4_0"),
    ],
)  # fmt: skip
def test_a_less_exact_kv_cache_that_the_flags_ask_for(engine: str, flags: str, kind: str) -> None:
    (found,) = said(flags, models.QWEN3_8B, engine=engine)
    assert found.text == f"The flags keep the KV cache in {kind}."


def test_fp8_with_scales_says_nothing_of_them() -> None:
    (found,) = said("--kv-cache-dtype fp8_e4m3", models.QWEN3_8B, index=IndexFacts(1, frozenset(), 72))
    assert "scales" not in found.why
    (found,) = said("--kv-cache-dtype fp8_e4m3", models.QWEN3_8B, index=IndexFacts(1, frozenset(), 0))
    assert "no scales" in found.why


def test_flags_that_cost_exactness() -> None:
    assert "full precision" in texts("--quantization fp8", models.QWEN3_8B)[0]
    assert texts("--quantization fp8", {**models.QWEN3_8B, "quantization_config": {"quant_method": "fp8"}}) == []
    assert "recurrent state in bfloat16" in texts("--mamba-ssm-dtype bfloat16", models.QWEN35_9B)[0]
    assert texts("--mamba-ssm-dtype bfloat16", models.QWEN3_8B) == []
    assert "below 1" in texts("--speculative-accept-threshold-single 0.8", models.QWEN3_8B)[0]
    assert texts("--speculative-accept-threshold-single 1.0", models.QWEN3_8B) == []


@pytest.mark.parametrize(
    ("flags", "version", "says"),
    [
        (DRAFTS, "0.5.11", "refuses to start"),
        (DRAFTS, "", "0.5.10 and 0.5.11 refuse"),
        (DRAFTS, "0.5.9", "quietly switches the radix cache off"),
        ("--speculative-algorithm NEXTN", "0.5.11", "refuses to start"),
        (f"{DRAFTS} --mamba-scheduler-strategy no_buffer", "0.5.10", "refuses to start"),
        (f"{DRAFTS} --mamba-scheduler-strategy extra_buffer", "0.5.11", None),
        (f"{DRAFTS} --disable-radix-cache", "0.5.11", None),
        ("", "0.5.11", None),
        (DRAFTS, "0.5.23", None),
    ],
)
def test_a_hybrid_model_with_drafts_needs_a_flag(flags: str, version: str, says: str | None) -> None:
    found = said(flags, models.QWEN35_27B, version=version)
    assert [says in caution.why for caution in found] == ([] if says is None else [True])  # type: ignore[operator]
    assert not said(flags, models.QWEN3_8B, version=version)


def test_the_flag_has_another_name_in_newer_versions() -> None:
    (found,) = said(DRAFTS, models.QWEN35_27B, version="0.5.14")
    assert "--mamba-radix-cache-strategy extra_buffer" in found.todo


def test_context_times_concurrency_above_the_pool() -> None:
    card = CardMemory(81559 << 20, 80000 << 20)
    for wanted, warned in ((64, True), (2, False)):
        argv = ("x", "--max-running-requests", str(wanted), "--context-length", "40960")
        asked = Asked(ENGINES["sglang"], argv, files(models.QWEN3_8B, 16 * GIB), (card,), version="0.5.11")
        outcome = work_out(asked)
        assert isinstance(outcome, Outcome)
        found = cautions(asked, outcome)
        assert bool(found) is warned
        if found:
            assert found[0].text.startswith("64 requests of 40K do not go in at once: ")


@pytest.mark.parametrize(
    ("free", "says"), [(80, None), (28, "SGLang takes in up to 2,048. Of 40K there is room for 1 request.")]
)
def test_the_engines_own_number_of_requests_counts_where_few_go_in(free: int, says: str | None) -> None:
    argv = ("x", "--context-length", "40960")
    card = CardMemory(free * GIB, free * GIB)
    asked = Asked(ENGINES["sglang"], argv, files(models.QWEN3_8B, 16 * GIB), (card,), version="0.5.11")
    outcome = work_out(asked)
    assert isinstance(outcome, Outcome)
    found = [caution.text for caution in cautions(asked, outcome) if "takes in" in caution.text]
    assert [text.split("at once: ")[1] for text in found] == ([says] if says else [])


@pytest.mark.parametrize(
    ("sizes", "says"),
    [
        ({"a": 60, "b": 50}, None),
        ({"a": 60}, "1 of the model's 2 weight files are missing, the first is b."),
        ({}, "2 of the model's 2 weight files are missing, the first is a."),
        ({"a": 60, "b": 20}, "The model's weight files have 80 bytes, and its index says 100 bytes."),
    ],
)
def test_a_model_that_is_not_complete(sizes: dict[str, int], says: str | None) -> None:
    found = texts("", models.QWEN3_8B, index=IndexFacts(100, frozenset({"a", "b"})), sizes=sizes)
    assert found == ([] if says is None else [says])


def test_odd_files_and_odd_flags_raise_nothing() -> None:
    assert texts("--max-running-requests x --kv-cache-dtype", {}, quantization=Unknown("cut")) == []
    assert list(cautions(Asked(ENGINES["sglang"], ("x", DRAFTS), ModelFiles(), ()), None)) == []
