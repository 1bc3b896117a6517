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


# --- Pages


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
