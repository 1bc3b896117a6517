"""Letting go: who may, what is said, and that the panel looks no more."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.test import Client
from django.utils import timezone

import hosts.services
from controlpanel.models import AuditEntry
from deployments import releasing, services, tasks
from deployments.cloning import look
from deployments.lifecycle import EffectKind, JobKind, LaunchState, ServiceState
from deployments.models import Deployment, Effect, Job
from deployments.remote.script import Said
from deployments.views import board
from deployments.watch import DeploymentWatcher
from hosts.models import Host
from hosts.transport.base import ConnectError
from tests.deployments.machine import serving_machine
from tests.factories import make_deployment, make_gpu, make_host, make_job, make_launch

pytestmark = pytest.mark.django_db
ClientOf = Callable[[User], Client]


@pytest.fixture
def deployment() -> Deployment:
    return make_deployment()


@pytest.fixture(autouse=True)
def bells(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    rung: list[int] = []
    monkeypatch.setattr(tasks, "ring_release", rung.append)
    monkeypatch.setattr(releasing, "close_old_connections", lambda: None)
    return rung


def let_go(deployment: Deployment, actor: User, **more: str) -> Deployment:
    services.release(deployment, actor=actor, address="10.0.0.9", **more)
    return Deployment.objects.get(pk=deployment.pk)


def test_it_is_let_go_at_once_and_tidied_up_later(
    deployment: Deployment, administrator: User, bells: list[int], django_capture_on_commit_callbacks: Any
) -> None:
    launch = make_launch(deployment)
    with django_capture_on_commit_callbacks(execute=True):
        found = let_go(deployment, administrator)
    launch.refresh_from_db()
    assert (found.state, launch.state) == (ServiceState.RELEASED, LaunchState.ENDED)
    assert "runs on without the panel" in launch.end_reason and found.released["by"] == administrator.username
    assert bells == [deployment.pk] and AuditEntry.objects.filter(action="release").exists()


def test_the_monitor_looks_no_more(deployment: Deployment, administrator: User) -> None:
    host = deployment.placement.host
    assert DeploymentWatcher().ports(host) == [deployment.port]
    let_go(deployment, administrator)
    watcher = DeploymentWatcher()
    assert watcher.ports(host) == []
    watcher.saw(host, serving_machine().facts())
    watcher.lost(host, "gone")
    deployment.refresh_from_db()
    assert deployment.state == ServiceState.RELEASED


def test_no_job_begins_and_nothing_is_changed_any_more(
    deployment: Deployment, administrator: User, ask: Callable[..., Job]
) -> None:
    found = let_go(deployment, administrator)
    for kind in JobKind:
        with pytest.raises(services.Refused, match="has let go of it"):
            ask(found, kind=kind)
    place = found.placement
    with pytest.raises(services.Refused, match="has let go of it"):
        services.update_deployment(found, host=place.host, gpu_uuids=place.gpu_uuids, actor=administrator, address="")


def test_it_waits_for_a_job_and_is_done_once(deployment: Deployment, administrator: User) -> None:
    job = make_job(deployment)
    with pytest.raises(services.Refused, match="while a job of it goes on"):
        let_go(deployment, administrator)
    Job.objects.filter(pk=job.pk).update(state="succeeded")
    let_go(deployment, administrator)
    with pytest.raises(services.Refused, match="released already"):
        let_go(deployment, administrator)


def test_production_wants_its_name(deployment: Deployment, administrator: User) -> None:
    Deployment.objects.update(production=True)
    deployment.refresh_from_db()
    with pytest.raises(services.Refused, match="production"):
        let_go(deployment, administrator, typed_name="chat")
    assert let_go(deployment, administrator, typed_name=deployment.name).state == ServiceState.RELEASED


@pytest.mark.parametrize("role", ["operator", "approver", "viewer"])
def test_only_an_administrator_lets_go(deployment: Deployment, role: str, request: pytest.FixtureRequest) -> None:
    with pytest.raises(PermissionDenied):
        let_go(deployment, request.getfixturevalue(role))


def test_its_cards_are_anybodys(administrator: User) -> None:
    host = make_host()
    deployment = make_deployment(host=host, gpus=[make_gpu(host)])
    assert board.spare_cards() == []
    let_go(deployment, administrator)
    assert len(board.spare_cards()) == 1


# --- On the host


def said(*lines: str) -> list[Said]:
    return [Said(words[0], tuple(words[1:])) for words in (line.split() for line in lines)]


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What each machine says; ``sent``: to whom what was sent."""
    told: dict[str, Any] = {"sent": []}

    class Link:
        def __init__(self, host: Host) -> None:
            self.host = host

        def __enter__(self) -> Host:
            if isinstance(told.get(self.host.name), Exception):
                raise told[self.host.name]
            return self.host

        def __exit__(self, *_: object) -> None: ...

    def run(transport: Host, script: Any, *, timeout: float) -> list[Said]:
        told["sent"].append((transport.name, script.stdin.decode().partition("main() {")[0]))
        found: list[Said] = told.get(transport.name, said("released", "end"))
        return found

    monkeypatch.setattr(releasing.links, "borrow", Link)
    monkeypatch.setattr(releasing.remote, "run", run)
    return told


def test_what_stays_is_told_with_its_reason(
    deployment: Deployment, administrator: User, answers: dict[str, Any], client_of: ClientOf
) -> None:
    path = "/etc/systemd/system/chat.service.d/relaunch.conf"
    job = make_job(deployment, state="succeeded")
    Effect.objects.create(
        job=job, step=job.steps.all()[0], kind="launch", target={"writes": path}, fence=1, finished_at=timezone.now()
    )
    host = deployment.placement.host
    answers[host.name] = said(
        "kept log /root/.relaunch/x/log", f"kept written {path}", "removed /root/.relaunch/x", "released"
    )
    let_go(deployment, administrator)
    releasing.run_release(deployment.pk)
    deployment.refresh_from_db()
    assert deployment.released["done_at"] and deployment.released["removed"] == ["/root/.relaunch/x"]
    assert path in answers["sent"][0][1]
    page = client_of(administrator).get(f"/deployments/{deployment.pk}/").content.decode()
    assert "the running server writes its output into it" in page and path in page
    assert "Restart…" not in page and "Released" in page and "Tidy up" not in page
    releasing.run_release(deployment.pk)
    assert len(answers["sent"]) == 1, "it was done"
    assert deployment.name not in client_of(administrator).get("/").content.decode()
    assert deployment.name in client_of(administrator).get("/deployments/").content.decode()


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (EffectKind.LAUNCH, "launch"),
        (EffectKind.SIGNAL_TERM, "stop"),
        (EffectKind.NODE_KILL, "stop"),
        (EffectKind.MANAGER_STOP, "stop"),
        (EffectKind.KILL_STRANGERS, "stop"),
    ],
)
def test_what_may_still_arrive_must_find_its_fence(
    deployment: Deployment, administrator: User, kind: EffectKind, what: str
) -> None:
    job = make_job(deployment, state="succeeded")
    Effect.objects.create(job=job, step=job.steps.all()[0], kind=EffectKind.WATCH, fence=1)
    effect = Effect.objects.create(job=job, step=job.steps.all()[0], kind=kind, fence=1)
    with pytest.raises(services.Refused, match=f"A {what} of .* may still arrive"):
        let_go(deployment, administrator)
    Effect.objects.filter(pk=effect.pk).update(intended_at=timezone.now() - timedelta(minutes=16))
    assert let_go(deployment, administrator).state == ServiceState.RELEASED


def test_a_host_that_is_gone_holds_nothing_up(
    deployment: Deployment, administrator: User, answers: dict[str, Any], client_of: ClientOf, bells: list[int],
    django_capture_on_commit_callbacks: Any,
) -> None:  # fmt: skip
    answers[deployment.placement.host.name] = ConnectError("Nobody answers.")
    assert let_go(deployment, administrator).state == ServiceState.RELEASED
    releasing.run_release(deployment.pk)
    client, path = client_of(administrator), f"/deployments/{deployment.pk}/"
    page = client.get(path).content.decode()
    assert "is not tidied up yet. Nobody answers." in page and "again" in page
    bells.clear()
    with django_capture_on_commit_callbacks(execute=True):
        assert client.post(f"{path}release/", {"again": "yes"}).status_code == 302
    assert bells == [deployment.pk]
    del answers[deployment.placement.host.name]
    releasing.run_release(deployment.pk)
    assert "Nothing of the panel is left" in client.get(path).content.decode()


def test_a_host_that_says_no_is_not_called_tidy(
    deployment: Deployment, administrator: User, answers: dict[str, Any]
) -> None:
    answers[deployment.placement.host.name] = said("fenced 12", "end")
    let_go(deployment, administrator)
    releasing.run_release(deployment.pk)
    deployment.refresh_from_db()
    assert "fenced" not in deployment.released.get("done_at", "") and "12" in deployment.released["problem"]


def test_the_node_of_a_container_is_tidied_up_too(administrator: User, answers: dict[str, Any]) -> None:
    node = make_host(name="pve")
    box = make_host(name="box", transport=Host.TransportKind.PCT, via=node, vmid=129, address="")
    deployment = make_deployment(host=box, gpus=[make_gpu(box)])
    let_go(deployment, administrator)
    releasing.run_release(deployment.pk)
    assert [name for name, _ in answers["sent"]] == ["box", "pve"]


# --- When its host goes too


def remove(host: Host, actor: User) -> None:
    hosts.services.remove_host(host, actor=actor, address="")


@pytest.mark.long
def test_its_host_can_be_removed_and_all_of_its_history_stays(
    deployment: Deployment, administrator: User, answers: dict[str, Any], client_of: ClientOf
) -> None:
    host, client = deployment.placement.host, client_of(administrator)
    job = make_job(deployment, state="succeeded")
    launch = make_launch(deployment, job=job)
    services.mark_proven(launch, actor=administrator, address="")
    assert f"Remove {host}" not in client.get(f"/hosts/{host.pk}/").content.decode()
    with pytest.raises(services.Refused, match=f"used by {deployment}"):
        remove(host, administrator)
    let_go(deployment, administrator)
    with pytest.raises(services.Refused, match="not taken away yet") as refused:
        remove(host, administrator)
    assert refused.value.link is not None and refused.value.link[0] == f"/deployments/{deployment.pk}/"
    releasing.run_release(deployment.pk)
    assert f"Remove {host}" in client.get(f"/hosts/{host.pk}/").content.decode()
    assert client.post(f"/hosts/{host.pk}/delete/").status_code == 302
    page = client.get(f"/deployments/{deployment.pk}/").content.decode()
    assert f"It ran on {host}, which was removed" in page and "clone it to another host" in page
    pages = ["/deployments/", f"/deployments/{deployment.pk}/edit/", f"/jobs/{job.pk}/", "/jobs/", "/"]
    assert [client.get(each).status_code for each in pages] == [200] * len(pages)
    launch.refresh_from_db()
    services.mark_proven(launch, actor=administrator, address="")


def test_a_host_that_is_gone_for_good_is_removed_untidied(
    deployment: Deployment,
    administrator: User,
    answers: dict[str, Any],
    client_of: ClientOf,
    ask: Callable[..., Job],
) -> None:
    let_go(deployment, administrator)
    Host.objects.update(reach=Host.Reach.UNREACHABLE)
    remove(Host.objects.get(), administrator)
    releasing.run_release(deployment.pk)
    client, path = client_of(administrator), f"/deployments/{deployment.pk}/"
    assert answers["sent"] == [] and "without what the panel had left there" in client.get(path).content.decode()
    assert client.post(f"{path}release/", {"again": "yes"}).status_code == 409
    with pytest.raises(services.Refused) as refused:
        ask(Deployment.objects.get(), kind=JobKind.START)
    assert "clone it" in refused.value.hint


def test_it_is_cloned_from_a_host_that_was_removed(
    deployment: Deployment, administrator: User, answers: dict[str, Any], client_of: ClientOf
) -> None:
    other = make_host()
    card = make_gpu(other)
    let_go(deployment, administrator)
    releasing.run_release(deployment.pk)
    was = deployment.placement.host.name
    remove(deployment.placement.host, administrator)
    found = Deployment.objects.get()
    answer = client_of(administrator).post(
        f"/deployments/{found.pk}/clone/", {"name": "moved", "host": other.pk, "gpus": [card.uuid]}
    )
    assert answer.status_code == 302, "the check is asked for"
    assert look._here(found, found.revision).host == was


def test_who_may_not_finds_no_button(deployment: Deployment, operator: User, client_of: ClientOf) -> None:
    client, path = client_of(operator), f"/deployments/{deployment.pk}/"
    assert "Let go of" not in client.get(path).content.decode()
    assert client.post(f"{path}release/").status_code == 403
    assert client.get(f"{path}release/").status_code == 405
