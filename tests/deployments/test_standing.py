"""Standing approvals: who gives and ends them, what the audit keeps, and where pages show them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.test import Client
from django.utils import timezone

from controlpanel.models import AuditEntry
from deployments import services
from deployments.lifecycle import ServiceState
from deployments.models import Deployment, StandingApproval
from deployments.services import Refused
from deployments.views import standing
from tests.factories import make_deployment

pytestmark = pytest.mark.django_db
ClientOf = Callable[[User], Client]


@pytest.fixture
def chat() -> Deployment:
    return make_deployment(name="chat-prod", crash_starts_per_hour=3)


def allow(chat: Deployment, actor: User, **values: Any) -> StandingApproval:
    return services.allow_after_crash(
        chat, **({"days": 30, "reason": "nights"} | values), actor=actor, address="10.0.0.9"
    )


def test_an_approver_allows_starts_after_a_crash_for_a_time(chat: Deployment, approver: User) -> None:
    made = allow(chat, approver)
    assert made.expires_at is not None and made.given_at is not None
    assert (made.per_hour, made.given_by, made.expires_at - made.given_at) == (3, approver, timedelta(days=30))
    assert made.why_not() == "" and StandingApproval.in_force().get() == made
    entry = AuditEntry.objects.get(action="allow starts after a crash")
    assert entry.actor == approver and entry.target_name == "chat-prod"
    assert entry.detail == {"standing approval": made.pk, "at most an hour": 3, "days": 30, "reason": "nights"}


def test_a_second_one_takes_the_place_of_the_first(chat: Deployment, approver: User) -> None:
    first, second = allow(chat, approver), allow(chat, approver, days=1)
    first.refresh_from_db()
    assert first.why_not() == "approver has revoked it" and StandingApproval.in_force().get() == second


@pytest.mark.parametrize("who", ["viewer", "operator"])
def test_nobody_else_gives_or_ends_one(
    chat: Deployment, approver: User, who: str, request: pytest.FixtureRequest
) -> None:
    person = request.getfixturevalue(who)
    with pytest.raises(PermissionDenied):
        allow(chat, person)
    made = allow(chat, approver)
    with pytest.raises(PermissionDenied):
        services.revoke_standing(made, actor=person, address="")
    assert made.why_not() == ""


@pytest.mark.parametrize(
    ("change", "given", "why"),
    [
        ({"crash_starts_per_hour": 0}, {}, "is to leave it down after a crash"),
        ({"state": ServiceState.RELEASED}, {}, "is released"),
        ({}, {"days": 0}, "0 days cannot be."),
        ({}, {"days": 91}, "91 days cannot be."),
        ({}, {"reason": "x" * 2001}, "longer than 2,000"),
    ],
)
def test_what_is_refused(
    chat: Deployment, approver: User, change: dict[str, Any], given: dict[str, Any], why: str
) -> None:
    Deployment.objects.update(**change)
    with pytest.raises(Refused, match=why):
        allow(chat, approver, **given)
    assert not StandingApproval.objects.exists()


def test_it_is_revoked_once_by_an_approver(chat: Deployment, approver: User, administrator: User) -> None:
    made = allow(chat, approver)
    services.revoke_standing(made, actor=administrator, address="")
    made.refresh_from_db()
    assert made.why_not() == "administrator has revoked it"
    entry = AuditEntry.objects.get(action="revoke standing approval")
    assert (entry.target_name, entry.detail["given by"]) == ("chat-prod", "approver")
    with pytest.raises(Refused, match="ended already"):
        services.revoke_standing(made, actor=administrator, address="")


def test_it_runs_out_and_counts_no_more_without_the_role(chat: Deployment, approver: User) -> None:
    made = allow(chat, approver)
    approver.groups.clear()
    made = StandingApproval.objects.get(pk=made.pk)
    assert made.why_not() == "approver, who gave it, may not approve any more"
    StandingApproval.objects.update(expires_at=timezone.now())
    made.refresh_from_db()
    assert made.why_not() == "it has run out" and not StandingApproval.in_force().exists()


def test_of_what_is_over_it_is_not_listed(chat: Deployment, approver: User) -> None:
    allow(chat, approver)
    Deployment.objects.update(state=ServiceState.RELEASED)
    assert not StandingApproval.in_force().exists()


# --- Tuning leases


def ask_for_lease(chat: Deployment, actor: User, **values: Any) -> StandingApproval:
    place = chat.placement
    usual = {"gpu_uuids": place.gpu_uuids, "hours": 4, "reason": "more context"}
    return services.ask_for_lease(place.host, **(usual | values), actor=actor, address="")


def test_an_operator_asks_and_an_approver_gives(chat: Deployment, operator: User, approver: User) -> None:
    lease = ask_for_lease(chat, operator)
    assert lease.why_not() == "nobody has given it" and lease.covered == [chat]
    services.give_lease(lease, actor=approver, address="")
    lease.refresh_from_db()
    assert lease.why_not() == "" and lease.given_at is not None and lease.expires_at is not None
    assert lease.expires_at - lease.given_at == timedelta(hours=4)
    assert StandingApproval.lease_for(operator, chat) == lease
    with pytest.raises(Refused, match="does not wait"):
        services.give_lease(lease, actor=approver, address="")
    deeds = AuditEntry.objects.filter(action__contains="tuning lease").order_by("pk")
    assert [entry.action for entry in deeds] == ["ask for a tuning lease", "give a tuning lease"]


@pytest.mark.parametrize(
    ("given", "change", "why"),
    [
        ({"hours": 0}, {}, "0 hours cannot be"),
        ({"hours": 13}, {}, "13 hours cannot be"),
        ({"gpu_uuids": []}, {}, "No deployment has all of its cards"),
        ({"gpu_uuids": ["GPU-none"]}, {}, "has no card GPU-none"),
        ({"reason": "x" * 2001}, {}, "longer than 2,000"),
        ({}, {"production": True}, "No deployment has all of its cards"),
    ],
)
def test_a_lease_about_nothing_is_refused(
    chat: Deployment, operator: User, given: dict[str, Any], change: dict[str, Any], why: str
) -> None:
    Deployment.objects.update(**change)
    with pytest.raises(Refused, match=why):
        ask_for_lease(chat, operator, **given)
    assert not StandingApproval.objects.exists()


def test_nobody_gives_it_to_themselves_where_the_policy_says_no(chat: Deployment, administrator: User) -> None:
    lease = ask_for_lease(chat, administrator)
    with pytest.raises(Refused, match="Somebody else must give it: the policy of chat-prod"):
        services.give_lease(lease, actor=administrator, address="")
    Deployment.objects.update(requester_may_approve=True)
    services.give_lease(lease, actor=administrator, address="")
    chat.refresh_from_db()
    assert StandingApproval.lease_for(administrator, chat) == lease


def test_who_may_do_what_with_a_lease(chat: Deployment, viewer: User, operator: User, approver: User) -> None:
    for actor in (viewer, approver):
        with pytest.raises(PermissionDenied):
            ask_for_lease(chat, actor)
    lease = ask_for_lease(chat, operator)
    for actor in (viewer, operator):
        with pytest.raises(PermissionDenied):
            services.give_lease(lease, actor=actor, address="")
    services.revoke_standing(lease, actor=operator, address="")
    assert AuditEntry.objects.filter(action="decline standing approval").exists()
    with pytest.raises(Refused):
        services.give_lease(lease, actor=approver, address="")


# --- Pages


@pytest.mark.long
def test_a_lease_is_asked_for_on_the_page_of_its_host_and_given_on_the_overview(
    chat: Deployment, operator: User, approver: User, client_of: ClientOf
) -> None:
    host = chat.placement.host
    asking, giving = client_of(operator), client_of(approver)
    assert f"/hosts/{host.pk}/lease/" in asking.get(f"/hosts/{host.pk}/").content.decode()
    page = f"/hosts/{host.pk}/lease/"
    assert asking.get(page).status_code == 200 and giving.get(page).status_code == 403
    wrong = asking.post(page, {"hours": "4", "reason": "kept words"})
    assert wrong.status_code == 422 and "Tick the cards" in wrong.content.decode()
    assert "kept words" in wrong.content.decode()
    cards = chat.placement.gpu_uuids
    refused = asking.post(page, {"gpus": cards[:1], "hours": "4", "reason": "kept words"})
    assert refused.status_code == 409 and "kept words" in refused.content.decode()
    assert asking.post(page, {"gpus": cards, "hours": "4", "reason": "more context"}).status_code == 302
    lease = StandingApproval.objects.get()
    shown, own = giving.get("/").content.decode(), asking.get("/").content.decode()
    assert "Tuning lease asked for" in shown and "more context" in shown and "Give it" in shown
    assert "Give it" not in own and "Take it back" in own
    assert asking.post(f"/standing/{lease.pk}/give/").status_code == 403
    assert giving.post(f"/standing/{lease.pk}/give/").status_code == 302
    assert giving.post(f"/standing/{lease.pk}/give/").status_code == 409
    text = asking.get(f"/hosts/{host.pk}/").content.decode()
    assert "starts and restarts" in text and f"/standing/{lease.pk}/revoke/" in text
    assert standing.about(chat) == standing.about(host) == standing.about(None) == [lease]
    form = asking.get(f"/deployments/{chat.pk}/restart/").content.decode()
    assert "By your tuning lease" in form and "restart when clean" in form
    assert asking.post(f"/standing/{lease.pk}/revoke/").status_code == 302


@pytest.mark.long
def test_an_approver_gives_one_on_its_page_and_revokes_it_with_one_click(
    chat: Deployment, approver: User, client_of: ClientOf
) -> None:
    client, page = client_of(approver), f"/deployments/{chat.pk}/"
    assert "at most 3 times an hour, while an approver allows it" in client.get(page).content.decode()
    assert client.get(f"{page}standing/").status_code == 200
    wrong = client.post(f"{page}standing/", {"days": "many", "reason": "kept words"})
    assert wrong.status_code == 422 and "kept words" in wrong.content.decode()
    assert client.post(f"{page}standing/", {"days": "7", "reason": "nights"}).status_code == 302
    made = StandingApproval.objects.get()
    for shown in (page, "/"):
        text = client.get(shown).content.decode()
        assert "Standing approvals" in text and "not used yet" in text and f"/standing/{made.pk}/revoke/" in text
    assert client.post(f"/standing/{made.pk}/revoke/").status_code == 302
    assert client.post(f"/standing/{made.pk}/revoke/").status_code == 409
    assert "Standing approvals" not in client.get("/").content.decode()


def test_a_refusal_keeps_what_was_typed(chat: Deployment, approver: User, client_of: ClientOf) -> None:
    Deployment.objects.update(crash_starts_per_hour=0)
    answer = client_of(approver).post(f"/deployments/{chat.pk}/standing/", {"days": "7", "reason": "kept words"})
    text = answer.content.decode()
    assert answer.status_code == 409 and "leave it down" in text and "kept words" in text


@pytest.mark.parametrize("who", ["viewer", "operator"])
def test_others_see_it_and_have_no_button(
    chat: Deployment, approver: User, client_of: ClientOf, who: str, request: pytest.FixtureRequest
) -> None:
    made = allow(chat, approver)
    client = client_of(request.getfixturevalue(who))
    text = client.get(f"/deployments/{chat.pk}/").content.decode()
    assert "Standing approvals" in text and "/revoke/" not in text and "/standing/" not in text
    assert client.post(f"/standing/{made.pk}/revoke/").status_code == 403
    assert client.get(f"/deployments/{chat.pk}/standing/").status_code == 403
