"""What the engine made of the flags is shown, with what is not told."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from tests.factories import make_deployment, make_job, make_launch

pytestmark = pytest.mark.django_db
ClientOf = Callable[[User], Client]

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
