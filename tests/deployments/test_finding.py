"""A server that the panel did not start: found once, read, compared, and shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from deployments import finding, services
from deployments.finding import Finder
from deployments.lifecycle import JobState, ServiceState
from deployments.models import Deployment
from deployments.watch import DeploymentWatcher
from hosts import links
from hosts.models import Host
from hosts.transport.base import ConnectTimeout
from tests.deployments.machine import SGLANG, Machine, Proc, idle_machine, serving_machine
from tests.deployments.support import FakeHost, raising
from tests.factories import make_deployment, make_job, make_launch, make_profile, make_revision

pytestmark = pytest.mark.django_db
ClientOf = Callable[[User], Client]
INFO = {"tp_size": 2, "kv_cache_dtype": "auto", "version": "0.5.9", "api_key": "sesame-street",
        "internal_states": [{"kv_cache_dtype": "fp8_e4m3"}]}  # fmt: skip


def now(work: Callable[[], None]) -> None:
    work()


@pytest.fixture
def deployment() -> Deployment:
    profile = make_profile()
    revision = make_revision(profile, argv=SGLANG.split())
    return make_deployment(revision=revision, state=ServiceState.UNKNOWN)


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    fake = FakeHost(serving_machine())
    fake.pages["/server_info"] = (200, json.dumps(INFO).encode())
    monkeypatch.setattr(links, "borrow", fake.borrow)
    return fake


def look(deployment: Deployment, machine: Machine, watcher: DeploymentWatcher | None = None) -> Deployment:
    """Two readings: the first finds the server, the second judges with what was found."""
    until = timezone.now() + timedelta(seconds=60)
    Host.objects.update(monitor_owner="us", monitor_lease_until=until)
    row = Host.objects.get(pk=deployment.placement.host_id)
    watcher = watcher or DeploymentWatcher(Finder(submit=now))
    watcher.saw(row, machine.facts())
    watcher.saw(row, machine.facts())
    return Deployment.objects.get(pk=deployment.pk)


def test_it_is_found_with_its_command_and_what_it_tells(deployment: Deployment, host: FakeHost) -> None:
    seen = look(deployment, host.machine)
    assert seen.found["argv"] == SGLANG.split() and (seen.found["pid"], seen.found["engine"]) == (100, "sglang")
    assert seen.found["effective"]["version"] == "0.5.9"
    assert "sesame" not in repr(seen.found)
    assert seen.state == ServiceState.SERVING
    assert "pid 100" in seen.state_detail and "Relaunch did not start it" in seen.state_detail


def test_a_key_in_its_command_is_not_kept(deployment: Deployment, host: FakeHost) -> None:
    host.machine.procs[100].command = f"{SGLANG} --api-key sesame-street"
    found = look(deployment, host.machine).found
    assert "--api-key" in found["argv"] and "sesame" not in repr(found)


def test_it_is_looked_at_once_and_is_not_made_to_generate(
    deployment: Deployment, host: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finding, "FIRST_PAUSE", 0.0)
    watcher = DeploymentWatcher(Finder(submit=now))
    for _ in range(3):
        look(deployment, host.machine, watcher)
    assert host.sent == ["probe"]


def test_one_that_does_not_tell_is_asked_again_later_only(deployment: Deployment, host: FakeHost) -> None:
    del host.pages["/server_info"]
    watcher = DeploymentWatcher(Finder(submit=now))
    seen = look(deployment, host.machine, watcher)
    assert seen.found["argv"] and not seen.found["effective"]
    look(deployment, host.machine, watcher)
    assert host.sent == ["probe"]


def test_another_program_stays_unknown(deployment: Deployment, host: FakeHost) -> None:
    host.machine = idle_machine().add(Proc(7, 70, command="nc -l 30000", port=30000))
    seen = look(deployment, host.machine)
    assert not seen.found.get("argv") and seen.state == ServiceState.UNKNOWN
    assert "nc -l 30000" in seen.state_detail and "Relaunch did not start it" in seen.state_detail


def test_a_server_of_another_engine_is_not_called_ours(deployment: Deployment, host: FakeHost) -> None:
    host.machine = idle_machine().add(Proc(7, 70, command="vllm serve /m", port=30000))
    seen = look(deployment, host.machine)
    assert (seen.found["engine"], seen.state) == ("vllm", ServiceState.UNKNOWN)


def test_a_host_that_is_gone_leaves_it_unknown(deployment: Deployment, host: FakeHost) -> None:
    host.before["probe"] = raising(ConnectTimeout("gone"))
    seen = look(deployment, host.machine)
    assert seen.found == {} and seen.state == ServiceState.UNKNOWN


def test_it_is_forgotten_when_it_ends_or_when_a_launch_of_ours_serves(deployment: Deployment, host: FakeHost) -> None:
    look(deployment, host.machine)
    assert look(deployment, idle_machine()).found == {}
    assert look(deployment, host.machine).found
    make_launch(deployment, pid=100, start_time=1000, boot_id=host.machine.boot)
    assert look(deployment, host.machine).found == {}


def test_what_a_job_is_at_work_on_is_left_alone(deployment: Deployment, host: FakeHost) -> None:
    make_job(deployment, state=JobState.RUNNING)
    assert look(deployment, host.machine).found == {}


def test_a_monitor_that_has_lost_the_host_stores_nothing(deployment: Deployment, host: FakeHost) -> None:
    work: list[Callable[[], None]] = []
    look(deployment, host.machine, DeploymentWatcher(Finder(submit=work.append)))
    Host.objects.update(monitor_owner="another")
    work[0]()
    assert Deployment.objects.get(pk=deployment.pk).found == {}


def test_what_is_found_after_a_job_has_begun_is_not_stored(deployment: Deployment, host: FakeHost) -> None:
    work: list[Callable[[], None]] = []
    look(deployment, host.machine, DeploymentWatcher(Finder(submit=work.append)))
    make_job(make_deployment(), state=JobState.RUNNING, replaces=deployment)
    work[0]()
    assert Deployment.objects.get(pk=deployment.pk).found == {}


def test_a_refusal_tells_no_configuration(deployment: Deployment, host: FakeHost) -> None:
    host.pages["/server_info"] = (500, json.dumps(INFO).encode())
    assert not look(deployment, host.machine).found["effective"]


# --- On the pages


def page(client: Client, path: str) -> str:
    return " ".join(client.get(path).content.decode().split())


def test_its_page_shows_what_serves_and_how_it_differs(
    deployment: Deployment, host: FakeHost, client_of: ClientOf, viewer: User
) -> None:
    argv = [*SGLANG.replace("--tp 2", "--tp-size 2").split(), "--speculative-num-steps", "3"]
    good = make_revision(deployment.profile, argv=argv)
    Deployment.objects.update(proven_revision=good)
    look(deployment, host.machine)
    text = page(client_of(viewer), f"/deployments/{deployment.pk}/")
    assert "a server that Relaunch did not start, pid" in text
    assert "Differs from proven: speculative-num-steps not set, proven 3." in text
    assert "Edited, not applied" not in text, "it runs with the flags of the current revision"
    assert "does not tell its configuration" not in text
    assert "fp8_e4m3" in text and "The command of what serves" in text
    board = page(client_of(viewer), "/")
    assert "differs from proven" in board and "speculative-num-steps not set, proven 3" in board


def test_edited_not_applied_names_the_flags(
    deployment: Deployment, host: FakeHost, client_of: ClientOf, viewer: User
) -> None:
    edited = make_revision(deployment.profile, argv=[*SGLANG.split(), "--context-length", "65536"])
    Deployment.objects.update(revision=edited)
    look(deployment, host.machine)
    text = page(client_of(viewer), f"/deployments/{deployment.pk}/")
    assert "A restart would change: context-length not set, after a restart 65536." in text
    assert "not what a restart launches" in page(client_of(viewer), "/")


def row_of(name: str, effective: str) -> dict[str, object]:
    return {"name": name, "asked": None, "effective": effective, "changed": False, "why": "", "source": ""}


def test_the_launch_that_was_proven_is_what_the_engine_is_compared_with(
    deployment: Deployment, client_of: ClientOf, viewer: User, approver: User
) -> None:
    then = {"version": "0.5.11", "rows": [row_of("--kv-cache-dtype", "bfloat16")]}
    old = make_launch(deployment, state="ended", effective=then)
    services.mark_proven(old, actor=approver, address="")
    told = {"version": "0.5.9", "rows": [row_of("--kv-cache-dtype", "fp8_e4m3")]}
    make_launch(deployment, effective=told)
    text = page(client_of(viewer), f"/deployments/{deployment.pk}/")
    assert "The engine does otherwise than when it was proven" in text
    assert "proven with 0.5.11" in text
    assert "What serves differs from what was proven" not in text


@pytest.mark.long
def test_one_click_attaches_what_runs(
    deployment: Deployment, host: FakeHost, client_of: ClientOf, administrator: User, viewer: User
) -> None:
    host.machine.procs[100].command = f"{SGLANG} --context-length 4096"
    host.pages["/server_info"] = (200, json.dumps(INFO).encode())
    seen = look(deployment, host.machine)
    text = page(client_of(administrator), f"/deployments/{deployment.pk}/")
    assert f"Attach what runs to {deployment.name}" in text
    assert "Attach what runs" not in page(client_of(viewer), f"/deployments/{deployment.pk}/")
    path, key = f"/deployments/{deployment.pk}/attach/", f"{host.machine.boot}.100.1000"
    assert client_of(administrator).post(path, {"server": "another"}).status_code == 409
    assert client_of(viewer).post(path, {"server": key}).status_code == 403
    assert client_of(administrator).post(path, {"server": key}).status_code == 302
    launch = seen.live_launch
    assert launch is not None and launch.pid == 100 and launch.effective["version"] == "0.5.9"
    assert launch.revision is not None and launch.revision.argv[-2:] == ["--context-length", "4096"]
    again = look(deployment, host.machine)
    assert (again.state, again.found) == (ServiceState.SERVING, {})
    text = page(client_of(administrator), f"/deployments/{deployment.pk}/")
    assert "adopted" in text and "Attach what runs" not in text


def test_one_that_does_not_tell_says_so(
    deployment: Deployment, host: FakeHost, client_of: ClientOf, viewer: User
) -> None:
    host.pages["/server_info"] = (401, b"{}")
    look(deployment, host.machine)
    assert "it does not tell its configuration" in page(client_of(viewer), f"/deployments/{deployment.pk}/")
