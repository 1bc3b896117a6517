"""What a job and its steps are called, once and everywhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client

from controlpanel.templatetags.ui import state
from deployments.lifecycle import JobKind, JobState, StepState
from deployments.models import Job
from deployments.views.history import STATES
from deployments.views.words import job_word, step_word
from tests.factories import make_deployment, make_job

pytestmark = pytest.mark.django_db
ClientOf = Callable[[User], Client]


def said(job: Job) -> list[str]:
    """The words at the steps of a job, by their order."""
    words = [step_word(step, job) for step in job.steps.all()]
    return [state(word.kind, word.value, word.text).split("</i>")[1].removesuffix("</span>") for word in words]


@pytest.mark.parametrize(
    ("ended", "word"),
    [
        (JobState.REJECTED, "Discarded"),
        (JobState.EXPIRED, "Approval expired"),
        (JobState.CANCELLED, "Cancelled"),
        (JobState.ERRORED, "Broken off"),
    ],
)
def test_the_step_at_which_a_job_ended_says_how(ended: JobState, word: str) -> None:
    job = make_job(make_deployment(), at_step=0, state="waiting")
    assert said(job)[:2] == ["Waits", "To do"]
    Job.let_go(job.pk)
    Job.objects.filter(pk=job.pk).update(state=ended)
    assert said(Job.objects.get(pk=job.pk)) == [word, *["Not done"] * 5]


def test_a_step_at_work_and_a_failed_one() -> None:
    assert said(make_job(make_deployment(), at_step=1))[:3] == ["Done", "At work", "To do"]
    failed = make_job(make_deployment(), at_step=1, failed=True, state="failed")
    assert failed.steps.filter(state=StepState.FAILED).exists() and said(failed)[1] == "Failed"


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        (JobKind.RESTART, "Restart failed"),
        (JobKind.REPLACE, "Replacement failed"),
        (JobKind.PUT_BACK, "Putting back failed"),
    ],
)
def test_a_failed_job_is_named_by_its_work(kind: JobKind, word: str) -> None:
    assert job_word(make_job(make_deployment(), kind=kind, at_step=1, failed=True, state="failed")).text == word


def test_the_filter_has_the_words_of_the_badges(client_of: ClientOf, viewer: User) -> None:
    make_job(make_deployment(), state="rejected")
    page = client_of(viewer).get("/jobs/?state=rejected").content.decode()
    assert '<option value="rejected" selected>Discarded</option>' in page and "Rejected" not in page
    assert [value for value, _ in STATES] == list(JobState)
