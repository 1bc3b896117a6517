"""The memory of a launch's cards "now", on the page of its job: never what was read before the server was there."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from deployments.models import JobReading
from deployments.views.outcome import _memory
from hosts.models import Gpu
from tests.factories import make_deployment, make_gpu, make_host, make_job, make_launch

pytestmark = pytest.mark.django_db


def test_the_newer_of_two_readings_counts_and_an_older_one_than_the_start_is_none() -> None:
    ready, host = timezone.now(), make_host()
    gpu = make_gpu(host, used_mib=0, read_at=ready - timedelta(seconds=3))
    deployment = make_deployment(host=host, gpus=[gpu])
    job = make_job(deployment)
    launch = make_launch(deployment, job=job, ready_at=ready, memory_before={gpu.uuid: 4})

    def now() -> int | None:
        (row,) = _memory(job, launch)
        found: int | None = row["now"]
        return found

    assert now() is None, "0 MiB would be said of a server that holds 6,000"
    JobReading.objects.create(job=job, gpu_uuid=gpu.uuid, at=ready + timedelta(seconds=1), used_mib=6_000)
    assert now() == 6_000
    Gpu.objects.update(used_mib=6_100, read_at=ready + timedelta(seconds=2))
    assert now() == 6_100
