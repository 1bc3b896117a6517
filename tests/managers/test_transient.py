"""A unit of systemd made for each start: its own control group, ended as a whole, and exactly one of it."""

import shlex

import pytest

from deployments import services
from deployments.lifecycle import JobKind
from deployments.models import Check, Deployment, Effect, Job
from deployments.plan.passing import API_KEY
from hosts.models import Host
from lab.tree import LOGIN, LOGIN_ID, one_user_only
from tests.managers.keepers import adopted, env, lives, run, serve, signalled, wait_for_server
from tests.support.panel import Panel
from tests.support.story import Place, Story, launch_of, one_server, sglang, told
from tests.support.waiting import until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]


def by_hand(place: Place, deployment: Deployment, *, prefix: str = "") -> None:
    """As people start it: in the background of a login's shell."""
    run(place, f"setsid -f {prefix} {env()} {serve(place, deployment)} > /dev/null 2>&1")
    wait_for_server(place, deployment)


def group_of(place: Place, pid: int) -> str:
    return place.machine.seen(f"/proc/{pid}/cgroup").read_text().strip().rpartition(":")[2]


def rows_of(job: Job) -> dict[str, dict[str, str]]:
    """Of the plan."""
    assert job.plan is not None
    return {row["label"]: row for section in job.plan["sections"] for row in section["rows"]}


def test_a_plain_process_becomes_a_unit_that_is_stopped_as_a_whole(story: Story, with_systemd: Place) -> None:
    deployment = adopted(story, with_systemd, term_seconds=3)
    by_hand(with_systemd, deployment, prefix="prlimit --nofile=1000:3000")
    new = story.add_revision(deployment, sglang("--context-length", "4096", cards=2))

    job = story.ask(deployment, revision=new)
    rows = rows_of(story.gate(job, "plan").job)
    assert rows["Started by"]["value"] == "Relaunch: a unit of systemd, made for each start"
    assert rows["Open files"]["value"] == "1000 (at most 3000)"
    story.approve(job)
    story.succeeded(job)
    launch, server = launch_of(job), one_server(with_systemd, deployment.port)
    unit = f"relaunch-{launch.pk}.service"
    assert launch.pid is not None and group_of(with_systemd, launch.pid).endswith(f"/system.slice/{unit}")
    assert "--context-length" in server.process.cmdline
    limits = with_systemd.machine.seen(f"/proc/{launch.pid}/limits").read_text()
    assert next(line for line in limits.splitlines() if "open files" in line).split()[3:5] == ["1000", "3000"]
    directory = with_systemd.machine.seen(launch.directory)
    assert f"unit {unit}" in (directory / "record").read_text().splitlines()
    assert not (directory / "environment").exists()

    # Somebody who has left the server's tree, and ignores SIGTERM: a unit is ended as a whole.
    group = f"/sys/fs/cgroup/system.slice/{unit}/cgroup.procs"
    stray = "trap '' TERM; echo 0 > " + group + "; exec sleep 86398"
    run(with_systemd, f"setsid -f sh -c {shlex.quote(stray)} > /dev/null 2>&1")
    until(lambda: _sleepers(with_systemd), seconds=10, what="the stray one")
    job = story.run_job(deployment, JobKind.RESTART)
    stop = Effect.objects.get(job=job, kind="stop by its manager")
    assert stop.command == f"systemctl stop {unit}"
    assert not signalled(job), told(job)
    assert not _sleepers(with_systemd)
    assert one_server(with_systemd, deployment.port).entry.launch == str(launch_of(job).pk)


def _sleepers(place: Place) -> list[int]:
    return [each.pid for each in place.machine.processes() if each.cmdline == ("sleep", "86398")]


@pytest.mark.slow
def test_its_exit_code_is_kept_when_systemd_stops_it(story: Story, with_systemd: Place) -> None:
    deployment = story.deploy_standin(with_systemd)
    job = story.start(deployment)
    directory = with_systemd.machine.seen(launch_of(job).directory)
    story.run_job(deployment, JobKind.STOP)
    until((directory / "exit").exists, seconds=5, what="the exit code")
    assert (directory / "exit").read_text().strip() in ("0", "143"), "what SIGTERM makes of it"
    units = run(with_systemd, "systemctl list-units --all --plain --no-legend 'relaunch-*'")
    assert units == "", "it is collected"


def test_a_worker_that_dies_after_sending_leaves_one_server(
    story: Story, with_systemd: Place, panel: Panel, dying: None
) -> None:
    deployment = story.deploy_standin(with_systemd)
    job = story.begin_job(deployment, JobKind.START)
    panel.wait_for_death("dies")
    assert launch_of(job).pid is None, "its identity was recorded, so this test shows nothing"

    panel.start_worker("other", lease=4.0)
    story.succeeded(job)
    assert len(with_systemd.starts(deployment.port)) == 1, "a server was started twice"
    launch = launch_of(job)
    assert one_server(with_systemd, deployment.port).entry.launch == str(launch.pk)
    assert launch.pid is not None and group_of(with_systemd, launch.pid).endswith(f"relaunch-{launch.pk}.service")


@pytest.mark.slow
@pytest.mark.skipif(one_user_only(), reason="without root the lab has one user only")
def test_the_user_of_the_server_is_kept_by_root(story: Story, with_systemd: Place) -> None:
    deployment = adopted(story, with_systemd)
    by_hand(with_systemd, deployment, prefix=f"setpriv --reuid={LOGIN_ID} --regid={LOGIN_ID} --clear-groups")
    before = wait_for_server(with_systemd, deployment)
    services.set_secret(deployment, name=API_KEY, value="plain-horse-battery", actor=story.actor, address="")

    job = story.ask(deployment)
    assert rows_of(story.gate(job, "plan").job)["User"]["value"] == f"uid {LOGIN_ID}"
    story.approve(job)
    story.succeeded(job)
    assert not lives(with_systemd, before)
    pid = launch_of(job).pid
    status = with_systemd.machine.seen(f"/proc/{pid}/status").read_text()
    assert f"Uid:\t{LOGIN_ID}\t{LOGIN_ID}" in status and f"Gid:\t{LOGIN_ID}" in status
    environment = with_systemd.machine.seen(f"/proc/{pid}/environ").read_bytes()
    assert f"HOME=/home/{LOGIN}".encode() in environment
    assert Check.objects.get(step__job=job, key="api key").value == "status 401", "it has its key, by a file of its own"
    assert not [*with_systemd.machine.seen("/run").glob("relaunch-*")], "which is gone"


@pytest.mark.slow
@pytest.mark.skipif(one_user_only(), reason="without root the lab has one user only")
@pytest.mark.parametrize("lingers", [True, False])
def test_a_login_has_units_of_its_own_where_it_lingers(story: Story, lingers: bool) -> None:
    place = story.places["units"]
    deployment = story.deploy_standin(place)
    lingering = place.machine.seen("/var/lib/systemd/linger") / LOGIN
    lingering.parent.mkdir(exist_ok=True)
    lingering.unlink(missing_ok=True)
    if lingers:
        lingering.touch()
        run(place, f"systemctl start user@{LOGIN_ID}")
    row = Host.objects.filter(pk=place.host.pk)
    row.update(user=LOGIN)
    try:
        job = story.ask(deployment, JobKind.START)
        detail = rows_of(story.gate(job, "plan").job)["Started by"]["detail"]
        story.approve(job)
        story.succeeded(job)
        launch = launch_of(job)
        assert launch.pid is not None
        in_unit = group_of(place, launch.pid).endswith(f"relaunch-{launch.pk}.service")
        assert in_unit == lingers and ("no linger" in detail) != lingers, (group_of(place, launch.pid), detail)
        stop = story.run_job(deployment, JobKind.STOP)
        asked = Effect.objects.filter(job=stop, kind="stop by its manager").values_list("command", flat=True)
        assert [*asked] == (
            [f"env XDG_RUNTIME_DIR=/run/user/{LOGIN_ID} systemctl --user stop relaunch-{launch.pk}.service"]
            if lingers
            else []
        )
    finally:
        row.update(user="root")
        lingering.unlink(missing_ok=True)
