"""What the engine made of the flags is kept with the launch and shown, and no secret with it."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from deployments.lifecycle import JobState
from deployments.models import Check, Job
from tests.deployments.support import READY, Story
from tests.factories import make_deployment, make_job, make_launch, make_revision

pytestmark = pytest.mark.django_db
ClientOf = Callable[[User], Client]

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


ROW = {"name": "--kv-cache-dtype", "asked": "auto", "effective": "fp8_e4m3", "changed": True}
TOLD = {
    "version": "0.5.9",
    "rows": [
        {**ROW, "why": "The checkpoint asks for it.", "source": "its log"},
        {"name": "--new", "asked": "1", "effective": None, "changed": False, "why": "", "source": ""},
    ],
    "facts": [{"label": "KV cache", "value": "10 tokens", "source": "its log"}],
    "notes": ["Disabling <this> because of that"],
    "told": {"tp_size": 2},
}


def test_a_success_shows_what_the_engine_changed_and_why(client_of: ClientOf, viewer: User) -> None:
    job = make_job(make_deployment(), at_step=6, state="succeeded", ended_at=timezone.now())
    make_launch(job.deployment, job=job, effective=TOLD)
    page = client_of(viewer).get(f"/jobs/{job.pk}/").content.decode()
    assert "The engine changed 1 of 1 settings that it tells" in page
    for words in ("fp8_e4m3", "The checkpoint asks for it.", "not told by the engine", "10 tokens", "0.5.9"):
        assert words in page, words
    assert "Disabling &lt;this&gt; because of that" in page


def test_what_was_stored_before_there_was_a_table_is_still_shown(client_of: ClientOf, viewer: User) -> None:
    job = make_job(make_deployment(), at_step=6, state="succeeded", ended_at=timezone.now())
    make_launch(job.deployment, job=job, effective={"told": {"kv_cache_dtype": "fp8_e5m2"}})
    page = client_of(viewer).get(f"/jobs/{job.pk}/").content.decode()
    assert "All 1 settings that the engine reports" in page and "fp8_e5m2" in page
