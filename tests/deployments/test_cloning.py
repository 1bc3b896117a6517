"""What differs on another host, in a table; and the deployment that is made there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.test import Client
from django.utils import timezone

from controlpanel.models import AuditEntry
from deployments import services, tasks
from deployments.cloning import look
from deployments.cloning.rows import CardThere, Here, Row, There, Wanted, compare
from deployments.models import CloneCheck, Deployment
from hosts.models import Host
from hosts.probe.facts import DiskSpace
from hosts.probe.frames import Unknown
from hosts.transport.base import ConnectError
from tests.deployments.fit import models
from tests.deployments.machine import CARDS, SGLANG, idle_machine
from tests.deployments.support import FakeHost
from tests.factories import make_deployment, make_gpu, make_host, make_launch, make_profile, make_revision

ClientOf = Callable[[User], Client]
L40S = CardThere("GPU 0", "NVIDIA L40S", 46_068, 4, 64, "580.95.05")
MODEL = "/models/qwen"
WANTED = Wanted(30000, {MODEL: "The model"}, ".", "SGLang")
HERE = Here("old", [L40S, replace(L40S, label="GPU 1")], "0.5.11")
THERE = There(
    "new", HERE.cards, "0.5.11", {MODEL: True, ".": True}, frozenset(), {".": DiskSpace(90_000, 50_000, "/")}, True
)


def rows(wanted: Wanted = WANTED, here: Here = HERE, there: There = THERE) -> Mapping[str, Row]:
    return {row.label: row for row in compare(wanted, here, there)}


def test_the_same_place_differs_in_nothing() -> None:
    assert {row.status for row in rows().values()} == {"ok"}


@pytest.mark.parametrize(
    ("there", "label", "status", "words"),
    [
        ({"cards": [L40S]}, "Cards", "not ok", "1 x NVIDIA L40S"),
        ({"cards": [replace(L40S, name="H100")] * 2}, "Cards", "info", "2 x H100"),
        ({"cards": [replace(L40S, total_mib=24_000)] * 2}, "Memory of the smallest card", "not ok", "24,000 MiB"),
        ({"cards": [replace(L40S, total_mib=None)] * 2}, "Memory of the smallest card", "unknown", "not known"),
        ({"cards": [L40S, replace(L40S, used_mib=9000)]}, "GPU 0 free now", "not ok", "9,000 MiB in use"),
        ({"cards": [L40S, replace(L40S, used_mib=None)]}, "GPU 0 free now", "unknown", "not known"),
        ({"cards": [replace(L40S, driver="550.1")] * 2}, "Driver", "info", "550.1"),
        ({"version": "0.5.9"}, "SGLang version", "not ok", "0.5.9"),
        ({"version": Unknown("python is not there.")}, "SGLang version", "unknown", "not known"),
        ({"version": None}, "SGLang version", "info", "decided by the image"),
        ({"paths": {MODEL: False}}, "The model", "not ok", "missing"),
        ({"paths": {}}, "The model", "unknown", "not known"),
        ({"closed": frozenset({MODEL})}, "The model", "not ok", "closed to the login"),
        ({"paths": Unknown("no answer")}, "Its files", "unknown", "not known"),
        ({"disks": {".": DiskSpace(900, 100, "/")}}, "Room for logs", "not ok", "100 MiB free on /"),
        ({"disks": {}}, "Room for logs", "unknown", "not known"),
        ({"port_free": False, "port_text": "taken by nginx"}, "Port 30000", "not ok", "taken"),
        ({"port_free": None}, "Port 30000", "unknown", "not known"),
        ({"others": ["chat"]}, "Other deployments there", "not ok", "chat"),
    ],
)
def test_each_difference_is_told(there: dict[str, Any], label: str, status: str, words: str) -> None:
    row = rows(there=replace(THERE, **there))[label]
    assert (row.status, row.there) == (status, words)


def test_a_version_is_judged_by_what_the_revision_states() -> None:
    stated = replace(WANTED, engine_versions="0.5.10 or newer")
    assert rows(stated, there=replace(THERE, version="0.5.23"))["SGLang version"].status == "ok"
    assert rows(stated, there=replace(THERE, version="0.5.9"))["SGLang version"].status == "not ok"


def test_cards_that_the_revision_names_are_those_of_the_old_host() -> None:
    named = replace(WANTED, env={"CUDA_VISIBLE_DEVICES": "0,1"})
    assert rows(named)["Which cards it sees"].status == "ok"
    moved = replace(THERE, cards=[replace(L40S, label="GPU 2"), replace(L40S, label="GPU 3")])
    assert rows(named, there=moved)["Which cards it sees"].status == "not ok"


def test_what_a_unit_kept_is_not_in_the_revision() -> None:
    row = rows(here=replace(HERE, keeper="unit chat.service"))["Started by"]
    assert (row.status, row.here, row.there) == ("not ok", "unit chat.service", "the panel")


# --- With the database


@pytest.fixture
def source(db: None) -> Deployment:
    revision = make_revision(make_profile(), argv=SGLANG.split())
    made = make_deployment(
        revision=revision,
        drain_seconds=7,
        co_tenants=["root:Xorg"],
        started_by="unit chat.service",
        hooks={"take out": {"how": "command", "command": "true"}},
    )
    make_launch(made, effective={"version": "0.5.11"}, started_by="unit chat.service")
    return made


@pytest.fixture
def other(db: None) -> Host:
    host = make_host(name="gpu9")
    for uuid in CARDS:
        make_gpu(host, uuid=uuid)
    return host


@pytest.fixture(autouse=True)
def bells(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    rung: list[int] = []
    monkeypatch.setattr(tasks, "ring_clone_check", rung.append)
    monkeypatch.setattr(look, "close_old_connections", lambda: None)
    return rung


def asked(source: Deployment, other: Host, actor: User, **more: Any) -> CloneCheck:
    usual = {"name": "moved", "host": other, "gpu_uuids": list(CARDS)}
    return services.request_clone_check(source, **(usual | more), actor=actor, address="")


def test_the_look_is_made_there_and_here_is_what_was_stored(
    source: Deployment, other: Host, administrator: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeHost(idle_machine(), version=["version 0.5.9"])
    fake.machine.missing_paths = {"/models/qwen-27b"}
    monkeypatch.setattr(look.links, "borrow", fake.borrow)
    check = asked(source, other, administrator)
    look.run_check(check.pk)
    look.run_check(check.pk)
    check.refresh_from_db()
    found = {row["label"]: row for row in check.rows}
    assert (found["SGLang version"]["here"], found["SGLang version"]["there"]) == ("0.5.11", "0.5.9")
    assert found["The model"]["status"] == "not ok" and found["Started by"]["here"] == "unit chat.service"
    assert found["The program"]["status"] == "ok" and found["Port 30000"]["status"] != "not ok"
    assert found["Memory of the smallest card"]["here"] == "49,140 MiB"
    assert fake.sent == ["probe", "version"], "once"


@pytest.mark.parametrize(
    ("gpu", "says"),
    [
        ({}, ["As it is here", "It fits"]),
        ({"name": "NVIDIA H100"}, ["Not quite the same", "otherwise there: Cards.", "It fits"]),
        ({"name": "NVIDIA T4", "total_mib": 11_000}, ["2 of 10 need a look.", "Less than before", "It does not fit"]),
    ],
)
def test_the_page_says_whether_it_fits_on_the_cards_there(
    source: Deployment, other: Host, administrator: User, viewer: User, client_of: ClientOf,
    monkeypatch: pytest.MonkeyPatch, gpu: dict[str, Any], says: list[str],
) -> None:  # fmt: skip
    source.launches.update(started_by="")
    other.gpus.update(**gpu)
    fake = FakeHost(idle_machine(), version=["version 0.5.11"], model=models.QWEN3_8B)
    monkeypatch.setattr(look.links, "borrow", fake.borrow)
    check = asked(source, other, administrator)
    look.run_check(check.pk)
    page = client_of(viewer).get(f"/clones/{check.pk}/").content.decode()
    assert "Does it fit there" in page and [words for words in says if words not in page] == []


def test_without_the_models_files_it_says_why_nothing_is_known(
    source: Deployment, other: Host, administrator: User, client_of: ClientOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look.links, "borrow", FakeHost(idle_machine()).borrow)
    check = asked(source, other, administrator)
    look.run_check(check.pk)
    page = client_of(administrator).get(f"/clones/{check.pk}/").content.decode()
    assert "Not known" in page and "no model" in page


def test_a_host_that_does_not_answer_is_said(
    source: Deployment, other: Host, administrator: User, monkeypatch: pytest.MonkeyPatch, client_of: ClientOf
) -> None:
    def refuse(_: Host) -> Any:
        raise ConnectError("Nobody answers.")

    monkeypatch.setattr(look.links, "borrow", refuse)
    check = asked(source, other, administrator)
    look.run_check(check.pk)
    page = client_of(administrator).get(f"/clones/{check.pk}/").content.decode()
    assert "could not be looked at. Nobody answers." in page and "Look once more" in page


def test_recipe_policy_and_secrets_go_with_it_and_the_history_stays(
    source: Deployment, other: Host, administrator: User
) -> None:
    services.set_secret(source, name="HF_TOKEN", value="hf_0123456789", actor=administrator, address="")
    check = asked(source, other, administrator)
    with pytest.raises(services.Refused, match="goes on"):
        services.clone_deployment(check, actor=administrator, address="")
    check.finished_at = timezone.now()
    made = services.clone_deployment(check, actor=administrator, address="")
    assert (made.revision, made.drain_seconds, made.co_tenants) == (source.revision, 7, ["root:Xorg"])
    assert (made.cloned_from, made.started_by, made.placement.host) == (source, "", other)
    assert made.hooks == {}, "they name the old server"
    secret = made.secrets.get()
    assert secret.open() == "hf_0123456789" and secret.sealed != source.secrets.get().sealed
    assert source.launches.count() == 1 and not made.launches.exists()
    assert AuditEntry.objects.get(action="clone deployment").detail["from"] == source.name


def test_only_the_revision_that_was_checked_is_cloned(
    source: Deployment, other: Host, administrator: User, client_of: ClientOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = asked(source, other, administrator)
    newer = make_revision(source.profile, argv=[*source.revision.argv, "--other"], port=31000)
    Deployment.objects.filter(pk=source.pk).update(revision=newer)
    monkeypatch.setattr(look.links, "borrow", FakeHost(idle_machine(), version=["version 0.5.9"]).borrow)
    look.run_check(check.pk)
    page = client_of(administrator).get(f"/clones/{check.pk}/").content.decode()
    assert "Port 30000" in page and "Port 31000" not in page, "it looks for what it was asked for"
    assert f"is at {newer} by now" in page and "Create moved" not in page and "Look once more" in page
    answer = client_of(administrator).post(f"/clones/{check.pk}/create/")
    assert answer.status_code == 409 and f"{check.revision} was checked" in answer.content.decode()
    assert not Deployment.objects.filter(name="moved").exists()
    client_of(administrator).post(f"/clones/{check.pk}/create/", {"again": "yes"})
    assert CloneCheck.objects.order_by("-pk")[0].revision == newer


def test_a_check_of_an_earlier_panel_is_made_again(
    source: Deployment, other: Host, administrator: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look.links, "borrow", FakeHost(idle_machine()).borrow)
    check = asked(source, other, administrator)
    CloneCheck.objects.update(revision=None)
    look.run_check(check.pk)
    check.refresh_from_db()
    assert "not known" in check.problem and check.hint == "Look once more."
    with pytest.raises(services.Refused, match="by now"):
        services.clone_deployment(check, actor=administrator, address="")


def test_who_may_and_what_cannot_be(source: Deployment, other: Host, administrator: User, operator: User) -> None:
    with pytest.raises(PermissionDenied):
        asked(source, other, operator)
    with pytest.raises(services.Refused, match="already a deployment named"):
        asked(source, other, administrator, name=source.name)
    Host.objects.update(look_only=True)
    other.refresh_from_db()
    with pytest.raises(services.Refused, match="look-only"):
        asked(source, other, administrator)


@pytest.mark.long
def test_from_the_page_to_the_deployment(
    source: Deployment, other: Host, administrator: User, viewer: User, client_of: ClientOf
) -> None:
    client = client_of(administrator)
    path = f"/deployments/{source.pk}/clone/"
    page = client.get(path).content.decode()
    assert f"{source.name}-2" in page and "it uses 2 x NVIDIA RTX 6000 Ada now" in page
    answer = client.post(path, {"name": "moved", "host": other.pk})
    assert answer.status_code == 422 and "Tick the cards" in answer.content.decode()
    answer = client.post(path, {"name": "moved", "host": other.pk, "gpus": list(CARDS)})
    check = CloneCheck.objects.get()
    assert answer["Location"] == f"/clones/{check.pk}/"
    assert "Waits for a worker" in client.get(answer["Location"]).content.decode()
    row = Row("Cards", "2 x A", "1 x A", "not ok", "The command may say.").as_data
    CloneCheck.objects.update(finished_at=timezone.now(), rows=[row])
    page = client.get(answer["Location"]).content.decode()
    assert "1 of 1 needs a look" in page and "Create moved on gpu9 as it is" in page
    assert "Create moved" not in client_of(viewer).get(answer["Location"]).content.decode()
    create = f"/clones/{check.pk}/create/"
    assert client_of(viewer).post(create).status_code == 403 and client.get(create).status_code == 405
    assert client.post(create, {"again": "yes"}).status_code == 302 and CloneCheck.objects.count() == 2
    answer = client.post(create)
    made = Deployment.objects.get(name="moved")
    assert answer["Location"] == f"/deployments/{made.pk}/"
    page = client.get(answer["Location"]).content.decode()
    assert "cloned from" in page and source.name in page
    assert client.post(create).status_code == 409, "there is one of that name"
