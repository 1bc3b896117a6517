"""Two cards, a clean stop, other flags: no question after the approval."""

import pytest

from deployments.models import JobReading
from tests.support.story import Place, Story, launch_of, one_server, sglang, stored_log

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]


@pytest.mark.parametrize("place", ["ssh", "pct"], indirect=True)
def test_scenario_02_clean_restart_with_other_flags(story: Story, place: Place) -> None:
    deployment = story.deploy_sglang(place, "--enable-metrics")
    first = launch_of(story.start(deployment))
    other = story.add_revision(deployment, sglang("--enable-metrics", "--context-length", "65536", cards=2))

    job = story.run_job(deployment, revision=other)

    assert [gate.kind for gate in job.gates.all()] == ["plan"]
    server = one_server(place, deployment.port)
    assert server.entry.launch == str(launch_of(job).pk) != str(first.pk)
    assert "--context-length" in server.process.title
    first.refresh_from_db()
    assert first.state == "ended"
    assert b"The server is fired up and ready to roll!" in stored_log(launch_of(job))
    for uuid in deployment.placement.gpu_uuids:
        curve = list(JobReading.objects.filter(job=job, gpu_uuid=uuid).values_list("used_mib", flat=True))
        assert 0 in curve and max(curve) > 20000, curve
