"""A first start that cannot fit: said beforehand, with what would fit, and never blamed on left-over memory."""

import pytest

from deployments.lifecycle import JobKind, JobState
from tests.scenarios.models import HYBRID, put_model
from tests.scenarios.plans import page_of, planned, warning_of
from tests.support.story import Place, Story, launch_of, sglang, told

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

PLACES: dict[str, tuple[int, tuple[str, ...], str]] = {
    "gpu1": (53_000, (), "13.8 GiB"), "llm-gpu": (100_000, ("--max-running-requests", "128"), "36.7 GiB"),
}  # fmt: skip
"""Weights of the model, more flags, and what the states of the drafts take of each card: 55 GB on two cards of 48 GB as
in the story, and as much too much on two of 96."""
FLAGS = (
    "--mem-fraction-static", "0.85", "--context-length", "131072", "--speculative-algorithm", "NEXTN",
    "--speculative-num-steps", "3", "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4",
    "--enable-torch-compile",
)  # fmt: skip


def test_scenario_07_the_cards_were_clean_so_the_model_does_not_fit(story: Story, place: Place) -> None:
    weights_mib, more, states = PLACES[place.machine.name]
    put_model(place, "too-large", HYBRID, weights_mib=weights_mib)
    deployment = story.deploy_sglang(place, *FLAGS, *more, model="too-large")

    plan, page = planned(story, deployment)
    assert plan["fit"]["verdict"] == "does not fit" and plan["fit"]["changes"], plan["fit"]
    warning = warning_of(plan, f"{deployment.revision} does not fit on these cards.")
    assert "fail for want of memory" in warning["why"]
    assert "It does not fit" in page and "would make it fit" in page
    kept = next(row for row in plan["fit"]["rows"] if row["label"] == "States kept while drafts are verified")
    assert kept["value"] == states

    # Somebody takes the risk.
    failed = story.wait_for(story.begin_job(deployment, JobKind.START), JobState.FAILED)
    uuids = set(deployment.placement.gpu_uuids)
    assert launch_of(failed).memory_before == dict.fromkeys(uuids, 0), told(failed)
    diagnosis = failed.diagnosis or {}
    assert "Not enough memory. Please try to increase --mem-fraction-static" in diagnosis["line"]
    assert "does not fit" in diagnosis["memory"] and "baseline before the start" in diagnosis["memory"]
    page = page_of(story, failed)
    assert "The cards were at their baseline before the start: the model does not fit; nothing was left over." in page
    assert "The plan had said that it does not fit." in page and "something else held memory" not in page

    # What the plan proposes is what works.
    change = plan["fit"]["changes"][0]["flags"]
    assert change in page
    smaller = story.add_revision(deployment, sglang(*FLAGS, *change.split(), cards=2, model="too-large"))
    fits, _ = planned(story, deployment, revision=smaller)
    assert fits["fit"]["verdict"] == "fits"
    story.run_job(deployment, JobKind.START, revision=smaller)
