"""A production benchmark: 172 tokens per second for one request, over 2,100 for many; kept, and drawn over time."""

import json
import re
from html import unescape

import pytest
from django.test import Client
from django.urls import reverse

from deployments.models import Benchmark, Deployment
from tests.support.story import Place, Story, launch_of, told

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(240)]

REAL_TIME = {"LAB_TIME_SCALE": "1", "SGLANG_LAB_HINTS": '{"tokens_per_second": 172, "load_seconds": 0.2}'}
MANY = 16


def drawn(story: Story, deployment: Deployment) -> list[dict[str, dict[str, float]]]:
    """The points of the drawing on the deployment's page."""
    client = Client()
    client.force_login(story.actor)
    page = client.get(reverse("deployments:deployment", args=[deployment.pk])).content.decode()
    found = re.search(r'data-trend="([^"]+)"', page)
    assert found is not None
    points: list[dict[str, dict[str, float]]] = json.loads(unescape(found[1]))
    return points


def test_scenario_15_measured_kept_with_the_launch_and_drawn(story: Story, place: Place) -> None:
    deployment = story.deploy_sglang(place, "--enable-metrics", env=REAL_TIME)
    job = story.start(deployment)
    found = story.measure(deployment, 1, MANY, tokens=128)
    one, many = found.figures
    assert one.each is not None and 120 < one.each.most <= 175, told(job)
    assert one.tokens_per_second is not None and many.tokens_per_second is not None
    assert 1500 < many.tokens_per_second <= MANY * 175, "a busy machine answers later, and never faster than it can"
    assert (many.answered, many.tokens, many.beside) == (2 * MANY, 2 * MANY * 128, 0)
    assert found.launch == launch_of(job) and found.engine_version == "0.5.9"
    assert [card["name"] for card in found.cards] == [gpu.name for gpu in deployment.placement.gpus]

    story.run_job(deployment)
    story.measure(deployment, 1)
    first, second = drawn(story, deployment)
    assert first["rates"] == {"1": one.tokens_per_second, str(MANY): many.tokens_per_second}
    assert list(second["rates"]) == ["1"]
    assert Benchmark.objects.filter(launch__deployment=deployment).count() == 2
