"""The retry does not show the log of the try before."""

import pytest
from django.test import Client
from django.urls import reverse

from deployments.lifecycle import JobKind, JobState
from tests.support.story import HASTE, Place, Story, launch_of, log_of, sglang, stored_log

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

ERROR = "CUDA out of memory"


def test_scenario_08_each_launch_has_its_own_log(story: Story, place: Place) -> None:
    deployment = story.deploy_sglang(place, env={"SGLANG_LAB_MODE": "oom-load"})
    failed = story.wait_for(story.begin_job(deployment, JobKind.START), JobState.FAILED)
    first = launch_of(failed)
    assert ERROR in log_of(failed, source="server")

    good = story.add_revision(deployment, sglang(cards=2), env=HASTE)
    job = story.run_job(deployment, JobKind.START, revision=good)
    second = launch_of(job)

    assert second.directory and second.directory != first.directory
    assert ERROR not in log_of(job)
    for launch in (first, second):
        file = place.machine.seen(launch.log_path).read_bytes()
        stored = stored_log(launch)
        assert stored and file.startswith(stored)
    assert ERROR.encode() in stored_log(first)
    # The failed job stays as it was: its page and its log name its own launch and when it began.
    assert first.started_at is not None and second.started_at is not None and first.started_at < second.started_at
    client = Client()
    client.force_login(story.actor)
    for shown, own, other in ((failed, first, second), (job, second, first)):
        page = client.get(reverse("deployments:job", args=[shown.pk])).content.decode()
        assert str(own.pk) in page and str(other.pk) not in page
