"""Does bf16 KV fit? The numbers that were once worked out by hand, in the plan, with their arithmetic."""

import pytest

from lab.demo import QWEN_397B
from tests.scenarios.models import put_model
from tests.scenarios.plans import planned
from tests.support.story import Place, Story

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

PLACES = {"gpu1": (2, 8_240, "61"), "llm-gpu": (8, 393_500, "78")}
"""Cards, and the weights that leave 18.3 GiB of KV cache on each: eight cards of 96 GB as in the story, two of 48.
Requests of 32K in FP8: with two cards the states, of which each holds half, allow no more.
"""


def test_scenario_06_does_bf16_kv_fit(story: Story, place: Place) -> None:
    cards, weights_mib, short_fp8 = PLACES[place.machine.name]
    put_model(place, "qwen-397b-fit", QWEN_397B, weights_mib=weights_mib)
    flags = ("--context-length", "131072", "--mem-fraction-static", "0.88", "--kv-cache-dtype", "bf16")
    deployment = story.deploy_sglang(place, *flags, cards=range(cards), model="qwen-397b-fit")

    plan, page = planned(story, deployment)
    fit = plan["fit"]
    assert fit["tables"]["lengths"][:2] == ["128K", "32K"]
    bf16, fp8 = fit["tables"]["rows"]
    assert (bf16["name"], bf16["in_use"], bf16["held"], bf16["requests"][:2]) == ("bf16", True, "1.28 M", ["9", "39"])
    assert (fp8["name"], fp8["in_use"], fp8["held"], fp8["requests"][:2]) == ("fp8", False, "2.56 M", ["19", short_fp8])
    assert fit["tables"]["limited"].startswith("the KV cache allows no more")

    rows = {row["label"]: row for row in fit["rows"]}
    assert rows["KV cache of one token"]["value"] == "15,360 bytes"
    assert rows["KV cache on each card"]["value"].startswith("18.3 GiB")
    assert rows["Tokens of KV cache"]["how"] == "18.3 GiB ÷ 15,360 bytes"
    for words in ("1.28 M", "2.56 M", ">9<", ">39<", "15,360 bytes", "18.3 GiB ÷ 15,360 bytes", "Requests at once"):
        assert words in page, words
