"""Hybrid models have two pools: KV cache for attention layers, states for linear ones; the plan knows the split."""

import re
from typing import Any

import pytest

from tests.scenarios.models import HYBRID, put_model
from tests.scenarios.plans import planned
from tests.support.story import Place, Story, launch_of, sglang, told

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

BASE = ("--mem-fraction-static", "0.88", "--context-length", "32768", "--mamba-full-memory-ratio")
WEIGHTS_MIB = 26_000


def limits(plan: dict[str, Any]) -> dict[str, float]:
    """How many requests of 32K each pool allows."""
    return {row["name"]: float(row["requests"][0].replace(",", "")) for row in plan["fit"]["tables"]["limits"]}


def slots(plan: dict[str, Any]) -> int:
    row = next(row for row in plan["fit"]["rows"] if row["label"] == "State slots")
    return int(row["value"].replace(",", ""))


def test_scenario_10_both_pools_and_how_many_requests_each_allows(story: Story, place: Place) -> None:
    put_model(place, "hybrid-fp8", HYBRID, weights_mib=WEIGHTS_MIB)
    deployment = story.deploy_sglang(place, *BASE, "0.5", model="hybrid-fp8")

    plan, page = planned(story, deployment)
    by_trial = limits(plan)
    assert {"KV cache", "recurrent state"} < by_trial.keys()
    assert "Recurrent state allows" in page and "KV cache allows" in page
    assert "33.3% of what is left (ratio 0.5)" in page

    usual = story.add_revision(deployment, sglang(*BASE, "0.9", cards=2, model="hybrid-fp8"))
    other = limits(planned(story, deployment, revision=usual)[0])
    assert other["KV cache"] < by_trial["KV cache"] and other["recurrent state"] > by_trial["recurrent state"]

    # The server makes the same split of what it finds.
    job = story.start(deployment)
    facts = {fact["label"]: fact["value"] for fact in launch_of(job).effective["facts"]}
    real = int(re.match(r"[\d,]+", facts["Recurrent state"])[0].replace(",", ""))  # type: ignore[index]
    assert slots(plan) == pytest.approx(real, rel=0.05), told(job)
