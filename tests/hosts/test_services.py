"""What people may do with hosts; each deed with its audit entry."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.utils import timezone

from controlpanel import audit
from controlpanel.models import AuditEntry
from deployments.models import Launch
from hosts import services, tasks
from hosts.keys import panel_key_path
from hosts.models import Gpu, Host, HostKey, HostTest
from hosts.services import Refused
from hosts.transport.factory import link_signature
from tests.factories import make_deployment, make_gpu, make_host, make_job, make_key, make_launch

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def rung(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    bells: list[int] = []
    monkeypatch.setattr(tasks, "ring_test", bells.append)
    return bells


def actions() -> list[str]:
    return list(AuditEntry.objects.order_by("number").values_list("action", flat=True))


def test_adding_and_changing_a_host(administrator: User) -> None:
    host = services.register_host(Host(name="gpu1", address="10.0.0.1"), actor=administrator, address="")
    assert host.created_by == administrator
    with pytest.raises(Refused, match="already a host named gpu1"):
        services.register_host(Host(name="gpu1", address="10.0.0.2"), actor=administrator, address="")
    host.name = "gpu2"
    services.update_host(host, actor=administrator, address="")
    assert Host.objects.get().name == "gpu2"
    assert actions() == ["add host", "change host"]


@pytest.mark.parametrize(("field", "value"), [("address", "10.9.9.9"), ("port", 2222), ("via", "node")])
def test_a_host_at_another_place_is_not_trusted_any_more(administrator: User, field: str, value: Any) -> None:
    host = make_host()
    make_key(host, pinned_at=timezone.now())
    setattr(host, field, make_host() if value == "node" else value)
    services.update_host(host, actor=administrator, address="")
    host.refresh_from_db()
    assert not host.keys.exists() and host.reach == Host.Reach.UNKNOWN


def test_a_new_name_keeps_the_trust(administrator: User) -> None:
    host = make_host()
    make_key(host, pinned_at=timezone.now())
    host.name = "other"
    services.update_host(host, actor=administrator, address="")
    assert host.keys.count() == 1


def test_no_host_is_reached_through_itself(administrator: User) -> None:
    one = make_host()
    two = make_host(via=one)
    one.via = two
    with pytest.raises(Refused, match="through itself"):
        services.update_host(one, actor=administrator, address="")


def test_removing_a_host_that_nothing_uses(administrator: User) -> None:
    used, node = make_deployment().placement.host, make_host()
    make_host(via=node)
    with pytest.raises(Refused, match="is used by"):
        services.remove_host(used, actor=administrator, address="")
    with pytest.raises(Refused, match="reached through"):
        services.remove_host(node, actor=administrator, address="")
    services.remove_host(make_host(name="old"), actor=administrator, address="")
    assert not Host.objects.filter(name="old").exists() and actions() == ["remove host"]


def test_one_test_of_a_host_at_a_time(
    operator: User, rung: list[int], django_capture_on_commit_callbacks: Callable[..., Any]
) -> None:
    host = make_host()
    with django_capture_on_commit_callbacks(execute=True):
        first = services.request_test(host, actor=operator, address="")
        assert services.request_test(host, actor=operator, address="") == first
    assert rung == [first.pk]
    HostTest.objects.update(requested_at=timezone.now() - timedelta(minutes=3))
    second = services.request_test(host, actor=operator, address="")
    assert second != first, "its worker has died"
    HostTest.objects.update(finished_at=timezone.now())
    assert services.request_test(host, actor=operator, address="") != second


# --- Keys


def trust(key: HostKey, actor: User, typed: str | None = None) -> None:
    services.trust_key(key, typed_fingerprint=typed or key.fingerprint, actor=actor, address="")


@pytest.mark.parametrize("dress", ["{}", "  {}\n", "SHA256:{}"])
def test_trusting_the_key_that_was_compared(approver: User, dress: str) -> None:
    key = make_key(make_host(problem="unknown key", hint="compare"))
    trust(key, approver, dress.format(key.fingerprint.removeprefix("SHA256:")))
    key.refresh_from_db()
    key.host.refresh_from_db()
    assert key.pinned_at is not None and key.pinned_by == approver and key.host.problem == ""
    assert actions() == ["trust host key"]


@pytest.mark.parametrize("typed", ["SHA256:other", " ", "SHA256:", "3Rv0"])
def test_another_fingerprint_is_not_trusted(approver: User, typed: str) -> None:
    key = make_key(make_host())
    with pytest.raises(Refused, match="was not trusted"):
        trust(key, approver, typed)
    key.refresh_from_db()
    assert key.pinned_at is None and actions() == []


def test_a_new_key_replaces_the_old_one_of_its_type(approver: User) -> None:
    host = make_host()
    make_key(host, fingerprint="SHA256:old", pinned_at=timezone.now())
    make_key(host, key_type="ssh-rsa", fingerprint="SHA256:rsa", pinned_at=timezone.now())
    trust(make_key(host, fingerprint="SHA256:new"), approver)
    assert set(host.keys.values_list("fingerprint", flat=True)) == {"SHA256:new", "SHA256:rsa"}
    assert "SHA256:old" in AuditEntry.objects.get().detail_json


def test_forgetting_a_key(approver: User) -> None:
    key = make_key(make_host(), pinned_at=timezone.now())
    services.forget_key(key, actor=approver, address="")
    assert not HostKey.objects.exists() and actions() == ["forget host key"]


def test_the_panels_own_key_can_be_shown() -> None:
    panel_key_path(Path(settings.DATA_DIR))
    assert services.panel_public_key().startswith("ssh-ed25519 ")


# --- Baselines


@pytest.mark.parametrize(
    ("mib", "total", "good"), [(0, 50, True), (49, 50, True), (50, 50, False), (-1, None, False), (64, None, True)]
)
def test_writing_a_baseline(administrator: User, mib: int, total: int | None, good: bool) -> None:
    gpu = make_gpu(make_host(), total_mib=total, baseline_mib=None)
    if not good:
        with pytest.raises(Refused, match="cannot be the baseline"):
            services.confirm_baseline(gpu, mib=mib, actor=administrator, address="")
        assert Gpu.objects.get().baseline_mib is None
        return
    services.confirm_baseline(gpu, mib=mib, actor=administrator, address="")
    gpu.refresh_from_db()
    assert (gpu.baseline_mib, gpu.baseline_by) == (mib, "administrator") and actions() == ["confirm baseline"]


@pytest.mark.parametrize(("display", "ceiling"), [(False, 64), (True, 1024)])
def test_above_the_ceiling_the_very_number_is_confirmed(administrator: User, display: bool, ceiling: int) -> None:
    gpu = make_gpu(make_host(), display=display, baseline_mib=3)
    services.confirm_baseline(gpu, mib=ceiling, actor=administrator, address="")
    for confirmed in (None, ceiling, ceiling + 2):
        with pytest.raises(services.NotConfirmed, match=f"more than the {ceiling:,} MiB"):
            services.confirm_baseline(gpu, mib=ceiling + 1, confirmed_mib=confirmed, actor=administrator, address="")
    assert Gpu.objects.get().baseline_mib == ceiling
    services.confirm_baseline(gpu, mib=ceiling + 1, confirmed_mib=ceiling + 1, actor=administrator, address="")
    assert Gpu.objects.get().baseline_mib == ceiling + 1
    told = [entry.detail for entry in AuditEntry.objects.order_by("number")]
    assert [(row["mib"], row["uuid"]) for row in told] == [(ceiling, gpu.uuid), (ceiling + 1, gpu.uuid)]


# --- Who may, and no deed without its entry


def deeds(actor: User) -> dict[str, Callable[[], object]]:
    host = make_host()
    key, gpu = make_key(host), make_gpu(host, baseline_mib=None)
    who: dict[str, Any] = {"actor": actor, "address": ""}
    return {
        "register": lambda: services.register_host(Host(name="new", address="10.0.0.1"), **who),
        "update": lambda: services.update_host(host, **who),
        "test": lambda: services.request_test(host, **who),
        "trust": lambda: services.trust_key(key, typed_fingerprint=key.fingerprint, **who),
        "forget": lambda: services.forget_key(key, **who),
        "baseline": lambda: services.confirm_baseline(gpu, mib=1, **who),
        "remove": lambda: services.remove_host(host, **who),
    }


@pytest.mark.parametrize(
    ("who", "may"),
    [
        ("stranger", set()),
        ("viewer", set()),
        ("operator", {"test"}),
        ("approver", {"test", "trust", "forget"}),
    ],
)
def test_who_may(request: pytest.FixtureRequest, who: str, may: set[str]) -> None:
    for name, deed in deeds(request.getfixturevalue(who)).items():
        if name in may:
            deed()
        else:
            with pytest.raises(PermissionDenied):
                deed()


def test_no_audit_entry_no_deed(administrator: User, monkeypatch: pytest.MonkeyPatch) -> None:
    todo = deeds(administrator)

    def rows() -> list[object]:
        return [list(model.objects.order_by("pk").values()) for model in (Host, HostKey, HostTest, Gpu)]

    before = rows()

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no audit entry")

    monkeypatch.setattr(audit, "record", fail)
    for deed in todo.values():
        with pytest.raises(RuntimeError):
            deed()
    assert rows() == before


def test_a_host_does_not_move_while_something_of_ours_runs_there(administrator: User) -> None:
    launch = make_launch(make_deployment())
    host = launch.deployment.placement.host
    Launch.objects.filter(pk=launch.pk).update(host=host, ended_at=None)
    host.address = "192.0.2.77"
    with pytest.raises(services.Refused, match="still runs on"):
        services.update_host(host, actor=administrator, address="")
    assert Host.objects.get(pk=host.pk).address != "192.0.2.77"
    Launch.objects.update(ended_at=timezone.now())
    services.update_host(host, actor=administrator, address="")
    assert not host.gpus.filter(present=True).exists(), "the cards of the old place are not those of the new one"


def test_a_link_made_with_a_key_that_was_forgotten_since_is_lent_no_more(administrator: User) -> None:
    host = make_host()
    key = make_key(host, pinned_at=timezone.now())
    before = link_signature(host)
    assert link_signature(host) == before
    services.forget_key(key, actor=administrator, address="")
    assert link_signature(host) != before


def test_maintenance_begins_with_a_reason_and_ends(administrator: User) -> None:
    host = make_host()
    services.begin_maintenance(host, reason="new driver", actor=administrator, address="")
    services.begin_maintenance(host, reason="new driver", actor=administrator, address="")
    host.refresh_from_db()
    assert host.maintenance == "new driver"
    services.end_maintenance(host, actor=administrator, address="")
    host.refresh_from_db()
    assert host.maintenance == ""
    entries = [(entry.action, entry.detail["reason"]) for entry in AuditEntry.objects.order_by("number")]
    assert entries == [("begin maintenance", "new driver"), ("end maintenance", "")], "once each"


@pytest.mark.parametrize("where", ["host", "container"])
def test_no_maintenance_while_a_job_is_at_work_there(administrator: User, where: str) -> None:
    host = make_host()
    inside = make_host(transport="pct", via=host, vmid=101)
    make_job(make_deployment(host=host if where == "host" else inside, gpus=[]))
    with pytest.raises(Refused, match="is at work"):
        services.begin_maintenance(host, reason="new driver", actor=administrator, address="")
    host.refresh_from_db()
    assert host.maintenance == ""


def test_only_an_administrator_begins_maintenance(approver: User) -> None:
    with pytest.raises(PermissionDenied):
        services.begin_maintenance(make_host(), reason="x", actor=approver, address="")
    with pytest.raises(PermissionDenied):
        services.end_maintenance(make_host(), actor=approver, address="")
