"""Check asks what the engine made of the flags, and the plan which version is installed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deployments.lifecycle import JobState
from deployments.models import Check, Job
from tests.deployments.support import READY, Story
from tests.factories import make_revision

pytestmark = [pytest.mark.django_db, pytest.mark.jobs]

INFO = {
    "tp_size": 2,
    "kv_cache_dtype": "auto",
    "api_key": "sesame-street",
    "version": "0.5.9",
    "internal_states": [{"tp_size": 2, "kv_cache_dtype": "fp8_e4m3", "api_key": "sesame-street"}],
}


def stored(job: Job) -> dict[str, Any]:
    effective: dict[str, Any] = job.launches.get().effective
    return effective


def test_check_keeps_what_the_engine_tells(serving: Story) -> None:
    serving.host.pages["/server_info"] = (200, json.dumps(INFO).encode())
    serving.host.log = "[2026-01-01 10:00:00] Using KV cache dtype: torch.float8_e4m3fn\n" + READY
    serving.request()
    serving.approve()
    job = serving.work_on()
    assert job.state == JobState.SUCCEEDED, job.summary
    told = stored(job)
    assert told["version"] == "0.5.9" and "sesame" not in repr(told)
    (kv,) = (row for row in told["rows"] if row["name"] == "--kv-cache-dtype")
    assert (kv["asked"], kv["effective"], kv["changed"]) == ("auto", "fp8_e4m3", True)
    shown = Check.objects.get(step__job=job, key="effective")
    assert shown.status == "ok" and shown.value.startswith("1 of ")
    assert "--kv-cache-dtype: auto, runs with fp8_e4m3" in shown.detail


@pytest.mark.parametrize("answer", [(404, b"{}"), (200, b"<html>"), (200, b"[" * 200_000), (200, b"[1]")])
def test_an_engine_that_tells_nothing_is_not_a_failure(serving: Story, answer: tuple[int, bytes]) -> None:
    serving.host.pages["/server_info"] = answer
    serving.request()
    serving.approve()
    job = serving.work_on()
    assert job.state == JobState.SUCCEEDED, job.summary
    assert stored(job) == {}
    assert Check.objects.get(step__job=job, key="effective").status == "unknown"


def test_the_version_is_asked_only_where_the_revision_states_one(serving: Story) -> None:
    serving.request()
    serving.work()
    assert "version" not in serving.host.sent


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (["version 0.5.9"], "0.5.9, which"),
        (["unknown python3 is not there"], "is not known: python3 is not there."),
        ([], "is not known: the host did not say."),
        (["version 0.5.11"], ""),
    ],
)
def test_a_version_that_was_not_tried_is_in_the_plan(serving: Story, said: list[str], words: str) -> None:
    serving.host.version = said
    profile = serving.deployment.profile
    revision = make_revision(profile, engine_versions="0.5.10 or newer", argv=profile.newest.argv)
    serving.request(revision=revision)
    job = serving.work()
    assert "version" in serving.host.sent and job.plan is not None
    found = [warning["text"] for warning in job.plan["warnings"] if "known to be good" in warning["text"]]
    assert words in "".join(found) and bool(found) == bool(words)
