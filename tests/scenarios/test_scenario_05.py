"""A checkpoint that turns the KV cache to FP8: named in the plan, before anything is stopped, and shown after it."""

from typing import Any

import pytest

from deployments.models import Job
from tests.scenarios.models import FP8_KV, HYBRID, put_model
from tests.scenarios.plans import page_of, planned, warning_of
from tests.support.story import Place, Story, launch_of, log_of, sglang, told

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]
SWITCHES = "The checkpoint itself switches the KV cache to FP8"


def kv_cache(job: Job) -> dict[str, Any]:
    (row,) = (row for row in launch_of(job).effective["rows"] if row["name"] == "--kv-cache-dtype")
    found: dict[str, Any] = row
    return found


def test_scenario_05_fp8_by_the_checkpoint_is_named_before_and_shown_after(story: Story, place: Place) -> None:
    put_model(place, "fp8-kv", HYBRID, quantization=FP8_KV)
    deployment = story.deploy_sglang(place, model="fp8-kv")

    plan, page = planned(story, deployment)
    warning = warning_of(plan, SWITCHES)
    assert "no scales" in warning["why"] and "--kv-cache-dtype bf16" in warning["todo"]
    assert SWITCHES in page and "no scales for it, so 1.0 is used" in page
    in_use = next(row for row in plan["fit"]["tables"]["rows"] if row["in_use"])
    assert in_use["name"] == "fp8"

    job = story.start(deployment)
    assert "kv_cache_dtype='auto'" in log_of(job, source="server")
    row = kv_cache(job)
    assert (row["asked"], row["effective"], row["changed"]) == (None, "fp8_e4m3", True), told(job)
    assert "checkpoint" in row["why"] and "scales of 1.0" in row["why"]
    page = page_of(story, job)
    assert "fp8_e4m3" in page and "scales of 1.0" in page

    # Who asks for full precision gets it, sees it, and is not warned.
    exact = story.add_revision(deployment, sglang("--kv-cache-dtype", "bf16", cards=2, model="fp8-kv"))
    job = story.run_job(deployment, revision=exact)
    assert job.plan is not None and not any("FP8" in warning["text"] for warning in job.plan["warnings"])
    row = kv_cache(job)
    assert (row["asked"], row["effective"], row["changed"]) == ("bf16", "bf16", False)


def test_scenario_05_scales_that_are_there_are_not_missed(story: Story, gpu1: Place) -> None:
    put_model(gpu1, "fp8-scaled", HYBRID, quantization=FP8_KV, kv_scales=True)
    plan, _ = planned(story, story.deploy_sglang(gpu1, model="fp8-scaled"))
    assert "brings scales" in warning_of(plan, SWITCHES)["why"]
