"""What the engine switches off by itself is shown, with the reason, and is no failure."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from deployments.models import Check, Job
from tests.scenarios.models import HYBRID, put_model
from tests.support.story import HASTE, Place, Story, launch_of, told

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]


def sglang(version: str, model: str, *flags: str) -> list[str]:
    """A command of the SGLang of this version, on two cards."""
    python = f"/opt/sglang-{version}/bin/python"
    common = ("--model-path", model, "--tp", "2", "--host", "0.0.0.0", "--port", "{port}")
    return [python, "-m", "sglang.launch_server", *common, *flags]


def rows_of(job: Job) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in launch_of(job).effective["rows"]}


@pytest.mark.parametrize(
    ("version", "graphs"), [("0.5.11", "--disable-piecewise-cuda-graph"), ("0.5.23", "--cuda-graph-backend-prefill")]
)
def test_scenario_04_what_the_engine_switches_off_is_shown(
    story: Story, place: Place, version: str, graphs: str
) -> None:
    model = put_model(place, "hybrid", HYBRID)
    deployment = story.deploy(place, sglang(version, model), engine="sglang", env=HASTE)
    job = story.start(deployment)

    rows = rows_of(job)
    assert rows[graphs]["changed"] and "multimodal" in rows[graphs]["why"], told(job)
    assert "mamba no_buffer" in rows["--disable-overlap-schedule"]["why"]
    assert "not asked" in Check.objects.get(step__job=job, key="effective").detail
    for name in ("--enable-single-batch-overlap", "--enable-flashinfer-allreduce-fusion", "--enable-nccl-nvls"):
        assert not rows[name]["changed"] and rows[name]["why"], name
    assert launch_of(job).effective["version"] == version

    client = Client()
    client.force_login(story.actor)
    for path in (reverse("deployments:job", args=[job.pk]), reverse("deployments:deployment", args=[deployment.pk])):
        page = client.get(path).content.decode()
        assert "The engine changed" in page and graphs in page and "counts as one" in page, path
