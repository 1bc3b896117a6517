"""Workers that die or freeze at the worst moments. The numbers are those of the list of faults to be survived."""

import pytest

from deployments.lifecycle import JobKind, JobState, LaunchState
from deployments.models import Deployment, Effect, Job
from tests.support.panel import Panel
from tests.support.story import (
    READY_STANDIN,
    STANDIN,
    Place,
    Story,
    launch_of,
    log_of,
    one_server,
    stored_log,
    told,
)
from tests.support.waiting import until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

LEASE = 4.0
LINES = 3000


def deploy_chatty(story: Story, place: Place) -> Deployment:
    """A server that writes thousands of lines before it is ready, and none after."""
    talk = f"i=0; while [ $i -lt {LINES} ]; do echo line $i of the loading; i=$((i+1)); done"
    place.machine.seen("/models/chatty.sh").write_text(f'{talk}\nexec {STANDIN} "$@"\n')
    words = ["/bin/sh", "/models/chatty.sh", "--port", "{port}"]
    return story.deploy(place, words, cards=(0,), ready=READY_STANDIN)


def start(story: Story, panel: Panel, deployment: Deployment) -> None:
    """Have the deployment serve before the fault, by a worker that then ends."""
    panel.start_worker("first", lease=LEASE)
    story.start(deployment)
    panel.kill("first")


def assert_done_once(story: Story, place: Place, deployment: Deployment, job: Job, *, starts: int) -> None:
    """Succeeded by another worker; one server, one start by this job, and its whole log."""
    story.succeeded(job)
    launch = launch_of(job)
    assert job.launches.count() == 1 and launch.state == LaunchState.SERVING, told(job)
    assert len(place.starts(deployment.port)) == starts, "a server was started twice"
    assert one_server(place, deployment.port).entry.launch == str(launch.pk)
    file = place.machine.seen(launch.log_path).read_bytes()
    assert f"line {LINES - 1} of the loading".encode() in file
    assert stored_log(launch) == file, "bytes stored and dropped are not the bytes produced"
    owners = {effect.fence for effect in Effect.objects.filter(job=job)}
    assert owners, told(job)
    assert job.steps.exclude(state="done").count() == 0


@pytest.mark.parametrize("place", ["ssh", "pct"], indirect=True)
@pytest.mark.parametrize("kind", [JobKind.START, JobKind.RESTART])
def test_fault_01_worker_dies_between_launch_sent_and_identity_recorded(
    story: Story, panel: Panel, place: Place, kind: JobKind
) -> None:
    deployment = deploy_chatty(story, place)
    if kind == JobKind.RESTART:
        start(story, panel, deployment)
    panel.start_worker("dies", at="launch-sent=kill", lease=LEASE)
    job = story.begin_job(deployment, kind)
    panel.wait_for_death("dies")
    assert launch_of(job).pid is None, "its identity was recorded, so this test shows nothing"

    panel.start_worker("other", lease=LEASE)
    assert_done_once(story, place, deployment, job, starts=2 if kind == JobKind.RESTART else 1)


def test_fault_02_worker_dies_between_intent_and_sending(story: Story, panel: Panel, gpu1: Place) -> None:
    deployment = deploy_chatty(story, gpu1)
    panel.start_worker("dies", at="launch-intended=kill", lease=LEASE)
    job = story.begin_job(deployment, JobKind.START)
    panel.wait_for_death("dies")
    assert Effect.objects.filter(job=job, kind="launch", finished_at=None).count() == 1
    assert not gpu1.starts(deployment.port)

    panel.start_worker("other", lease=LEASE)
    assert_done_once(story, gpu1, deployment, job, starts=1)
    effects = Effect.objects.filter(job=job, kind="launch")
    assert {effect.target["launch"] for effect in effects} == {str(launch_of(job).pk)}


def test_fault_02_worker_dies_in_the_middle_of_the_log(story: Story, panel: Panel, gpu1: Place) -> None:
    """A part of the log is stored: the next worker asks for the rest, and for nothing twice."""
    deployment = deploy_chatty(story, gpu1)
    panel.start_worker("dies", at="log-stored=kill", lease=LEASE)
    job = story.begin_job(deployment, JobKind.START)
    panel.wait_for_death("dies")
    launch = launch_of(job)
    written = len(gpu1.machine.seen(launch.log_path).read_bytes())
    assert 0 < len(stored_log(launch)) < written, "all of it or nothing was stored, so this test shows nothing"

    panel.start_worker("other", lease=LEASE)
    assert_done_once(story, gpu1, deployment, job, starts=1)


def test_fault_03_worker_dies_between_signal_and_its_result(story: Story, panel: Panel, gpu1: Place) -> None:
    deployment = deploy_chatty(story, gpu1)
    start(story, panel, deployment)
    panel.start_worker("dies", at="stop-sent=kill", lease=LEASE)
    job = story.begin_job(deployment)
    panel.wait_for_death("dies")
    assert Effect.objects.filter(job=job, kind="signal TERM", finished_at=None).count() == 1

    panel.start_worker("other", lease=LEASE)
    assert_done_once(story, gpu1, deployment, job, starts=2)
    assert not Effect.objects.filter(job=job, kind="signal KILL").exists(), told(job)


def test_fault_05_worker_dies_between_stop_and_launch(story: Story, panel: Panel, place: Place) -> None:
    deployment = deploy_chatty(story, place)
    start(story, panel, deployment)
    panel.start_worker("dies", at="stopped=kill", lease=LEASE)
    job = story.begin_job(deployment)
    panel.wait_for_death("dies")
    assert not place.servers(deployment.port)

    panel.start_worker("other", lease=LEASE)
    assert_done_once(story, place, deployment, job, starts=2)


@pytest.mark.slow
@pytest.mark.parametrize("point", ["stop-intended", "launch-intended", "launch-sent", "ending"])
def test_fault_07_frozen_worker_wakes_after_another_finished(
    story: Story, panel: Panel, gpu1: Place, point: str
) -> None:
    """It froze over its lease; another finished the job and started a second server by a second job; it wakes."""
    deployment = deploy_chatty(story, gpu1)
    start(story, panel, deployment)
    panel.start_worker("frozen", at=f"{point}=freeze", lease=LEASE)
    job = story.begin_job(deployment)
    until(lambda: panel.is_stopped("frozen"), seconds=60, what="the freeze", tell=lambda: told(job))

    panel.start_worker("other", lease=LEASE)
    story.succeeded(job)
    second = story.run_job(deployment)
    server = one_server(gpu1, deployment.port)
    starts = len(gpu1.starts(deployment.port))
    assert starts == 3

    panel.thaw("frozen")
    until(
        lambda: "the lease is lost" in panel.log_of("frozen").read_text(),
        seconds=60,
        what="the frozen worker sees that it is too late",
        tell=panel.log_of("frozen").read_text,
    )
    assert one_server(gpu1, deployment.port) == server
    assert len(gpu1.starts(deployment.port)) == starts
    for told_before in (job, second):
        told_before.refresh_from_db()
        assert told_before.state == JobState.SUCCEEDED
    assert launch_of(second).state == LaunchState.SERVING
    third = story.run_job(deployment)
    assert one_server(gpu1, deployment.port).entry.launch == str(launch_of(third).pk)


def test_fault_17_all_of_the_panel_dies_in_the_middle(story: Story, panel: Panel, gpu1: Place) -> None:
    """A power cut of the panel's machine: broker, worker and monitor at once; it comes back and goes on."""
    deployment = deploy_chatty(story, gpu1)
    start(story, panel, deployment)
    panel.start("monitor")
    panel.start_worker("dies", at="stopped=kill", lease=LEASE)
    job = story.begin_job(deployment)
    panel.wait_for_death("dies")
    panel.kill("monitor")
    panel.stop_broker()

    panel.start_broker()
    panel.start_worker("other", lease=LEASE)
    assert_done_once(story, gpu1, deployment, job, starts=2)


def test_fault_18_worker_told_to_stop_hands_the_job_back_at_once(story: Story, panel: Panel, gpu1: Place) -> None:
    """An upgrade: SIGTERM to the worker in the middle of a job; another goes on long before a lease could lapse."""
    deployment = story.deploy_standin(gpu1, "--stop", "3")
    panel.start_worker("old", lease=600)
    story.start(deployment)
    job = story.begin_job(deployment)
    story.wait_for_log(job, "Sending SIGTERM")
    panel.start_worker("new", lease=600)
    panel.processes["old"].terminate()

    story.succeeded(job)
    assert "another goes on" in log_of(job)
    one_server(gpu1, deployment.port)
    panel.processes.pop("old").wait(20)
