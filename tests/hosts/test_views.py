"""The host pages: what they show, what they refuse, and that a refusal keeps what was typed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from controlpanel.models import AuditEntry
from hosts.models import Host, HostKey
from tests.factories import make_deployment, make_gpu, make_host, make_host_test, make_job, make_key

pytestmark = pytest.mark.django_db
ClientOf = Callable[[User], Client]

NEW = {
    "name": "gpu-box",
    "transport": "ssh",
    "address": "10.1.1.1",
    "port": "22",
    "user": "root",
    "key_source": "panel",
}


def test_the_list_names_every_host_and_its_problem(client_of: ClientOf, viewer: User) -> None:
    make_host(name="good-box")
    make_host(name="bad-box", reach="unreachable", problem="It did not answer within 10 s.")
    page = client_of(viewer).get("/hosts/").content.decode()
    assert "good-box" in page and "bad-box" in page
    assert "It did not answer within 10 s." in page and "Unreachable" in page


def test_the_empty_list_says_what_to_do_next(client_of: ClientOf, administrator: User, viewer: User) -> None:
    page = client_of(administrator).get("/hosts/").content.decode()
    assert "Add a host by SSH" in page and "Add a container of a Proxmox host" in page and "Add this machine" in page
    assert "Add a host by SSH" not in client_of(viewer).get("/hosts/").content.decode()


@pytest.mark.parametrize("path", ["/hosts/", "/hosts/1/", "/hosts/add/"])
def test_strangers_and_the_signed_out_get_nothing(
    client: Client, client_of: ClientOf, stranger: User, path: str
) -> None:
    make_host(pk=1)
    assert client.get(path).status_code == 302
    assert client_of(stranger).get(path).status_code == 403


def test_only_an_administrator_adds_a_host(client_of: ClientOf, operator: User, approver: User) -> None:
    for person in (operator, approver):
        assert client_of(person).post("/hosts/add/", NEW).status_code == 403
    assert not Host.objects.exists()


def test_a_new_host_is_saved_audited_and_shown(client_of: ClientOf, administrator: User) -> None:
    answer = client_of(administrator).post("/hosts/add/", NEW)
    host = Host.objects.get()
    assert answer.status_code == 302 and answer["Location"] == f"/hosts/{host.pk}/"
    assert (host.name, host.address, host.created_by) == ("gpu-box", "10.1.1.1", administrator)
    assert AuditEntry.objects.filter(action="add host", target_name="gpu-box").exists()


def test_a_wrong_address_is_refused_in_words_and_stays_in_the_form(client_of: ClientOf, administrator: User) -> None:
    answer = client_of(administrator).post("/hosts/add/", NEW | {"address": "ssh://10.1.1.1/"})
    page = answer.content.decode()
    assert answer.status_code == 422 and not Host.objects.exists()
    assert "ssh://10.1.1.1/" in page and "invalid-feedback" in page


def test_fields_of_another_transport_are_forgotten(client_of: ClientOf, administrator: User) -> None:
    client_of(administrator).post("/hosts/add/", NEW | {"transport": "local", "vmid": "129"})
    host = Host.objects.get()
    assert (host.transport, host.address, host.vmid) == ("local", "", None)


@pytest.mark.parametrize(("transport", "sudo"), [("ssh", True), ("local", True), ("pct", False)])
def test_sudo_is_offered_where_its_advice_is_given(
    client_of: ClientOf, administrator: User, transport: str, sudo: bool
) -> None:
    node = make_host(name="node")
    form = NEW | {
        "transport": transport,
        "via": str(node.pk) if transport == "pct" else "",
        "vmid": "129",
        "sudo": "on",
    }
    assert client_of(administrator).post("/hosts/add/", form).status_code == 302
    assert Host.objects.get(name="gpu-box").sudo == sudo
    page = client_of(administrator).get("/hosts/add/?transport=local").content.decode()
    assert 'data-shows-for="transport=ssh|local"' in page


def test_editing_refuses_a_loop_and_keeps_the_form(client_of: ClientOf, administrator: User) -> None:
    first = make_host(name="first")
    second = make_host(name="second", via=first)
    answer = client_of(administrator).post(f"/hosts/{first.pk}/edit/", NEW | {"name": "first", "via": str(second.pk)})
    assert answer.status_code == 409 and "reached through itself" in answer.content.decode()
    first.refresh_from_db()
    assert first.via is None


def test_an_offered_key_shows_the_fingerprint_and_how_to_compare(client_of: ClientOf, approver: User) -> None:
    host = make_host()
    key = make_key(host)
    page = client_of(approver).get(f"/hosts/{host.pk}/").content.decode()
    assert key.fingerprint in page
    assert "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub" in page


def test_a_key_is_trusted_only_with_the_fingerprint_of_the_host(client_of: ClientOf, approver: User) -> None:
    host = make_host()
    key = make_key(host)
    path = f"/hosts/{host.pk}/keys/{key.pk}/trust/"
    wrong = client_of(approver).post(path, {"fingerprint": "SHA256:somethingelse"})
    assert wrong.status_code == 409 and "SHA256:somethingelse" in wrong.content.decode()
    assert not HostKey.objects.exclude(pinned_at=None).exists()

    whole_line = f"256 {key.fingerprint} root@gpu (ED25519)"
    assert client_of(approver).post(path, {"fingerprint": whole_line}).status_code == 302
    key.refresh_from_db()
    assert key.pinned_at is not None and key.pinned_by == approver


def test_who_trusted_a_key_is_named_also_after_they_left(
    client_of: ClientOf, approver: User, administrator: User
) -> None:
    host = make_host()
    key = make_key(host)
    client_of(approver).post(f"/hosts/{host.pk}/keys/{key.pk}/trust/", {"fingerprint": key.fingerprint})
    client = client_of(administrator)
    assert "<dd>approver, <time" in client.get(f"/hosts/{host.pk}/").content.decode()
    approver.delete()
    assert "<dd>approver, whose account was deleted since, <time" in client.get(f"/hosts/{host.pk}/").content.decode()

    unknown = make_key(make_host(), pinned_at=timezone.now())
    page = client.get(f"/hosts/{unknown.host_id}/").content.decode()
    assert "<dd>the panel itself when it was set up, <time" in page


def test_a_viewer_neither_sees_nor_may_press_test(client_of: ClientOf, viewer: User, operator: User) -> None:
    host = make_host()
    make_host_test(host)
    for person, sees, status in ((viewer, False, 403), (operator, True, 302)):
        client = client_of(person)
        for path in (f"/hosts/{host.pk}/", f"/hosts/{host.pk}/part/test/"):
            assert ("again</button>" in client.get(path).content.decode()) == sees
        assert client.post(f"/hosts/{host.pk}/test/").status_code == status


def test_an_operator_neither_sees_nor_may_press_trust(client_of: ClientOf, operator: User) -> None:
    host = make_host()
    key = make_key(host)
    client = client_of(operator)
    assert "Compare and trust" not in client.get(f"/hosts/{host.pk}/").content.decode()
    answer = client.post(f"/hosts/{host.pk}/keys/{key.pk}/trust/", {"fingerprint": key.fingerprint})
    assert answer.status_code == 403


def test_findings_come_with_their_fix_and_as_a_part_of_their_own(client_of: ClientOf, viewer: User) -> None:
    host = make_host()
    finding = {"label": "Cards", "status": "not ok", "detail": "No driver answers.", "hint": "Load the nvidia module."}
    make_host_test(host, findings=[finding])
    part = client_of(viewer).get(f"/hosts/{host.pk}/part/test/").content.decode()
    assert "No driver answers." in part and "Load the nvidia module." in part
    assert "<html" not in part
    assert client_of(viewer).get(f"/hosts/{host.pk}/part/nonsense/").status_code == 404


def test_a_test_says_of_which_moment_its_findings_are(client_of: ClientOf, viewer: User) -> None:
    host = make_host()
    at = timezone.now() - timedelta(hours=3)
    make_host_test(host, requested_at=at, started_at=at, finished_at=at, findings=[])
    part = client_of(viewer).get(f"/hosts/{host.pk}/part/test/").content.decode()
    said = part.partition("This was seen at")[2]
    assert at.strftime("%H:%M:%S</time>") in said.partition(";")[0] and "until the next test" in said


def test_a_number_that_was_not_read_is_unknown_and_never_zero(client_of: ClientOf, viewer: User) -> None:
    host = make_host()
    make_gpu(host, used_mib=None, unread_reason="nvidia-smi did not answer")
    page = client_of(viewer).get(f"/hosts/{host.pk}/").content.decode()
    assert "unknown</span> of 48.0 GiB" in page and "nvidia-smi did not answer" in page


def test_an_administrator_writes_a_baseline(client_of: ClientOf, administrator: User, approver: User) -> None:
    host = make_host()
    gpu = make_gpu(host, baseline_mib=None, used_mib=700)
    path = f"/hosts/{host.pk}/gpus/{gpu.pk}/baseline/"
    client = client_of(administrator)
    assert client_of(approver).post(path, {"mib": "7"}).status_code == 403
    assert client.post(path, {"mib": "-1"}).status_code == 422
    asked = client.post(path, {"mib": "700"})
    page = asked.content.decode()
    assert asked.status_code == 409 and "700 MiB is more than the 64 MiB" in page
    assert 'name="confirmed_mib" value="700"' in page and "700 MiB is free" in page
    gpu.refresh_from_db()
    assert gpu.baseline_mib is None
    assert client.post(path, {"mib": "700", "confirmed_mib": "700"}).status_code == 302
    gpu.refresh_from_db()
    assert (gpu.baseline_mib, gpu.baseline_by) == (700, "administrator")
    page = client.get(f"/hosts/{host.pk}/").content.decode()
    assert "Baseline (in use when nobody holds the card): 700 MiB, written by administrator" in page


def test_who_may_not_edit_sees_the_baseline_only(client_of: ClientOf, approver: User) -> None:
    host = make_host()
    make_gpu(host, baseline_mib=None)
    page = client_of(approver).get(f"/hosts/{host.pk}/").content.decode()
    assert "learnt from a reading of at most 64 MiB" in page and "/baseline/" not in page


def test_a_used_host_is_not_removed_and_the_page_says_by_whom(client_of: ClientOf, administrator: User) -> None:
    host = make_host()
    make_deployment(host=host, name="chat-prod")
    answer = client_of(administrator).post(f"/hosts/{host.pk}/delete/")
    assert answer.status_code == 409 and "chat-prod" in answer.content.decode()
    unused = make_host()
    assert client_of(administrator).post(f"/hosts/{unused.pk}/delete/").status_code == 302
    assert list(Host.objects.all()) == [host]


@pytest.mark.parametrize("verb", ["test/", "delete/", "keys/1/trust/", "keys/1/forget/", "gpus/1/baseline/"])
def test_what_changes_something_is_never_done_by_a_get(client_of: ClientOf, administrator: User, verb: str) -> None:
    host = make_host()
    assert client_of(administrator).get(f"/hosts/{host.pk}/{verb}").status_code == 405


def order(client: Client, host: Host) -> list[str]:
    """What stands on a host's page, from top to bottom."""
    page = client.get(f"/hosts/{host.pk}/").content.decode()
    return sorted((place for place in ('id="keys"', 'id="test"', 'id="cards"', 'id="servers"')), key=page.index)


OK = {"label": "Connection", "status": "ok", "detail": "", "hint": ""}


def test_what_a_host_does_comes_before_steps_that_are_done(client_of: ClientOf, viewer: User) -> None:
    host = make_host()
    make_gpu(host)
    make_key(host, pinned_at=timezone.now())
    make_host_test(host, findings=[OK])
    assert order(client_of(viewer), host) == ['id="cards"', 'id="servers"', 'id="keys"', 'id="test"']


@pytest.mark.parametrize("missing", ["test", "trust", "reach", "cards", "finding"])
def test_steps_that_are_to_be_done_come_first(client_of: ClientOf, viewer: User, missing: str) -> None:
    host = make_host(reach="unreachable" if missing == "reach" else "reachable")
    make_key(host, pinned_at=None if missing == "trust" else timezone.now())
    if missing != "cards":
        make_gpu(host)
    if missing != "test":
        make_host_test(host, findings=[OK | {"status": "not ok" if missing == "finding" else "ok"}])
    assert order(client_of(viewer), host) == ['id="keys"', 'id="test"', 'id="cards"', 'id="servers"']


def test_the_curve_of_the_memory(client_of: ClientOf, viewer: User, stranger: User) -> None:
    host = make_host()
    make_gpu(host)
    path = f"/hosts/{host.pk}/memory/"
    assert f'data-memory="{path}"' in client_of(viewer).get(f"/hosts/{host.pk}/").content.decode()
    told = client_of(viewer).get(path, {"span": "day"}).json()
    assert told["step"] == 60 and told["points"] in (1441, 1442) and told["cards"][0]["label"] == "GPU 0"
    piece = client_of(viewer).get(path, {"span": "day", "since": "99", "until": "9999999999999"}).json()
    assert piece["step"] == 1800, "no more than a month, and nothing of the future"
    assert client_of(stranger).get(path, {"span": "day"}).status_code == 403


@pytest.mark.parametrize(("days", "words"), [(1, "1 day"), (30, "30 days"), (90, "90 days")])
def test_the_memory_goes_as_far_back_as_it_is_kept(
    client_of: ClientOf, viewer: User, settings: Any, days: int, words: str
) -> None:
    settings.MEMORY_KEPT_SECONDS = settings.MEMORY_KEPT_SECONDS | {60: days * 86400}
    host = make_host()
    make_gpu(host)
    page = client_of(viewer).get(f"/hosts/{host.pk}/").content.decode()
    assert f'data-span="all" aria-pressed="false">{words}</button>' in page
    told = client_of(viewer).get(f"/hosts/{host.pk}/memory/", {"span": "all"}).json()
    assert told["points"] * told["step"] == pytest.approx(days * 86400, abs=3 * told["step"])
    assert f"24 hours or {words}." in client_of(viewer).get(f"/hosts/{host.pk}/memory/").json()["error"]


@pytest.mark.parametrize("query", [{}, {"span": "year"}, {"span": "day", "since": "x"}])
def test_a_time_that_the_curve_does_not_know(client_of: ClientOf, viewer: User, query: dict[str, str]) -> None:
    answer = client_of(viewer).get(f"/hosts/{make_host().pk}/memory/", query)
    assert answer.status_code == 422 and "15 minutes" in answer.json()["error"]


def test_maintenance_from_the_page(client_of: ClientOf, administrator: User, viewer: User) -> None:
    host = make_host()
    client, path = client_of(administrator), f"/hosts/{host.pk}/"
    page = client.get(path).content.decode()
    assert f'action="{path}maintenance/"' in page
    assert f'action="{path}maintenance/"' not in client_of(viewer).get(path).content.decode()
    asked = client.post(f"{path}maintenance/", {"reason": " "})
    assert asked.status_code == 422 and "Say why" in asked.content.decode()
    assert client.post(f"{path}maintenance/", {"reason": "new driver"}).status_code == 302
    page = client_of(viewer).get(path).content.decode()
    assert "In maintenance: new driver" in page and f'action="{path}maintenance/end/"' not in page
    assert "new driver" in client_of(viewer).get("/hosts/").content.decode()
    assert client.post(f"{path}maintenance/end/").status_code == 302
    assert "In maintenance" not in client.get(path).content.decode()


def test_maintenance_is_refused_in_words_while_a_job_is_at_work(client_of: ClientOf, administrator: User) -> None:
    deployment = make_deployment()
    make_job(deployment)
    host = deployment.placement.host
    answer = client_of(administrator).post(f"/hosts/{host.pk}/maintenance/", {"reason": "new driver"})
    page = answer.content.decode()
    assert answer.status_code == 409 and "is at work" in page and "new driver" in page
