"""A unit that is there is what starts the server again, with other flags where a file gives them to it."""

import json
import shlex

import pytest

from deployments import releasing, services
from deployments.lifecycle import JobKind, JobState
from deployments.models import Check, Deployment, Effect
from deployments.plan.passing import API_KEY
from lab.tree import LOGIN, LOGIN_ID
from tests.managers.keepers import UNITS, adopted, lives, run, start_docker, wait_for_server
from tests.managers.test_transient import group_of, rows_of
from tests.scenarios.test_secrets import KEY, root_looks_at_command_lines
from tests.support.panel import Panel
from tests.support.story import HASTE, Place, Story, launch_of, log_of, one_server, sglang, told
from tests.support.waiting import until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

FILE = "/etc/chat.env"

REFUSED = ("--served-model-name", "a:b")
"""What the engine itself ends of at once, and no plan can know."""


def write_unit(place: Place, command: str, *, more: str = "", restart: str = "no") -> None:
    """`chat.service`, enabled and started."""
    environment = "".join(f"Environment='{key}={value}'\n" for key, value in HASTE.items())
    text = (
        f"[Service]\nExecStart={command}\n{environment}{more}Restart={restart}\n[Install]\nWantedBy=multi-user.target\n"
    )
    place.machine.seen(f"{UNITS}/chat.service").write_text(text)
    run(place, f"rm -rf {UNITS}/chat.service.d; systemctl daemon-reload; systemctl enable --now --quiet chat 2>&1")


def command(deployment: Deployment) -> list[str]:
    return [word.replace("{port}", str(deployment.port)) for word in sglang(cards=2)]


@pytest.mark.slow
def test_the_same_flags_again_start_the_unit_again(story: Story, with_systemd: Place) -> None:
    deployment = adopted(story, with_systemd)
    write_unit(with_systemd, shlex.join(command(deployment)), restart="always")
    before = wait_for_server(with_systemd, deployment)

    job = story.ask(deployment)
    rows = rows_of(story.gate(job, "plan").job)
    assert rows["Started by"]["value"] == "A unit of systemd that is there: chat.service"
    assert job.plan is not None and job.plan["start"]["writes"] is None
    story.approve(job)
    story.succeeded(job)

    launch = launch_of(job)
    assert launch.pid is not None and group_of(with_systemd, launch.pid).endswith("/system.slice/chat.service")
    assert not lives(with_systemd, before) and launch.started_by == "unit chat.service"
    assert "fired up and ready" in log_of(job), "its output comes from the journal"
    commands = Effect.objects.filter(job=job, kind="stop by its manager").values_list("command", flat=True)
    assert [*commands] == ["systemctl stop chat.service"]

    # Its end is kept with the launch, too. (systemd forgets a unit that ended well and that nobody wants.)
    job = story.run_job(deployment, JobKind.STOP)
    exit_file = with_systemd.machine.seen(f"{launch.directory}/exit")
    until(exit_file.exists, seconds=10, what="the exit code")
    assert exit_file.read_text().strip() in ("0", "137", "143", "unknown"), exit_file.read_text()

    # What was stopped is started again by the same.
    job = story.run_job(deployment, JobKind.START)
    assert launch_of(job).started_by == "unit chat.service", told(job)


def test_a_changed_flag_is_written_to_the_environment_file_of_the_unit(story: Story, with_systemd: Place) -> None:
    deployment = adopted(story, with_systemd)
    words = command(deployment)
    file = with_systemd.machine.seen(FILE)
    file.write_text(f"# kept\nHF_HOME=/models\nARGS={' '.join(words[5:])}\n")
    file.chmod(0o640)
    write_unit(with_systemd, f"{shlex.join(words[:5])} $ARGS", more=f"EnvironmentFile={FILE}\n")
    wait_for_server(with_systemd, deployment)
    odd = json.dumps({"method": 'it\'s 100% "odd" \\ $HOME'})
    new = story.add_revision(deployment, sglang("--context-length", "4096", "--json-model-override-args", odd, cards=2))

    job = story.ask(deployment, revision=new)
    plan = story.gate(job, "plan").job.plan
    assert plan is not None
    writes = plan["start"]["writes"]
    assert writes["path"] == FILE and writes["text"].startswith('ARGS="') and "--context-length 4096" in writes["text"]
    assert "--context-length" not in file.read_text(), "nothing is written before it is approved"
    story.approve(job)
    story.succeeded(job)

    server = one_server(with_systemd, deployment.port)
    assert server.process.cmdline[-4:] == ("--context-length", "4096", "--json-model-override-args", odd)
    lines = file.read_text().splitlines()
    assert lines[:2] == ["# kept", "HF_HOME=/models"] and lines[2:] == [writes["text"]]
    assert file.stat().st_mode & 0o777 == 0o640


@pytest.mark.slow
def test_a_unit_that_ends_at_once_tells_why(story: Story, with_systemd: Place) -> None:
    deployment = adopted(story, with_systemd)
    words = command(deployment)
    with_systemd.machine.seen(FILE).write_text(f"ARGS={' '.join(words[5:])}\n")
    write_unit(with_systemd, f"{shlex.join(words[:5])} $ARGS", more=f"EnvironmentFile={FILE}\n")
    wait_for_server(with_systemd, deployment)
    new = story.add_revision(deployment, sglang(*REFUSED, cards=2))

    job = story.begin_job(deployment, revision=new)
    story.wait_for(job, JobState.FAILED)
    assert "exit code 1" in job.summary and "cannot contain a colon" in log_of(job), told(job)

    # What can be started is started again by the same unit, which gets its old flags back.
    old = deployment.revision
    job = story.run_job(deployment, JobKind.START, revision=old)
    assert "a:b" not in one_server(with_systemd, deployment.port).process.cmdline


@pytest.mark.slow
def test_a_unit_that_restarts_what_fails_is_stopped_before_the_way_back(story: Story, with_systemd: Place) -> None:
    deployment = adopted(story, with_systemd)
    words = command(deployment)
    with_systemd.machine.seen(FILE).write_text(f"ARGS={' '.join(words[5:])}\n")
    more = f"EnvironmentFile={FILE}\nRestartSec=100ms\nStartLimitBurst=0\n"
    write_unit(with_systemd, f"{shlex.join(words[:5])} $ARGS", more=more, restart="always")
    wait_for_server(with_systemd, deployment)
    story.run_job(deployment)
    new = story.add_revision(deployment, sglang(*REFUSED, cards=2))

    job = story.wait_for(story.begin_job(deployment, revision=new, way_back=True), JobState.FAILED)

    assert job.steps.filter(way_back=True, state="done").count() == 4, told(job)
    server = one_server(with_systemd, deployment.port)
    assert "a:b" not in server.process.cmdline and launch_of(job).pid == server.process.pid
    assert "a:b" not in with_systemd.machine.seen(FILE).read_text()


def test_a_changed_flag_in_the_unit_itself_becomes_a_drop_in(story: Story, with_systemd: Place) -> None:
    deployment = adopted(story, with_systemd)
    write_unit(with_systemd, shlex.join(command(deployment)))
    wait_for_server(with_systemd, deployment)
    new = story.add_revision(deployment, sglang("--context-length", "4096", cards=2))

    job = story.ask(deployment, revision=new)
    plan = story.gate(job, "plan").job.plan
    assert plan is not None and plan["start"]["writes"]["path"] == f"{UNITS}/chat.service.d/relaunch.conf"
    assert "ExecStart=\nExecStart=/lab/bin/python" in plan["start"]["writes"]["text"]
    story.approve(job)
    story.succeeded(job)
    assert "--context-length" in one_server(with_systemd, deployment.port).process.cmdline


@pytest.mark.slow
def test_its_secrets_come_by_a_file_of_root_that_the_unit_reads(story: Story, with_systemd: Place) -> None:
    deployment = adopted(story, with_systemd)
    write_unit(with_systemd, shlex.join(command(deployment)), more=f"User={LOGIN}\n")
    wait_for_server(with_systemd, deployment)
    path = f"{UNITS}/chat.service.d/relaunch.secrets"
    file = with_systemd.machine.seen(path)

    def restart() -> bytes:
        job = story.run_job(deployment)
        assert not with_systemd.machine.seen(f"{launch_of(job).directory}/secrets").exists()
        assert "plain-horse" not in told(job)
        return with_systemd.machine.seen(f"/proc/{launch_of(job).pid}/environ").read_bytes()

    for value in ("plain-horse$battery=\"1'", "plain-horse\\2#"):  # the second time its drop-in is there
        services.set_secret(deployment, name="HF_TOKEN", value=value, actor=story.actor, address="")
        assert f"HF_TOKEN={value}\0".encode() in restart()
        assert (file.stat().st_mode & 0o777, file.stat().st_uid) == (0o600, 0)
    assert releasing.written_files(deployment) == [f"{UNITS}/chat.service.d/relaunch.conf", path]

    services.remove_secret(deployment, name="HF_TOKEN", actor=story.actor, address="")
    assert b"HF_TOKEN" not in restart() and file.read_bytes() == b""


@pytest.mark.slow
def test_the_api_key_of_an_engine_that_reads_a_file_is_for_the_unit_s_user_alone(
    story: Story, with_systemd: Place
) -> None:
    deployment = adopted(story, with_systemd)
    write_unit(with_systemd, shlex.join(command(deployment)), more=f"User={LOGIN}\n")
    wait_for_server(with_systemd, deployment)
    path = f"{UNITS}/chat.service.d/relaunch.settings.yaml"
    file, key = with_systemd.machine.seen(path), KEY
    services.set_secret(deployment, name=API_KEY, value=key, actor=story.actor, address="")
    for _ in range(2):  # the second time it is told of it already
        with root_looks_at_command_lines():
            job = story.run_job(deployment)
        assert Check.objects.get(step__job=job, key="api key").value == "status 401", told(job)
        assert (file.stat().st_mode & 0o777, file.stat().st_uid) == (0o600, LOGIN_ID)
        cmdline = with_systemd.machine.seen(f"/proc/{launch_of(job).pid}/cmdline").read_text()
        assert key not in cmdline and cmdline.endswith(f"--config\0{path}\0")
        assert not with_systemd.machine.seen(f"{launch_of(job).directory}/settings.yaml").exists()
        assert key not in told(job)
    assert releasing.written_files(deployment) == [f"{UNITS}/chat.service.d/relaunch.conf", path]

    services.remove_secret(deployment, name=API_KEY, actor=story.actor, address="")
    job = story.run_job(deployment)
    assert not file.exists() and "--config" not in one_server(with_systemd, deployment.port).process.cmdline


@pytest.mark.slow
def test_where_containers_run_no_daemon_reload_is_done(story: Story, with_systemd: Place) -> None:
    deployment = adopted(story, with_systemd)
    write_unit(with_systemd, shlex.join(command(deployment)))
    before = wait_for_server(with_systemd, deployment)
    start_docker(with_systemd)
    run(with_systemd, "docker run -d --name other sglang sleep 86397")
    new = story.add_revision(deployment, sglang("--context-length", "4096", cards=2))

    job = story.wait_for(story.ask(deployment, revision=new), JobState.FAILED)

    assert "can lose their cards" in job.summary and "Nothing was touched" in job.summary, told(job)
    assert lives(with_systemd, before)
    deployment.started_by = "transient"
    deployment.save()
    job = story.run_job(deployment, revision=new)
    launch = launch_of(job)
    assert launch.pid is not None
    assert group_of(with_systemd, launch.pid).endswith(f"relaunch-{launch.pk}.service"), "as the deployment says"


@pytest.mark.slow
def test_a_worker_that_dies_after_sending_leaves_one_start_of_the_unit(
    story: Story, with_systemd: Place, panel: Panel, dying: None
) -> None:
    deployment = adopted(story, with_systemd)
    write_unit(with_systemd, shlex.join(command(deployment)))
    wait_for_server(with_systemd, deployment)
    job = story.begin_job(deployment)
    panel.wait_for_death("dies")
    assert launch_of(job).pid is None, "its identity was recorded, so this test shows nothing"

    panel.start_worker("other", lease=4.0)
    story.succeeded(job)
    assert len(with_systemd.starts(deployment.port)) == 2, "the one before, and one by this job"
    server = one_server(with_systemd, deployment.port)
    assert launch_of(job).pid == server.process.pid
