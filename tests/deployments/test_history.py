"""The history of jobs: what each filter leaves, pages by key, logs read in bounded time, and the files."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, timedelta

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from deployments import history
from deployments.history import Wanted
from deployments.models import Deployment, Job
from hosts.models import Host
from tests.factories import make_deployment, make_job, make_log

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("_small_pages")]
ClientOf = Callable[[User], Client]


@pytest.fixture
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "PAGE", 4)
    monkeypatch.setattr(history, "FEW", 3)


def ended(name: str, **values: object) -> Job:
    return make_job(make_deployment(name=name), **({"state": "failed", "ended_at": timezone.now()} | values))


def many(count: int, **values: object) -> list[Job]:
    """Jobs without steps: quick to make."""
    usual = {"deployment_name": "chat", "host_name": "gpu1", "kind": "stop", "state": "succeeded"}
    return Job.objects.bulk_create(Job(requested_by_name="ana", **(usual | values)) for _ in range(count))


def keys(page: history.Page) -> list[int]:
    return [job.pk for job in page.jobs]


# --- What is found


def test_the_history_narrows_by_each_filter() -> None:
    wanted, other = ended("alpha", requested_by_name="ada", kind="stop"), ended("beta", state="cancelled")
    make_log(wanted, "CUDA out of memory\n")
    Job.objects.filter(pk=other.pk).update(created_at=timezone.now() - timedelta(days=9), approved_by_name="bob")
    today = timezone.now().date()
    for only, found in (
        (Wanted(), [other.pk, wanted.pk]),
        (Wanted(deployment="alpha"), [wanted.pk]),
        (Wanted(host=wanted.host_name), [wanted.pk]),
        (Wanted(kind="stop"), [wanted.pk]),
        (Wanted(state="failed"), [wanted.pk]),
        (Wanted(person="ada"), [wanted.pk]),
        (Wanted(person="bob"), [other.pk]),
        (Wanted(since=today - timedelta(days=1)), [wanted.pk]),
        (Wanted(since=today + timedelta(days=1)), []),
        (Wanted(until=today - timedelta(days=9)), [other.pk]),
        (Wanted(until=today - timedelta(days=10)), []),
        (Wanted(until=date.max), [other.pk, wanted.pk]),
        (Wanted(text="OUT of memory"), [wanted.pk]),
        (Wanted(text="out of memory", deployment="beta"), []),
    ):
        assert keys(history.page(only, before=None)) == found, only
        assert [job.pk for job in history.found(only)] == found, only


def test_pages_go_by_key_and_none_is_left_out() -> None:
    jobs = many(2 * history.PAGE)
    first = history.page(Wanted(deployment="chat"), before=None)
    assert (len(first.jobs), first.older) == (history.PAGE, jobs[history.PAGE].pk)
    second = history.page(Wanted(deployment="chat"), before=first.older)
    assert keys(first) + keys(second) == [job.pk for job in reversed(jobs)]
    assert second.older is None


def test_a_page_neither_counts_nor_skips() -> None:
    many(3)
    with CaptureQueriesContext(
        connection,
    ) as asked:
        history.page(Wanted(deployment="chat", text="x"), before=10**6)
    said = " ".join(query["sql"].upper() for query in asked.captured_queries)
    assert "OFFSET" not in said and "COUNT(" not in said and "LIMIT" in said


def test_logs_are_read_until_the_page_is_full() -> None:
    jobs = many(history.PAGE + 3)
    for job in jobs:
        make_log(job, "weights loaded\n")
    first = history.page(Wanted(text="weights"), before=None, clock=lambda: 0.0)
    assert keys(first) == [job.pk for job in reversed(jobs[3:])]
    rest = history.page(Wanted(text="weights"), before=first.older, clock=lambda: 0.0)
    assert keys(rest) == [job.pk for job in reversed(jobs[:3])] and rest.older is None


def test_a_page_that_is_just_full_leads_on_to_the_next_match() -> None:
    jobs = many(20)
    for job in (*jobs[-3:], jobs[-5], jobs[0]):
        make_log(job, "weights\n")
    page = history.page(Wanted(text="weights"), before=None, clock=lambda: 0.0)
    assert len(page.jobs) == history.PAGE and page.older == jobs[-5].pk


def test_a_search_that_takes_long_says_how_far_it_has_come_and_goes_on_there() -> None:
    jobs = many(2 * history.FEW + 1)
    make_log(jobs[0], "NCCL timeout\n")
    make_log(jobs[-1], "NCCL timeout\n")
    late = iter(range(99))
    first = history.page(Wanted(text="nccl"), before=None, clock=lambda: next(late))
    assert keys(first) == [jobs[-1].pk]
    assert first.looked_back_to == jobs[-history.FEW]
    second = history.page(Wanted(text="nccl"), before=first.older, clock=lambda: 0.0)
    assert keys(second) == [jobs[0].pk] and second.looked_back_to is None


# --- The page


def test_the_page_keeps_the_filter_on_its_way_to_older_jobs(client_of: ClientOf, viewer: User) -> None:
    jobs = many(history.PAGE + 1)
    page = client_of(viewer).get("/jobs/?deployment=chat&state=succeeded").content.decode()
    assert f"?deployment=chat&amp;state=succeeded&amp;before={jobs[1].pk}" in page
    assert "/jobs/export.json?deployment=chat&amp;state=succeeded" in page


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", "No job yet"),
        ("?deployment=nobody", "No job like that"),
        ("?before=1", "No older job"),
        ("?since=yesterday", "Enter a valid date"),
    ],
)
def test_an_empty_page_says_why(client_of: ClientOf, viewer: User, query: str, words: str) -> None:
    assert words in client_of(viewer).get(f"/jobs/{query}").content.decode()


def test_the_page_says_how_far_the_logs_were_read(
    client_of: ClientOf, viewer: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = many(history.FEW)
    monkeypatch.setattr(history, "LOOK_SECONDS", -1.0)
    page = client_of(viewer).get("/jobs/?text=NCCL").content.decode()
    assert f"those back to job {jobs[0].pk}" in page and f"text=NCCL&amp;before={jobs[0].pk}" in page


def test_a_job_stays_readable_when_its_host_is_gone(client_of: ClientOf, viewer: User) -> None:
    job = ended("gone")
    make_log(job, "the last words\n")
    Job.objects.update(deployment=None)
    Deployment.objects.all().delete()
    Host.objects.all().delete()
    client = client_of(viewer)
    assert job.host_name in client.get("/jobs/").content.decode()
    page = client.get(f"/jobs/{job.pk}/").content.decode()
    assert "Restart of gone" in page and job.host_name in page and "the last words" in page


# --- The files


def test_the_csv_cannot_run_a_formula(client_of: ClientOf, viewer: User) -> None:
    ended("alpha", reason='=HYPERLINK("http://x","y")', summary="+1")
    text = b"".join(client_of(viewer).get("/jobs/export.csv")).decode()
    assert "'=HYPERLINK" in text and "'+1" in text
    assert text.startswith("id,kind,state,deployment_name")


def test_the_json_is_a_list_with_the_same_filter(client_of: ClientOf, viewer: User) -> None:
    job, _ = ended("alpha", reason='say "no"\n'), ended("beta")
    (other,) = many(1, deployment_name="alpha")
    answer = client_of(viewer).get("/jobs/export.json?deployment=alpha")
    assert answer["Content-Disposition"] == 'attachment; filename="relaunch-jobs.json"'
    found = json.loads(b"".join(answer))
    assert [row["id"] for row in found] == [other.pk, job.pk]
    assert found[1]["reason"] == 'say "no"\n' and found[1]["revision"] == str(job.revision)
    assert found[1]["created_at"] == job.created_at.isoformat()
    assert json.loads(b"".join(client_of(viewer).get("/jobs/export.json?deployment=nobody"))) == []


def test_only_who_may_look_gets_a_file(client_of: ClientOf, stranger: User) -> None:
    for path in ("/jobs/export.csv", "/jobs/export.json"):
        assert client_of(stranger).get(path).status_code == 403


@pytest.mark.slow
def test_the_benchmark_runs_with_few(client_of: ClientOf, viewer: User) -> None:
    from tests.bench import bench_history

    bench_history.fill(jobs=60, lines=1200)
    taken = bench_history.measure(client_of(viewer), jobs=60, runs=8)
    assert {kind: len(each) for kind, each in taken.items()} == {"list": 8, "filter": 8, "search": 8}
