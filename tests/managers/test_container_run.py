"""A revision that is a `docker run`: a container is made for each start, with everything as it says."""

from collections.abc import Sequence

import pytest

from deployments import services
from deployments.lifecycle import JobKind
from deployments.models import Check, Deployment, Revision
from deployments.plan.passing import API_KEY
from tests.managers.keepers import adopted, run, start_container, start_docker, wait_for_server
from tests.managers.test_container_start import pid_of
from tests.managers.test_transient import rows_of
from tests.scenarios.test_secrets import KEY, another_user_looks, root_looks_at_command_lines
from tests.support.panel import Panel
from tests.support.story import HASTE, Place, Story, launch_of, log_of, sglang, told
from tests.support.waiting import until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]


def docker_run(deployment: Deployment, *flags: str, options: Sequence[str] = ()) -> Revision:
    """The deployment's server in a container `chat`."""
    variables = [word for name, value in HASTE.items() for word in ("-e", f"{name}={value}")]
    container = {
        "tool": "docker",
        "image": "sglang",
        "options": ["--name", "chat", "--ipc", "host", *variables, *options],
    }
    before = deployment.revision
    argv = [word.replace("{port}", str(before.port)) for word in sglang(*flags, cards=2)]
    number = deployment.profile.newest.number + 1
    return Revision.objects.create(
        profile=deployment.profile, number=number, argv=argv, port=before.port, container=container
    )


def test_a_container_is_made_anew_and_the_old_one_is_kept(story: Story, with_systemd: Place) -> None:
    deployment = adopted(story, with_systemd)
    start_docker(with_systemd)
    start_container(with_systemd, deployment)
    old = run(with_systemd, "docker inspect -f '{{.Id}}' chat")

    job = story.ask(deployment, revision=docker_run(deployment, "--context-length", "4096"))
    assert rows_of(story.gate(job, "plan").job)["Started by"]["value"] == "A container, made for each start: chat"
    story.approve(job)
    story.succeeded(job)

    launch = launch_of(job)
    assert launch.pid == pid_of(with_systemd, "chat") and launch.started_by == "run chat"
    assert "fired up and ready" in log_of(job)
    words = with_systemd.machine.seen(f"/proc/{launch.pid}/cmdline").read_text().split("\0")
    assert "--context-length" in words
    environment = with_systemd.machine.seen(f"/proc/{launch.pid}/environ").read_text()
    assert f"RELAUNCH_LAUNCH_ID={launch.pk}" in environment and "CUDA_VISIBLE_DEVICES=GPU-" in environment
    kept = f"chat-before-{str(launch.pk)[:8]}"
    assert run(with_systemd, f"docker inspect -f '{{{{.Id}}}}' {kept}") == old
    policy = run(with_systemd, f"docker inspect -f '{{{{.HostConfig.RestartPolicy.Name}}}}' {kept}")
    assert policy.strip() == "no", "it does not come back at boot"

    story.run_job(deployment, JobKind.STOP)
    story.run_job(deployment, JobKind.START)
    assert run(with_systemd, "docker ps -a -q").count("\n") == 2, "of ours there is only one"


@pytest.mark.slow
def test_its_secrets_come_by_a_file_that_is_gone_when_it_serves(story: Story, with_systemd: Place) -> None:
    deployment = adopted(story, with_systemd)
    start_docker(with_systemd)
    value = "plain-horse#battery='1\""
    services.set_secret(deployment, name="HF_TOKEN", value=value, actor=story.actor, address="")

    job = story.run_job(deployment, JobKind.START, revision=docker_run(deployment))

    launch = launch_of(job)
    environment = with_systemd.machine.seen(f"/proc/{launch.pid}/environ").read_bytes().split(b"\0")
    assert f"HF_TOKEN={value}".encode() in environment
    files = [each for each in with_systemd.machine.seen(launch.directory).rglob("*") if each.is_file()]
    assert not [each for each in files if value.encode() in each.read_bytes()] and files
    assert value not in told(job)


@pytest.mark.slow
def test_its_api_key_is_bound_into_it_and_stays_as_long_as_docker_may_need_it(
    story: Story, with_systemd: Place
) -> None:
    deployment = adopted(story, with_systemd)
    start_docker(with_systemd)
    key = KEY
    services.set_secret(deployment, name=API_KEY, value=key, actor=story.actor, address="")

    with another_user_looks(with_systemd), root_looks_at_command_lines():
        revision = docker_run(deployment, options=["--user", "65534:65534"])
        job = story.run_job(deployment, JobKind.START, revision=revision)

    assert Check.objects.get(step__job=job, key="api key").value == "status 401", told(job)
    launch = launch_of(job)
    cmdline = with_systemd.machine.seen(f"/proc/{launch.pid}/cmdline").read_text()
    assert cmdline.endswith("--config\0/run/relaunch/settings.yaml\0") and key not in cmdline
    directory = with_systemd.machine.seen(launch.directory)
    assert directory.stat().st_mode & 0o777 == 0o700 and (directory / "inside.yaml").exists()
    assert not with_systemd.machine.seen("/run/relaunch/settings.yaml").read_text(), "only inside of the container"
    assert key not in told(job)

    run(with_systemd, "docker stop chat; docker start chat")
    wait_for_server(with_systemd, deployment)
    story.run_job(deployment, JobKind.STOP)
    until(lambda: not (directory / "inside.yaml").exists(), seconds=10, what="it is taken away")


@pytest.mark.slow
def test_a_worker_that_dies_after_sending_leaves_one_container(
    story: Story, with_systemd: Place, panel: Panel, dying: None
) -> None:
    deployment = adopted(story, with_systemd)
    start_docker(with_systemd)
    job = story.begin_job(deployment, JobKind.START, revision=docker_run(deployment))
    panel.wait_for_death("dies")
    assert launch_of(job).pid is None, "its identity was recorded, so this test shows nothing"

    panel.start_worker("other", lease=4.0)
    story.succeeded(job)
    assert wait_for_server(with_systemd, deployment)
    assert run(with_systemd, "docker ps -a -q").count("\n") == 1, told(job)
    assert launch_of(job).pid == pid_of(with_systemd, "chat")
