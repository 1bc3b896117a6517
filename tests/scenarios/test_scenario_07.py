"""The part after the start: a model that does not fit is never blamed on left-over memory."""

import pytest
from django.test import Client
from django.urls import reverse

from deployments.lifecycle import JobKind, JobState
from tests.scenarios.models import HYBRID, put_model
from tests.support.story import Place, Story, launch_of, told

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]


def test_scenario_07_the_cards_were_clean_so_the_model_does_not_fit(story: Story, place: Place) -> None:
    total = min(card.memory_mib for card in place.node.cards)
    large = {**HYBRID, "lab": {"weights_mib": int(total * 0.9), "load_seconds": 1.0}}
    put_model(place, "too-large", large)
    deployment = story.deploy_sglang(
        place, "--mem-fraction-static", "0.85", "--speculative-algorithm", "NEXTN", model="too-large"
    )
    failed = story.wait_for(story.begin_job(deployment, JobKind.START), JobState.FAILED)
    uuids = set(deployment.placement.gpu_uuids)
    assert launch_of(failed).memory_before == dict.fromkeys(uuids, 0), told(failed)
    diagnosis = failed.diagnosis or {}
    assert "Not enough memory. Please try to increase --mem-fraction-static" in diagnosis["line"]
    assert "does not fit" in diagnosis["memory"] and "baseline before the start" in diagnosis["memory"]
    client = Client()
    client.force_login(story.actor)
    page = client.get(reverse("deployments:job", args=[failed.pk])).content.decode()
    assert "The cards were at their baseline before the start: the model does not fit; nothing was left over." in page
    assert "something else held memory" not in page
