"""Whole predictions for SGLang, against servers that have run."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import pytest

from deployments.engines.registry import ENGINES
from deployments.fit.asked import Asked, CardMemory, Measured
from deployments.fit.changes import changes_that_fit
from deployments.fit.estimate import Estimate, Verdict, estimate
from deployments.fit.model import Model, read_model
from deployments.fit.outcome import KV, RUNNING, STATE
from deployments.fit.sglang_flags import piecewise_sizes, read_settings
from deployments.fit.span import Span
from tests.deployments.fit import models
from tests.deployments.fit.models import GIB, files

MIB = 1 << 20


def asked(
    command: str, config: dict[str, Any], weights: float, *, cards: int, total_mib: int, free_mib: int = 0, **more: Any
) -> Asked:
    """SGLang with these flags on ``cards`` alike."""
    card = CardMemory(total_mib * MIB, (free_mib or total_mib - 600) * MIB)
    argv = ("python", "-m", "sglang.launch_server", "--model-path", "/models/m", *shlex.split(command))
    return Asked(ENGINES["sglang"], argv, files(config, weights), (card,) * cards, **more)


def near(what: str, found: float, logged: float) -> bool:
    print(f"{what}: {found:,.0f}, logged {logged:,} ({(found - logged) / logged:+.2%})")
    return abs(found - logged) <= 0.01 * logged


def pools_of(found: Estimate) -> Any:
    assert found.outcome is not None, found.reason
    return found.outcome.pools


def test_row_1_a_hybrid_model_on_two_cards() -> None:
    found = estimate(
        asked(
            "--tp 2 --mem-fraction-static 0.8 --context-length 262144",
            models.QWEN35_9B, 17.7 * GIB, cards=2, total_mib=24564, version="0.5.10",
            measured=Measured(at_start=round(22.93 * GIB), weights=round(8.85 * GIB)),
        )
    )  # fmt: skip
    pools = pools_of(found)
    assert near("row 1, state slots", pools.slots.likely, 186)
    assert near("row 1, tokens", pools.tokens(262144).likely, 327_310)
    assert int(pools.limits(262144)[STATE].likely) == 62
    assert found.verdict is Verdict.FITS, found.reason
    assert found.limiting == KV and pools.requests(262144) == pytest.approx(1.25, abs=0.01)


def test_row_7_a_plain_model_with_everything_automatic() -> None:
    found = estimate(
        asked(
            "", models.QWEN3_8B, models.QWEN3_8B_BYTES, cards=1, total_mib=183359, version="0.5.11",
            measured=Measured(at_start=round(177.57 * GIB)),
        )
    )  # fmt: skip
    assert found.outcome is not None
    assert near("row 7, tokens", pools_of(found).tokens(40960).likely, 992_896)
    assert next(row.value for row in found.rows if row.label.startswith("Fraction")) == "0.854"
    assert found.verdict is Verdict.FITS


def test_row_7_without_any_measurement() -> None:
    """Nothing but the card, the files and the flags."""
    found = estimate(asked("", models.QWEN3_8B, models.QWEN3_8B_BYTES, cards=1, total_mib=183359, version="0.5.11"))
    assert near("row 7 unmeasured, tokens", pools_of(found).tokens(40960).likely, 992_896)
    assert pools_of(found).tokens(40960).low < 992_896 < pools_of(found).tokens(40960).high


QWEN_397B_BYTES = 400e9
"""FP8: about a byte for each of its parameters."""


def of_story_6(**more: Any) -> Asked:
    """Eight cards of 96 GB, with the KV cache that the server had on each: 18.3 GiB."""
    return asked(
        "--tp 8 --context-length 131072", models.QWEN35_397B, QWEN_397B_BYTES, cards=8, total_mib=97887,
        version="0.5.11", measured=Measured(kv_pool=round(18.3 * GIB)), **more,
    )  # fmt: skip


def test_story_6_does_bf16_kv_fit() -> None:
    found = estimate(of_story_6())
    assert found.precisions is not None and found.precisions.keys() == {"bf16", "fp8"}
    bf16, fp8 = found.precisions["bf16"], found.precisions["fp8"]
    assert bf16.per_token == 15_360
    assert f"{bf16.tokens(131072).likely / 1e6:.2f}" == "1.28"
    assert bf16.requests(131072) == pytest.approx(9.76, abs=0.005)
    assert bf16.requests(32768) == pytest.approx(39.04, abs=0.005)
    assert fp8.tokens(131072).likely == pytest.approx(2 * bf16.tokens(131072).likely, abs=1)
    assert fp8.requests(32768) == 2 * bf16.requests(32768)
    assert (bf16.limiting(131072), bf16.limiting(32768)) == (KV, KV)


def test_story_6_shows_its_arithmetic() -> None:
    found = estimate(of_story_6())
    shown = {row.label: (row.value, row.how) for row in found.rows}
    assert shown["KV cache of one token"][0] == "15,360 bytes"
    assert shown["KV cache on each card"][0] == "18.3 GiB"
    assert shown["Tokens of KV cache"] == ("1.28 M", "18.3 GiB ÷ 15,360 bytes")
    assert [row.value for row in found.requests_of(131072)] == ["9.8", "19"]
    assert [row.value for row in found.requests_of(32768)] == ["39", "78"]
    assert [row.label for row in found.requests_of(131072)] == ["Requests of 128K in bf16", "Requests of 128K in fp8"]
    assert next(row for row in found.rows if row.label == "KV cache on each card").source == "measured"


def of_story_7(more: str = "") -> Asked:
    """A hybrid 27B of 55 GB on two cards of 48 GB, with speculative heads and torch compile."""
    command = (
        "--tp 2 --mem-fraction-static 0.85 --context-length 131072 --speculative-algorithm NEXTN "
        "--speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4 --enable-torch-compile "
        "--mamba-scheduler-strategy extra_buffer "
    )
    return asked(command + more, models.QWEN35_27B, 55e9, cards=2, total_mib=49140, version="0.5.11")


def test_story_7_is_known_not_to_fit_before_the_start() -> None:
    found = estimate(of_story_7())
    assert found.verdict is Verdict.DOES_NOT_FIT
    assert "131,072 tokens" in found.reason and "missing" in found.reason
    kept = next(row for row in found.rows if row.label == "States kept while drafts are verified")
    assert kept.value == "13.8 GiB" and kept.how == "73.4 MiB × 48 requests × 4 drafts"


def test_story_7_says_what_would_make_it_fit() -> None:
    found = changes_that_fit(of_story_7())
    assert found
    for change in found:
        cards = change.cards or 2
        tried = replace(of_story_7(), argv=(*of_story_7().argv, *change.flags), cards=of_story_7().cards[:1] * cards)
        assert estimate(tried).verdict is Verdict.FITS, change
    assert found[0].flags[0] == "--max-running-requests"
    assert changes_that_fit(of_story_7(" ".join(found[0].flags))) == ()


def test_story_10_each_pool_says_how_many_requests_it_allows() -> None:
    base = "--tp 2 --mem-fraction-static 0.88 --context-length 32768 --mamba-full-memory-ratio "
    known = {
        ratio: pools_of(estimate(asked(base + ratio, models.QWEN35_27B, 30e9, cards=2, total_mib=49140))).limits(32768)
        for ratio in ("0.5", "0.9")
    }
    assert known["0.5"][STATE].likely < known["0.9"][STATE].likely
    assert known["0.5"][KV].likely > known["0.9"][KV].likely
    assert known["0.5"].keys() == {KV, STATE, RUNNING}


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("--tp 4", "The flags ask for 4 cards, and the deployment has 2 cards."),
        ("--tp x", "--tp-size x is not a number"),
        ("--tp 2 --mem-fraction-static 1.4", "--mem-fraction-static 1.4 is not between 0 and 1"),
        ("--tp 2 --kv-cache-dtype moon", "KV cache in moon"),
        ("--tp 2 --speculative-algorithm EAGLE --speculative-num-draft-tokens 4 --speculative-draft-model-path /d",
         "draft model"),
        ("--tp 2 --speculative-algorithm EAGLE", "--speculative-num-draft-tokens"),
        ("--tp 2 --speculative-algorithm NEXTN --speculative-num-draft-tokens 4", "mtp_num_hidden_layers"),
    ],
)  # fmt: skip
def test_what_cannot_be_told_is_named(flags: str, says: str) -> None:
    found = estimate(asked(flags, models.QWEN3_8B, 16e9, cards=2, total_mib=24564))
    assert found.verdict is Verdict.UNKNOWN and says in found.reason
    assert (found.rows, found.limiting, found.requests_of(4096)) == ((), "", ())


def test_cards_without_a_measurement() -> None:
    for cards in ((), (CardMemory(0, 0),), (CardMemory(GIB, -1),)):
        found = estimate(replace(asked("", models.QWEN3_8B, 16e9, cards=1, total_mib=24564), cards=cards))
        assert found.verdict is Verdict.UNKNOWN and "not measured" in found.reason


def test_a_card_too_small_for_what_the_engine_reserves() -> None:
    assert estimate(asked("", models.QWEN3_8B, 16e9, cards=1, total_mib=2048)).verdict is Verdict.DOES_NOT_FIT


def test_another_engine_is_unknown() -> None:
    found = estimate(replace(asked("", models.QWEN3_8B, 16e9, cards=1, total_mib=24564), engine=ENGINES["custom"]))
    assert found.verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("flags", "checkpoint", "precision"),
    [("", False, "bf16"), ("", True, "fp8"), ("--kv-cache-dtype bf16", True, "bf16"),
     ("--kv-cache-dtype=fp8_e5m2", False, "fp8"), ("--kv-cache-dtype auto", True, "fp8")],
)  # fmt: skip
def test_the_precision_that_is_really_used(flags: str, checkpoint: bool, precision: str) -> None:
    side = {"quantization": {"kv_cache_quant_algo": "FP8"}} if checkpoint else None
    found = asked(flags, models.QWEN3_8B, 16e9, cards=1, total_mib=49140)
    assert pools_of(estimate(replace(found, model=replace(found.model, quantization=side)))).precision == precision


@pytest.mark.parametrize(
    ("flags", "cards", "total_mib", "version", "fraction"),
    [
        # Values of the same formula, worked out by hand for each kind of card.
        ("--tp 8", 8, 81559, "0.5.9", 0.818),
        ("--tp 8 --disable-piecewise-cuda-graph", 8, 81559, "0.5.11", 0.818),
        ("--tp 8 --disable-piecewise-cuda-graph --speculative-algorithm NEXTN --speculative-num-draft-tokens 4", 8,
         81559, "0.5.11", 0.768),
        ("--tp 8", 8, 143771, "0.5.9", 0.897),
        ("--tp 4", 4, 97887, "0.5.9", 0.854),
        ("--tp 8", 8, 183359, "0.5.9", 0.852),
        ("", 1, 32607, "0.5.9", 0.885),
        ("--tp 2", 2, 24564, "0.5.9", 0.842),
        ("--chunked-prefill-size 2048", 1, 81559, "0.5.9", 0.874),
        ("", 1, 183359, "0.5.11", 0.854),
        ("--tp 2 --mem-fraction-static 0.5", 2, 24564, "0.5.9", 0.5),
    ],
)  # fmt: skip
def test_the_fraction_that_is_chosen_automatically(
    flags: str, cards: int, total_mib: int, version: str, fraction: float
) -> None:
    config = {**models.QWEN3_8B, "num_nextn_predict_layers": 1}
    found = asked(flags, config, 16e9, cards=cards, total_mib=total_mib, version=version)
    known = read_model(found.model)
    assert isinstance(known, Model)
    assert read_settings(found, known).fraction == Span.exactly(fraction)


def test_sizes_that_get_a_graph() -> None:
    """As the log of row 7 counts them."""
    assert (piecewise_sizes(16384), piecewise_sizes(2048)) == (74, 42)


def test_an_unknown_version_widens_the_fraction() -> None:
    found = asked("", models.QWEN3_8B, 16e9, cards=1, total_mib=183359)
    known = read_model(found.model)
    assert isinstance(known, Model)
    fraction = read_settings(found, known).fraction
    assert (fraction.low, fraction.likely, fraction.high) == (0.854, 0.854, 0.857)


def test_attention_of_each_replica_stands_on_its_own_cards() -> None:
    """DP attention: heads are split over fewer cards, and what is no expert is there more often."""
    one = pools_of(estimate(asked("--tp 8", models.QWEN3_235B, 240e9, cards=8, total_mib=143771)))
    shared = "--tp 8 --dp 8 --enable-dp-attention"
    found = estimate(asked(shared, models.QWEN3_235B, 240e9, cards=8, total_mib=143771))
    assert (one.per_token, pools_of(found).per_token) == (96_256 / 2, 96_256 * 2)
    assert pools_of(found).replicas == 8
    assert found.outcome is not None and found.outcome.weights.likely > 240e9 / 8


def test_a_number_with_a_unit() -> None:
    found = estimate(asked("--context-length 32Ki", models.QWEN3_8B, 16e9, cards=1, total_mib=49140))
    assert found.outcome is not None and found.outcome.context == 32768


def test_row_5_slots_that_the_flags_give() -> None:
    """One GB10, FP8, 0.70 of it, 360 slots: 72 requests at once, five slots each."""
    found = estimate(
        asked(
            "--mem-fraction-static 0.70 --max-mamba-cache-size 360 --mamba-scheduler-strategy extra_buffer "
            "--kv-cache-dtype fp8_e4m3 --context-length 32768",
            models.QWEN35_27B, 22 * GIB, cards=1, total_mib=122572, version="0.5.11",
        )
    )  # fmt: skip
    assert pools_of(found).limits(32768)[STATE].likely == 72
    assert (pools_of(found).slots.low, pools_of(found).slots.high) == (360, 360)


def test_of_a_newer_version_it_is_said_that_its_split_was_not_read() -> None:
    found = asked("", models.QWEN3_8B, 16e9, cards=1, total_mib=49140, version="0.5.11")
    assert not estimate(found).notes
    assert "0.5.11" in estimate(replace(found, version="0.5.23")).notes[0]


def test_hybrid_models_with_drafts_in_0_5_9_have_no_radix_cache() -> None:
    """One slot for each request, and no share by the ratio."""
    plain = replace(of_story_7("--mamba-scheduler-strategy no_buffer"), version="0.5.9")
    old = pools_of(estimate(plain))
    assert (old.slots, old.slots_per_request) == (Span.exactly(48), 1)
    assert pools_of(estimate(replace(plain, version="0.5.11"))).slots_per_request == 3
    assert pools_of(estimate(replace(of_story_7(), version="0.5.9"))).slots_per_request == 4
    assert pools_of(estimate(of_story_7())).slots_per_request == 5


def test_what_stays_outside_the_fraction_must_hold_the_rest() -> None:
    """Graphs, the request table and the draft's cache: 1 % of the card is too little, whatever the pools have."""
    greedy = asked(
        "--mem-fraction-static 0.99 --speculative-algorithm NEXTN --speculative-num-draft-tokens 4",
        models.QWEN35_9B, 19e9, cards=1, total_mib=81559, version="0.5.11",
    )  # fmt: skip
    found = estimate(greedy)
    assert found.verdict is Verdict.DOES_NOT_FIT and found.reason.startswith("The 1.0% outside the fraction")
    change = changes_that_fit(greedy)[0]
    assert change.flags[0] == "--mem-fraction-static" and float(change.flags[1]) < 0.97
