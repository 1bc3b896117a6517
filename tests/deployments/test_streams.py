"""What pages follow: everything after the cursor once, and nothing when nothing changed."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from controlpanel.live.protocol import LARGEST_BATCH, MOST_ITEMS, Subscribe, parse
from controlpanel.live.streams import Batch, find
from deployments.models import Deployment, Job, JobReading
from hosts.models import Gpu, Host
from tests.factories import make_deployment, make_gpu, make_host, make_host_test, make_job, make_log

pytestmark = pytest.mark.django_db


def read(stream: str, cursor: Any, user: User) -> Batch:
    reader, key = find(stream)
    assert reader is not None and reader.authorise(user, key)
    return reader.read(key, cursor, user)


def read_all(stream: str, user: User) -> list[dict[str, Any]]:
    items, cursor, more = [], None, True
    while more:
        batch = read(stream, cursor, user)
        assert len(batch.items) <= MOST_ITEMS
        items += batch.items
        cursor, more = batch.cursor, batch.more
    assert read(stream, cursor, user).items == []
    return items


@pytest.mark.parametrize("stream", ["job:1", "joblog:1", "readings:1", "gpus", "overview", "hosttest:1", "flags:1"])
def test_only_who_may_look_may_follow(viewer: User, stranger: User, stream: str) -> None:
    reader, key = find(stream)
    assert reader is not None
    assert reader.authorise(viewer, key) and not reader.authorise(stranger, key)


@pytest.mark.parametrize(
    "stream", ["job:9", "joblog:9", "readings:9", "hosttest:9", "flags:9", "job:x", "joblog:", f"job:{'9' * 40}"]
)
def test_what_is_not_there_has_nothing_to_say(viewer: User, stream: str) -> None:
    assert read(stream, None, viewer).items == []


def test_a_job_tells_when_its_version_or_state_changes(viewer: User) -> None:
    job = make_job(make_deployment())
    first = read(f"job:{job.pk}", None, viewer)
    assert first.items[0]["version"] == 0
    assert read(f"job:{job.pk}", first.cursor, viewer).items == []
    Job.objects.update(version=1)
    second = read(f"job:{job.pk}", first.cursor, viewer)
    assert second.items[0]["version"] == 1
    Job.objects.update(state="waiting")
    assert read(f"job:{job.pk}", second.cursor, viewer).items[0]["state"] == "waiting"


def test_a_log_comes_whole_and_in_order(viewer: User) -> None:
    job, other = make_job(make_deployment()), make_job(make_deployment())
    make_log(job, *(f"line {n}\n" for n in range(MOST_ITEMS * 2 + 5)))
    make_log(other, "not this\n")
    items = read_all(f"joblog:{job.pk}", viewer)
    assert [item["text"] for item in items] == [f"line {n}\n" for n in range(MOST_ITEMS * 2 + 5)]
    assert items[0].keys() == {"seq", "source", "step", "at", "line", "lines", "text", "dropped"}


def test_large_chunks_make_small_batches_and_none_is_left_out(viewer: User) -> None:
    job = make_job(make_deployment())
    make_log(job, *(str(n) * 30_000 for n in range(6)), "x" * (LARGEST_BATCH + 1), "end")
    batch = read(f"joblog:{job.pk}", None, viewer)
    assert sum(len(item["text"]) for item in batch.items) <= LARGEST_BATCH and batch.more
    assert [item["text"][0] for item in read_all(f"joblog:{job.pk}", viewer)] == [*"012345", "x", "e"]


def test_the_memory_curve(viewer: User) -> None:
    job = make_job(make_deployment())
    now = timezone.now()
    JobReading.objects.bulk_create(
        JobReading(job=job, gpu_uuid="GPU-1", at=now, used_mib=n or None) for n in range(MOST_ITEMS + 3)
    )
    items = read_all(f"readings:{job.pk}", viewer)
    assert [item["used"] for item in items] == [None, *range(1, MOST_ITEMS + 3)]


def test_cards_are_told_when_they_change_or_grow_stale(viewer: User) -> None:
    gpu = make_gpu(make_host(), used_mib=4)
    first = read("gpus", None, viewer)
    assert (first.items[0]["used"], first.items[0]["stale"]) == (4, False)
    assert read("gpus", first.cursor, viewer).items == []
    Gpu.objects.update(used_mib=5)
    second = read("gpus", first.cursor, viewer)
    assert second.items[0]["used"] == 5
    Gpu.objects.update(read_at=timezone.now() - timedelta(seconds=6))
    third = read("gpus", second.cursor, viewer)
    assert third.items[0]["stale"] and third.items[0]["id"] == gpu.pk


def make_gpus(count: int) -> None:
    host = make_host()
    Gpu.objects.bulk_create(
        Gpu(host=host, uuid=f"GPU-{n}", index=n, name="L40S", used_mib=4, read_at=timezone.now()) for n in range(count)
    )


def test_more_cards_than_a_batch_holds_are_all_told(viewer: User) -> None:
    make_gpus(2 * MOST_ITEMS + 5)
    assert [item["index"] for item in read_all("gpus", viewer)] == list(range(2 * MOST_ITEMS + 5))


def test_of_many_cards_only_those_are_told_again_that_changed(viewer: User) -> None:
    make_gpus(2 * MOST_ITEMS + 5)
    batch = read("gpus", None, viewer)
    while batch.more:
        batch = read("gpus", batch.cursor, viewer)
    Gpu.objects.filter(index=2 * MOST_ITEMS + 1).update(used_mib=5)
    batch = read("gpus", batch.cursor, viewer)
    assert [item["index"] for item in batch.items] == [2 * MOST_ITEMS + 1]
    assert not batch.more


def test_cards_that_change_all_the_time_do_not_keep_others_back(viewer: User) -> None:
    make_gpus(2 * MOST_ITEMS + 5)
    cursor, told = None, []
    for used in range(3):
        Gpu.objects.update(used_mib=used)
        batch = read("gpus", cursor, viewer)
        cursor = batch.cursor
        told.append(batch.items[0]["index"])
    assert told == [0, MOST_ITEMS, 2 * MOST_ITEMS]


def test_the_place_among_the_cards_is_one_that_a_browser_may_send(viewer: User) -> None:
    make_gpus(2 * MOST_ITEMS)
    cursor = read("gpus", None, viewer).cursor
    assert parse(json.dumps({"op": "sub", "s": "gpus", "cursor": cursor})) == Subscribe("gpus", cursor)


@pytest.mark.parametrize("cursor", [7, "", "1:", "99:zzzzzzzz", "0123456789abcdef:7", "0123456789abcdef:7:8:9"])
def test_a_cursor_that_is_not_ours_begins_anew(viewer: User, cursor: Any) -> None:
    make_gpus(2)
    assert len(read("gpus", cursor, viewer).items) == 2


def test_the_overview_tells_of_jobs_deployments_and_hosts(viewer: User) -> None:
    deployment = make_deployment()
    job = make_job(deployment)
    cursor = read("overview", None, viewer).cursor
    assert read("overview", cursor, viewer).items == []
    for change in (
        lambda: Job.objects.filter(pk=job.pk).update(version=5),
        lambda: Job.objects.filter(pk=job.pk).update(state="succeeded"),
        lambda: Deployment.objects.update(state="crashed"),
        lambda: Deployment.objects.update(proven_revision=deployment.revision),
        lambda: Deployment.objects.update(out_of_router={"job": job.pk}),
        lambda: Host.objects.update(reach="unreachable"),
        lambda: Host.objects.update(maintenance="new driver"),
        lambda: Host.objects.update(gpu_problem="nvidia-smi hangs"),
        lambda: make_job(make_deployment()),
    ):
        change()
        batch = read("overview", cursor, viewer)
        assert len(batch.items) == 1
        cursor = batch.cursor


def test_a_host_test_tells_of_each_finding_and_its_end(viewer: User) -> None:
    test = make_host_test(make_host(), finished_at=None)
    cursor = read(f"hosttest:{test.pk}", None, viewer).cursor
    for change in ({"findings": [{"label": "a"}]}, {"finished_at": timezone.now()}):
        for name, value in change.items():
            setattr(test, name, value)
        test.save()
        batch = read(f"hosttest:{test.pk}", cursor, viewer)
        assert len(batch.items) == 1
        cursor = batch.cursor
