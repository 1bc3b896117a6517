"""A container, or a service of compose, is what starts the server again: the look-alike with real processes."""

import json

import pytest

from deployments import releasing, services
from deployments.lifecycle import JobKind, JobState
from deployments.models import Check, Deployment, Effect, Launch
from deployments.plan.passing import API_KEY
from tests.managers.keepers import adopted, lives, run, start_container, start_docker, wait_for_server
from tests.managers.test_transient import rows_of
from tests.scenarios.test_secrets import KEY, TOKEN, another_user_looks, root_looks_at_command_lines
from tests.support.panel import Panel
from tests.support.story import HASTE, Place, Story, launch_of, log_of, sglang, told

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

DIRECTORY = "/srv/llm"

REFUSED = ("--served-model-name", "a:b")
"""What the engine itself ends of at once, and no plan can know."""


def start_compose(place: Place, deployment: Deployment) -> None:
    """The service `chat` of the project `llm`; returns when it serves."""
    words = [word.replace("{port}", str(deployment.port)) for word in sglang(cards=2)]
    service = {"image": "sglang", "entrypoint": words[:1], "command": words[1:], "environment": HASTE}
    directory = place.machine.seen(DIRECTORY)
    directory.mkdir(parents=True, exist_ok=True)
    for file in directory.iterdir():
        file.unlink()
    (directory / "compose.yaml").write_text(json.dumps({"services": {"chat": service}}))
    run(place, f"docker compose -p llm --project-directory {DIRECTORY} -f {DIRECTORY}/compose.yaml up -d chat")
    wait_for_server(place, deployment)


def words_of(place: Place, launch: Launch) -> str:
    return place.machine.seen(f"/proc/{launch.pid}/cmdline").read_text()


def pid_of(place: Place, container: str) -> int:
    return int(run(place, f"docker inspect -f '{{{{.State.Pid}}}}' {container}"))


def test_a_container_is_started_again_by_docker(story: Story, with_systemd: Place) -> None:
    deployment = adopted(story, with_systemd)
    start_docker(with_systemd)
    start_container(with_systemd, deployment)
    before = wait_for_server(with_systemd, deployment)

    job = story.ask(deployment)
    assert rows_of(story.gate(job, "plan").job)["Started by"]["value"] == "A docker container that is there: chat"
    story.approve(job)
    story.succeeded(job)
    launch = launch_of(job)
    assert launch.pid == pid_of(with_systemd, "chat") and launch.started_by == "container chat"
    assert not lives(with_systemd, before)
    assert log_of(job).count("fired up and ready") == 1, "the output of this start alone"

    job = story.run_job(deployment, JobKind.STOP)
    commands = Effect.objects.filter(job=job, kind="stop by its manager").values_list("command", flat=True)
    assert len(commands) == 1 and commands[0].startswith("docker stop -t 10 ")
    story.run_job(deployment, JobKind.START)
    assert run(with_systemd, "docker inspect -f '{{.State.Status}}' chat").strip() == "running"


@pytest.mark.slow
def test_the_flags_of_a_container_that_is_there_cannot_be_changed(story: Story, with_systemd: Place) -> None:
    deployment = adopted(story, with_systemd)
    start_docker(with_systemd)
    start_container(with_systemd, deployment)
    before = wait_for_server(with_systemd, deployment)
    new = story.add_revision(deployment, sglang("--context-length", "4096", cards=2))

    job = story.wait_for(story.ask(deployment, revision=new), JobState.FAILED)
    assert "was fixed when it was made" in job.summary and "Nothing was touched" in job.summary, told(job)
    assert lives(with_systemd, before)


def test_a_service_of_compose_gets_a_changed_flag_by_a_file_of_its_own(story: Story, with_systemd: Place) -> None:
    deployment = adopted(story, with_systemd)
    start_docker(with_systemd)
    start_compose(with_systemd, deployment)
    odd = json.dumps({"method": 'it\'s 100% "odd" $HOME'})
    new = story.add_revision(deployment, sglang("--context-length", "4096", "--json-model-override-args", odd, cards=2))

    job = story.ask(deployment, revision=new)
    plan = story.gate(job, "plan").job.plan
    assert plan is not None
    assert rows_of(job)["Started by"]["value"] == "A service of docker compose: llm/chat"
    override = with_systemd.machine.seen(f"{DIRECTORY}/relaunch.chat.yaml")
    assert plan["start"]["writes"]["path"] == f"{DIRECTORY}/relaunch.chat.yaml" and not override.exists()
    story.approve(job)
    story.succeeded(job)

    launch = launch_of(job)
    assert launch.pid == pid_of(with_systemd, "llm-chat-1") and launch.started_by == "compose llm/chat"
    cmdline = with_systemd.machine.seen(f"/proc/{launch.pid}/cmdline").read_text().rstrip("\0").split("\0")
    assert tuple(cmdline[-4:]) == ("--context-length", "4096", "--json-model-override-args", odd)
    assert override.read_text() == plan["start"]["writes"]["text"]
    assert run(with_systemd, "docker ps -a -q").count("\n") == 1, "made anew, not beside the old one"


@pytest.mark.slow
def test_a_service_of_compose_is_given_its_secrets(story: Story, with_systemd: Place) -> None:
    deployment = adopted(story, with_systemd)
    start_docker(with_systemd)
    start_compose(with_systemd, deployment)
    key, token = KEY, "plain-horse$HOME='\"#8"
    services.set_secret(deployment, name=API_KEY, value=key, actor=story.actor, address="")
    services.set_secret(deployment, name="HF_TOKEN", value=token, actor=story.actor, address="")
    place = with_systemd.machine.seen(f"{DIRECTORY}/relaunch.chat.secrets")
    services.set_secret(deployment, name="WANDB_API_KEY", value=TOKEN, actor=story.actor, address="")
    with another_user_looks(with_systemd), root_looks_at_command_lines():
        for _ in range(2):  # the second time its file of changes is there
            job = story.run_job(deployment)
            assert Check.objects.get(step__job=job, key="api key").value == "status 401", told(job)
            environment = with_systemd.machine.seen(f"/proc/{launch_of(job).pid}/environ").read_bytes().split(b"\0")
            assert f"HF_TOKEN={token}".encode() in environment
            assert place.stat().st_mode & 0o777 == 0o700 and [each.name for each in place.iterdir()] == [
                "settings.yaml"
            ]
            assert key not in words_of(with_systemd, launch_of(job)) and "--config" in words_of(
                with_systemd, launch_of(job)
            )
            assert key not in told(job) and token not in told(job)
            directory = with_systemd.machine.seen(launch_of(job).directory)
            left = [each for each in directory.rglob("*") if each.is_file() and each.name != "log"]
            assert left and not any(token.encode() in each.read_bytes() for each in left)
    assert f"{DIRECTORY}/relaunch.chat.secrets" in releasing.written_files(deployment)

    for name in (API_KEY, "HF_TOKEN", "WANDB_API_KEY"):
        services.remove_secret(deployment, name=name, actor=story.actor, address="")
    job = story.run_job(deployment)
    assert not place.exists() and "--config" not in words_of(with_systemd, launch_of(job))
    assert b"HF_TOKEN" not in with_systemd.machine.seen(f"/proc/{launch_of(job).pid}/environ").read_bytes()


@pytest.mark.slow
def test_a_container_that_ends_at_once_tells_why(story: Story, with_systemd: Place) -> None:
    deployment = adopted(story, with_systemd)
    start_docker(with_systemd)
    start_compose(with_systemd, deployment)
    new = story.add_revision(deployment, sglang(*REFUSED, cards=2))

    job = story.wait_for(story.begin_job(deployment, revision=new), JobState.FAILED)
    assert "exit code 1" in job.summary and "cannot contain a colon" in log_of(job), told(job)


@pytest.mark.slow
def test_a_worker_that_dies_after_sending_leaves_one_start_of_the_container(
    story: Story, with_systemd: Place, panel: Panel, dying: None
) -> None:
    deployment = adopted(story, with_systemd)
    start_docker(with_systemd)
    start_container(with_systemd, deployment)
    job = story.begin_job(deployment)
    panel.wait_for_death("dies")
    assert launch_of(job).pid is None, "its identity was recorded, so this test shows nothing"

    panel.start_worker("other", lease=4.0)
    story.succeeded(job)
    assert len(with_systemd.starts(deployment.port)) == 2, "the one before, and one by this job"
    assert launch_of(job).pid == pid_of(with_systemd, "chat")
