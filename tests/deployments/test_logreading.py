"""Pieces of a log by key, where a text is said in it, and that its lines are numbered as it is written."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client

from deployments import logreading
from deployments.joblog import JobLog
from deployments.loglines import LineCount
from deployments.logreading import Matches, Piece
from deployments.models import Job, LogChunk
from tests.factories import make_deployment, make_job, make_launch, make_log

pytestmark = pytest.mark.django_db
ClientOf = Callable[[User], Client]


@pytest.fixture
def job() -> Job:
    return make_job(make_deployment())


@pytest.fixture
def _three_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer holds three chunks."""
    monkeypatch.setattr(logreading, "MOST_CHUNKS", 3)


def seqs(piece: Piece) -> list[int]:
    return [chunk.seq for chunk in piece.chunks]


@pytest.mark.usefixtures("_three_chunks")
def test_pieces_by_key(job: Job) -> None:
    make_log(job, *(f"line {n}\n" for n in range(1, 10)))
    for piece, expected in (
        (logreading.end(job), ([7, 8, 9], True, False)),
        (logreading.before(job, 7), ([4, 5, 6], True, True)),
        (logreading.before(job, 4), ([1, 2, 3], False, True)),
        (logreading.after(job, 3), ([4, 5, 6], True, True)),
        (logreading.after(job, 6), ([7, 8, 9], True, False)),
        (logreading.after(job, 9), ([], True, False)),
        (logreading.around(job, 5), ([2, 3, 4, 5, 6, 7], True, True)),
        (logreading.around(job, 1), ([1, 2, 3], False, True)),
    ):
        assert (seqs(piece), piece.older, piece.newer) == expected
    assert logreading.tail_begins_after(job) == 6


def test_large_chunks_make_small_answers(job: Job) -> None:
    make_log(job, *("x" * 30_000 for _ in range(9)))
    assert [len(logreading.end(job).chunks), len(logreading.around(job, 5).chunks)] == [2, 3]
    assert logreading.tail_begins_after(job) == 7


def test_a_log_of_one_step(job: Job) -> None:
    make_log(job, "a\n", step="stop")
    make_log(job, "b\n", "c\n", step="launch")
    make_log(job, "d\n", step="stop")
    assert seqs(logreading.end(job, step="stop")) == [1, 4]
    assert seqs(logreading.around(job, 2, step="stop")) == [1, 4]
    assert logreading.find(job, "D", step="launch").lines == []


def test_an_empty_log_has_an_end(job: Job) -> None:
    assert seqs(logreading.end(job)) == [] and logreading.tail_begins_after(job) == 0
    assert logreading.chunk_of_line(job, 5) == 0


@pytest.mark.parametrize(("line", "seq"), [(0, 1), (1, 1), (2, 1), (3, 2), (4, 4), (5, 4), (6, 4), (99, 4)])
def test_the_chunk_of_a_line(job: Job, line: int, seq: int) -> None:
    make_log(job, "1\n2\n", "3", " goes on\n", "4\n5\n6\n")
    assert logreading.chunk_of_line(job, line) == seq


def test_a_text_is_found_over_the_whole_log(job: Job) -> None:
    make_log(job, "CUDA ok\nx\n", "cuda\n", "nothing\n")
    assert logreading.find(job, "Cuda") == Matches([(1, 0), (2, 0)], more=False)


def test_of_too_many_matches_the_newest_are_told(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logreading, "MOST_MATCHES", 3)
    make_log(job, "a\n", "a\na\n", "a\n", "a\n")
    assert logreading.find(job, "a") == Matches([(2, 1), (3, 0), (4, 0)], more=True)


def test_a_search_ends_in_bounded_time(job: Job) -> None:
    make_log(job, "a\n", "a\n")
    late = iter([0.0, 99.0])
    assert logreading.find(job, "a", clock=lambda: next(late)) == Matches([(2, 0)], more=True)


# --- How a log is written


def test_lines_are_numbered_as_they_are_written_also_by_the_next_worker() -> None:
    deployment = make_deployment()
    job, launch = make_job(deployment, state="queued"), make_launch(deployment)
    for owner in ("one", "two"):
        claim = Job.claim(job.pk, owner=owner)
        assert claim is not None
        log = JobLog(claim)
        log.say("Two\nlines", step="launch")
        server = log.server(launch, step="launch")
        server.feed(server.wanted, b"10 %\r")
        log.say("Still loading.", step="launch")
        server.feed(server.wanted, b"100 %\r\nready\n" if owner == "two" else b"20 %\r")
        Job.objects.update(owner="", lease_until=None, state="queued")
    count = LineCount()
    for chunk in LogChunk.objects.filter(job=job).order_by("seq"):
        assert (chunk.line, chunk.lines) == count.take(chunk.source, chunk.text), chunk.seq
    assert count.next == 9


def test_what_was_not_stored_is_not_counted() -> None:
    job = make_job(make_deployment(), state="queued")
    claim = Job.claim(job.pk, owner="me")
    assert claim is not None
    log = JobLog(claim)
    with pytest.raises(ZeroDivisionError), log.transaction(LogChunk(source="server", text="lost")):
        raise ZeroDivisionError
    log.say("kept", step="plan")
    assert LogChunk.objects.values_list("line", "lines").get() == (1, 1)


# --- What pages get


def test_the_pages_ask_by_key(client_of: ClientOf, viewer: User, stranger: User, job: Job) -> None:
    make_log(job, "1\n", "2\n3\n", "4\n")
    client, path = client_of(viewer), f"/jobs/{job.pk}/log.json"
    for query, expected in (
        ("", [1, 2, 3]), ("?before=2", [1]), ("?after=1", [2, 3]), ("?line=3", [1, 2, 3]), ("?around=x", [1, 2, 3]),
        ("?after=3", []), (f"?after={'9' * 30}", [1, 2, 3]),
    ):  # fmt: skip
        assert [item["seq"] for item in client.get(path + query).json()["items"]] == expected, query
    item = client.get(f"{path}?after=1").json()["items"][0]
    assert (item["line"], item["lines"], item["text"]) == (2, 2, "2\n3\n")
    found = client.get(f"/jobs/{job.pk}/log/find.json?text=3").json()
    assert found == {"lines": [[2, 1]], "more": False}
    assert client.get(f"/jobs/{job.pk}/log/find.json?text=").json() == {"lines": [], "more": False}
    for refused in (path, f"/jobs/{job.pk}/log/find.json?text=3"):
        assert client_of(stranger).get(refused).status_code == 403


def test_the_page_holds_the_end_of_a_long_log_and_no_more(client_of: ClientOf, viewer: User, job: Job) -> None:
    make_log(job, *(f"chunk {n} {'x' * 30_000}\n" for n in range(9)))
    page = client_of(viewer).get(f"/jobs/{job.pk}/").content.decode()
    assert 'data-cursor="7"' in page and "chunk 8" in page and "chunk 6" not in page
