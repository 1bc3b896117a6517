"""The part after the start: the number format of the KV cache that is really used, though the arguments say auto."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from deployments.models import Job
from tests.scenarios.models import FP8_KV, HYBRID, put_model
from tests.support.story import Place, Story, launch_of, log_of, sglang, told

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]


def kv_cache(job: Job) -> dict[str, Any]:
    (row,) = (row for row in launch_of(job).effective["rows"] if row["name"] == "--kv-cache-dtype")
    found: dict[str, Any] = row
    return found


def test_scenario_05_fp8_by_the_checkpoint_is_shown(story: Story, place: Place) -> None:
    put_model(place, "fp8-kv", HYBRID, quantization=FP8_KV)
    deployment = story.deploy_sglang(place, model="fp8-kv")
    job = story.start(deployment)
    assert "kv_cache_dtype='auto'" in log_of(job, source="server")
    row = kv_cache(job)
    assert (row["asked"], row["effective"], row["changed"]) == (None, "fp8_e4m3", True), told(job)
    assert "checkpoint" in row["why"] and "scales of 1.0" in row["why"]
    client = Client()
    client.force_login(story.actor)
    page = client.get(reverse("deployments:job", args=[job.pk])).content.decode()
    assert "fp8_e4m3" in page and "scales of 1.0" in page

    # Who asks for full precision gets it, and sees it.
    exact = story.add_revision(deployment, sglang("--kv-cache-dtype", "bf16", cards=2, model="fp8-kv"))
    row = kv_cache(story.run_job(deployment, revision=exact))
    assert (row["asked"], row["effective"], row["changed"]) == ("bf16", "bf16", False)
