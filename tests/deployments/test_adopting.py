"""Adopting and attaching: what is made, what is refused, and that no secret is left in the open."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.test import Client
from django.utils import timezone

from controlpanel import sealing
from controlpanel.models import AuditEntry
from deployments import secrets, services, tasks
from deployments.discovery import store
from deployments.discovery.found import Found, HeldCard
from deployments.lifecycle import LaunchState, ServiceState
from deployments.models import Deployment, Launch, Profile, Revision, ServerLook
from deployments.plan.passing import API_KEY
from hosts.models import Gpu, Host
from tests.factories import make_deployment, make_gpu, make_host, make_job, make_launch, make_profile

pytestmark = pytest.mark.django_db
ClientOf = Callable[[User], Client]
BOOT = "11111111-2222-3333-4444-555555555555"
ARGV = ("/venv/bin/python", "-m", "sglang.launch_server", "--model-path", "/models/qwen", "--port", "30000")
KEY = "sk-of-the-adopted-server"


@pytest.fixture
def host() -> Host:
    return make_host()


@pytest.fixture
def gpu(host: Host) -> Gpu:
    return make_gpu(host)


def a_server(gpu: Gpu, **values: Any) -> Found:
    usual = {
        "boot_id": BOOT, "pid": 100, "start_time": 1000, "pid_namespace": "pid:[1]", "engine": "sglang",
        "words": ARGV, "port": 30000, "since": "2026-01-02T03:04:05+00:00", "argv": ARGV,
        "env": {"NCCL_DEBUG": "WARN"}, "workdir": "/srv", "cards": (HeldCard(gpu.uuid, "GPU 0", 40_000),),
    }  # fmt: skip
    found = Found(**(usual | values))
    given = {name: sealing.seal(value, owner=found.owner) for name, value in found.secrets.items()}
    return Found(**{**found.__dict__, "secrets": given})


def adopt(host: Host, found: Found, actor: User, **values: Any) -> Deployment:
    usual = {"name": "qwen", "seen_at": timezone.now(), "actor": actor, "address": "10.0.0.9"}
    return services.adopt(host, found, **(usual | values))


def looked(host: Host, *servers: Found, **values: Any) -> ServerLook:
    now = timezone.now()
    usual = {"started_at": now, "finished_at": now, "servers": [found.as_data for found in servers]}
    return ServerLook.objects.create(host=host, **(usual | values))


# --- Adopt


def test_profile_revision_and_deployment_say_what_runs(host: Host, gpu: Gpu, administrator: User) -> None:
    made = adopt(host, a_server(gpu), administrator)
    made.refresh_from_db()
    revision = made.revision
    assert (revision.argv, revision.env, revision.workdir, revision.port) == (
        list(ARGV), {"NCCL_DEBUG": "WARN"}, "/srv", 30000,
    )  # fmt: skip
    assert (made.profile.name, made.port, made.placement.gpu_uuids) == ("qwen", 30000, [gpu.uuid])
    assert made.state == ServiceState.SERVING
    launch = made.live_launch
    assert launch is not None and (launch.pid, launch.start_time, launch.boot_id) == (100, 1000, BOOT)
    assert (launch.state, launch.adopted_by_name, launch.job) == (LaunchState.SERVING, administrator.username, None)
    assert launch.memory_used == {gpu.uuid: 40_000} and launch.revision == revision
    entry = AuditEntry.objects.get(action="adopt server")
    assert entry.detail["pid"] == 100 and entry.actor_name == administrator.username


def test_secrets_become_the_deployments(host: Host, gpu: Gpu, administrator: User) -> None:
    found = a_server(gpu, secrets={API_KEY: KEY, "HF_TOKEN": f"hf_{KEY}"})
    made = adopt(host, found, administrator)
    assert secrets.api_key(made, made.live_launch) == KEY
    assert sorted(secrets.versions(made)) == [API_KEY, "HF_TOKEN"]
    for table in Revision, Launch, Deployment, Profile, AuditEntry:
        assert KEY not in str(list(table.objects.values())), table


def test_a_secret_that_cannot_be_kept_undoes_all_of_it(host: Host, gpu: Gpu, administrator: User) -> None:
    with pytest.raises(services.Refused, match="cannot be the value"):
        adopt(host, a_server(gpu, secrets={API_KEY: "short"}), administrator)
    assert not Profile.objects.exists() and not Deployment.objects.exists() and not Launch.objects.exists()


def test_it_is_adopted_once(host: Host, gpu: Gpu, administrator: User) -> None:
    first = adopt(host, a_server(gpu), administrator)
    with pytest.raises(services.Refused, match=f"the server of {first}"):
        adopt(host, a_server(gpu), administrator, name="other")
    another = a_server(gpu, start_time=1001)
    assert adopt(host, another, administrator, name="other").live_launch is not None, "another process is another"


def test_one_that_carries_our_own_mark_is_ours(host: Host, gpu: Gpu, administrator: User) -> None:
    launch = make_launch(make_deployment(host=host))
    with pytest.raises(services.Refused, match=f"the server of {launch.deployment}"):
        adopt(host, a_server(gpu, launch=str(launch.pk)), administrator)


def test_our_own_server_is_not_offered_on_the_same_machine_under_another_name(
    host: Host, gpu: Gpu, administrator: User, client_of: Callable[[User], Client]
) -> None:
    deployment = make_deployment(host=host, gpus=[gpu])
    make_launch(deployment, pid=100, start_time=1000, boot_id=BOOT)
    again = make_host()
    here = make_gpu(again, uuid=gpu.uuid)
    looked(again, a_server(here))
    page = client_of(administrator).get(f"/hosts/{again.pk}/").content.decode()
    assert "Adopt SGLang" not in page and f"/deployments/{deployment.pk}/" in page
    with pytest.raises(services.Refused, match="is the same machine as"):
        adopt(again, a_server(here), administrator)


def test_who_is_on_the_same_card_may_stay_there(host: Host, gpu: Gpu, administrator: User) -> None:
    other_card = make_gpu(host)
    first = adopt(host, a_server(gpu), administrator)
    alone = adopt(host, a_server(other_card, pid=300), administrator, name="alone")
    second = adopt(host, a_server(gpu, pid=200), administrator, name="second")
    assert list(second.shares_with.all()) == [first] and not alone.shares_with.exists()


@pytest.mark.parametrize("role", ["operator", "approver", "viewer"])
def test_only_an_administrator_adopts(host: Host, gpu: Gpu, role: str, request: pytest.FixtureRequest) -> None:
    with pytest.raises(PermissionDenied):
        adopt(host, a_server(gpu), request.getfixturevalue(role))


def test_what_was_refused_stays_refused(host: Host, gpu: Gpu, administrator: User) -> None:
    with pytest.raises(services.Refused, match="It is a job of Slurm"):
        adopt(host, a_server(gpu, refused="It is a job of Slurm."), administrator)
    Host.objects.filter(pk=host.pk).update(look_only=True)
    host.refresh_from_db()
    with pytest.raises(services.Refused, match="look-only"):
        adopt(host, a_server(gpu), administrator)


def test_a_start_that_was_not_ours_tells_nothing_of_how_long_starts_take(
    host: Host, gpu: Gpu, administrator: User
) -> None:
    from deployments.starts import last_starts

    made = adopt(host, a_server(gpu), administrator)
    assert last_starts(made, before=make_launch(made, state=LaunchState.ENDED)) == []


# --- What may have ended since it was seen


AGO = timedelta(minutes=6)


def test_an_old_look_is_no_proof_that_it_runs(host: Host, gpu: Gpu, administrator: User) -> None:
    with pytest.raises(services.Refused, match="seen too long ago"):
        adopt(host, a_server(gpu), administrator, seen_at=timezone.now() - AGO)
    with pytest.raises(services.Refused, match="seen too long ago"):
        adopt(host, a_server(gpu), administrator, seen_at=None)
    stopped = make_deployment(host=host, gpus=[gpu], state="stopped")
    with pytest.raises(services.Refused, match="seen too long ago"):
        attach(stopped, a_server(gpu), administrator, seen_at=timezone.now() - AGO)
    assert not Launch.objects.exists()


def test_on_a_host_that_is_not_reached_nobody_knows(host: Host, gpu: Gpu, administrator: User) -> None:
    Host.objects.update(reach=Host.Reach.UNREACHABLE)
    with pytest.raises(services.Refused, match="cannot be reached now"):
        adopt(host, a_server(gpu), administrator)


def test_a_server_that_has_ended_since_the_look_serves_nobody(host: Host, gpu: Gpu, administrator: User) -> None:
    found, looked_at = a_server(gpu), timezone.now()
    first = adopt(host, found, administrator)
    Launch.objects.update(state=LaunchState.ENDED, ended_at=timezone.now())
    for values in {"name": "again"}, {"name": "marked"}:
        with pytest.raises(services.Refused, match=f"one of {first}, which has ended since"):
            adopt(host, found, administrator, seen_at=looked_at, **values)
        found = a_server(gpu, pid=7, launch=str(Launch.objects.get().pk))
    assert adopt(host, found, administrator, name="alive after all").live_launch, "a later look has seen it"


def test_an_old_look_asks_for_another_one(client_of: ClientOf, administrator: User, host: Host, gpu: Gpu) -> None:
    found = a_server(gpu)
    looked(host, found, started_at=timezone.now() - AGO)
    page = client_of(administrator).get(f"/hosts/{host.pk}/").content.decode()
    assert "Adopt SGLang" not in page and "Look for servers again first" in page
    answer = client_of(administrator).post(f"/hosts/{host.pk}/servers/adopt/", {"server": found.key, "name": "qwen"})
    assert answer.status_code == 409 and "seen too long ago" in answer.content.decode()


# --- Attach


@pytest.fixture
def stopped(host: Host, gpu: Gpu) -> Deployment:
    """A deployment whose own server has ended."""
    return make_deployment(host=host, gpus=[gpu], state="unknown", found={"argv": ["x"], "pid": 100})


def attach(deployment: Deployment, found: Found, actor: User, *, seen_at: datetime | None = None) -> Revision:
    return services.attach(deployment, found, seen_at=seen_at or timezone.now(), actor=actor, address="10.0.0.9")


def test_attach_makes_a_revision_of_what_runs(stopped: Deployment, gpu: Gpu, administrator: User) -> None:
    before = stopped.revision
    revision = attach(stopped, a_server(gpu, port=30005, argv=(*ARGV[:-1], "30005", "--tp", "2")), administrator)
    stopped.refresh_from_db()
    assert revision.number == before.number + 1 and stopped.revision == revision
    assert (stopped.port, stopped.state, stopped.found) == (30005, ServiceState.SERVING, {})
    launch = stopped.live_launch
    assert launch is not None and launch.adopted_by_name == administrator.username and launch.adopted_at
    assert AuditEntry.objects.get(action="attach server").detail["revision"] == str(revision)


def test_a_revision_that_says_the_same_is_used_again(stopped: Deployment, gpu: Gpu, administrator: User) -> None:
    same = stopped.revision
    found = a_server(gpu, argv=tuple(same.argv), env={}, workdir="", port=same.port)
    assert attach(stopped, found, administrator) == same
    assert stopped.profile.revisions.count() == 1


def test_attach_waits_for_a_job_and_for_the_own_server(stopped: Deployment, gpu: Gpu, administrator: User) -> None:
    launch = make_launch(stopped)
    with pytest.raises(services.Refused, match="counts as running"):
        attach(stopped, a_server(gpu), administrator)
    Launch.objects.filter(pk=launch.pk).update(state=LaunchState.ENDED)
    make_job(stopped)
    with pytest.raises(services.Refused, match="while a job of it goes on"):
        attach(stopped, a_server(gpu), administrator)


def test_a_server_of_another_engine_is_not_attached(stopped: Deployment, gpu: Gpu, administrator: User) -> None:
    with pytest.raises(services.Refused, match="is for SGLang"):
        attach(stopped, a_server(gpu, engine="vllm"), administrator)


# --- The look


def test_one_look_at_a_time_is_rung_for(
    host: Host, operator: User, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    bells: list[int] = []
    monkeypatch.setattr(tasks, "ring_look", bells.append)
    with django_capture_on_commit_callbacks(execute=True):
        first = services.request_look(host, actor=operator, address="")
        again = services.request_look(host, actor=operator, address="")
    assert first == again and bells == [first.pk]
    ServerLook.objects.update(finished_at=timezone.now())
    assert services.request_look(host, actor=operator, address="") != first


def test_a_viewer_asks_for_no_look(host: Host, viewer: User) -> None:
    with pytest.raises(PermissionDenied):
        services.request_look(host, actor=viewer, address="")


def test_a_host_that_is_not_reached_is_said_and_older_looks_are_forgotten(
    host: Host, gpu: Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hosts.transport.base import ConnectError

    def refuse(_: Host) -> Any:
        raise ConnectError("Nobody answers.")

    old = looked(host, a_server(gpu))
    monkeypatch.setattr(store.links, "borrow", refuse)
    monkeypatch.setattr(store, "close_old_connections", lambda: None)
    row = ServerLook.objects.create(host=host)
    store.run_look(row.pk)
    row.refresh_from_db()
    assert row.problem == "Nobody answers." and row.finished_at and row.servers == []
    assert not ServerLook.objects.filter(pk=old.pk).exists()


def test_what_another_version_has_stored_does_no_harm(host: Host, gpu: Gpu) -> None:
    good = a_server(gpu).as_data
    look = ServerLook(host=host, servers=[{**good, "unheard_of": 1}, {"pid": 1}, good])
    assert [found.pid for found in store.servers_of(look)] == [100]


# --- The page


def test_the_host_page_shows_what_was_found(
    client_of: ClientOf, administrator: User, viewer: User, host: Host, gpu: Gpu
) -> None:
    looked(host, a_server(gpu), a_server(gpu, pid=7, port=1, refused="It is a job of Slurm.", hint="Ask there."))
    page = client_of(administrator).get(f"/hosts/{host.pk}/").content.decode()
    assert "Adopt SGLang on port 30000" in page and 'value="qwen"' in page
    assert "It cannot be adopted. It is a job of Slurm." in page and "Paste it into a new profile" in page
    assert "Adopt SGLang on port 1" not in page
    seen = client_of(viewer).get(f"/hosts/{host.pk}/").content.decode()
    assert "NCCL_DEBUG=WARN" in seen and "Adopt SGLang" not in seen and "Look for servers" not in seen


def test_one_click_adopts(client_of: ClientOf, administrator: User, host: Host, gpu: Gpu) -> None:
    found = a_server(gpu)
    looked(host, found)
    answer = client_of(administrator).post(f"/hosts/{host.pk}/servers/adopt/", {"server": found.key, "name": "qwen"})
    made = Deployment.objects.get()
    assert answer.status_code == 302 and answer["Location"] == f"/deployments/{made.pk}/"
    page = client_of(administrator).get(answer["Location"]).content.decode()
    assert "adopted" in page and "Serving" in page
    page = client_of(administrator).get(f"/hosts/{host.pk}/").content.decode()
    assert "Of a deployment" in page and "Adopt SGLang" not in page


@pytest.mark.parametrize(
    ("posted", "words"),
    [({"server": "gone"}, "not in the last look any more"), ({"name": ""}, "Give the deployment a name")],
)
def test_what_cannot_be_adopted_is_said(
    client_of: ClientOf, administrator: User, host: Host, gpu: Gpu, posted: dict[str, str], words: str
) -> None:
    found = a_server(gpu)
    looked(host, found)
    answer = client_of(administrator).post(
        f"/hosts/{host.pk}/servers/adopt/", {"server": found.key, "name": "qwen", **posted}
    )
    assert answer.status_code in (409, 422) and words in answer.content.decode()
    assert not Deployment.objects.exists()


def test_a_deployment_on_its_port_is_offered_to_be_attached(
    client_of: ClientOf, administrator: User, host: Host, gpu: Gpu
) -> None:
    waiting = make_deployment(host=host, gpus=[gpu])
    found = a_server(gpu, port=waiting.port, argv=tuple(waiting.revision.argv), env={}, workdir="")
    looked(host, found)
    page = client_of(administrator).get(f"/hosts/{host.pk}/").content.decode()
    assert f"Attach it to {waiting}" in page and "Adopt SGLang" not in page
    path = f"/hosts/{host.pk}/servers/attach/{waiting.pk}/"
    assert client_of(administrator).post(path, {"server": found.key}).status_code == 302
    assert waiting.live_launch is not None


@pytest.mark.parametrize("path", ["look/", "adopt/", "attach/1/"])
def test_every_deed_is_a_post_of_who_may(client_of: ClientOf, viewer: User, host: Host, path: str) -> None:
    assert client_of(viewer).get(f"/hosts/{host.pk}/servers/{path}").status_code == 405
    assert client_of(viewer).post(f"/hosts/{host.pk}/servers/{path}").status_code == 403


@pytest.mark.parametrize(
    ("name", "sentence"), [("taken", "There is already a profile named taken"), ("a\u202eb", "do not show")]
)
def test_a_name_that_cannot_be_keeps_the_form_with_the_error_at_its_field(
    client_of: ClientOf, administrator: User, host: Host, gpu: Gpu, name: str, sentence: str
) -> None:
    make_profile(name="taken")
    found = a_server(gpu)
    looked(host, found)
    posted = {"server": found.key, "name": name, "requester_may_approve": "on"}
    answer = client_of(administrator).post(f"/hosts/{host.pk}/servers/adopt/", posted)
    page = answer.content.decode()
    assert answer.status_code == 422 and not Deployment.objects.exists()
    assert sentence in page and f'value="{name}"' in page and 'aria-invalid="true"' in page
    assert "Adopt SGLang on port 30000" in page and 'id="approve-100" checked' in page
