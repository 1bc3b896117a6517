"""People: invited, given roles and switched off by an administrator, each with its audit entry."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client

from controlpanel import people, signin
from controlpanel.access import Role, roles_of
from controlpanel.models import AuditEntry
from controlpanel.refusal import Refused

pytestmark = pytest.mark.django_db
ClientOf = Callable[[User], Client]
Person = Callable[..., User]


def newest() -> tuple[str, str, str]:
    entry = AuditEntry.objects.order_by("-number").first()
    assert entry is not None
    return entry.action, entry.actor_name, entry.target_name


def fresh(user: User) -> User:
    return User.objects.get(pk=user.pk)


def test_somebody_is_invited_and_comes_in_by_the_link(client_of: ClientOf, administrator: User) -> None:
    page = client_of(administrator).get("/").content.decode()
    assert 'href="/people/"' in page
    posted = {"name": "ben", "roles": ["viewer", "approver"]}
    page = client_of(administrator).post("/people/add/", posted).content.decode()
    found = re.search(r"http://testserver(/sign-in/[^<\s]+)", page)
    assert found is not None and newest() == ("made one-time link", "administrator", "ben")
    browser = Client()
    browser.post(found[1], {"password": "a-good-long-one", "password_again": "a-good-long-one"})
    assert browser.get("/").status_code == 200
    assert roles_of(User.objects.get(username="ben")) == {Role.VIEWER, Role.APPROVER}
    assert found[1] not in client_of(administrator).get("/people/").content.decode(), "shown once"
    assert not any(found[1].split("/")[2] in entry.detail_json for entry in AuditEntry.objects.all())


@pytest.mark.parametrize(
    ("posted", "words"),
    [
        ({"name": "Administrator", "roles": ["viewer"]}, "There is already somebody named"),
        ({"name": "ben"}, "Tick at least one role"),
        ({"name": "ben", "roles": ["king"]}, "king"),
        ({"name": "", "roles": ["viewer"]}, "required"),
    ],
)
def test_what_cannot_be_is_said_in_the_form(
    client_of: ClientOf, administrator: User, posted: dict[str, object], words: str
) -> None:
    answer = client_of(administrator).post("/people/add/", posted)
    assert answer.status_code in (409, 422) and words in answer.content.decode() and User.objects.count() == 1


def test_roles_are_changed_and_somebody_is_switched_off_and_on(
    client_of: ClientOf, administrator: User, person: Person
) -> None:
    ben = person("ben", "viewer")
    client, own = client_of(administrator), client_of(ben)
    client.post(f"/people/{ben.pk}/roles/", {"roles": ["operator"]})
    assert roles_of(fresh(ben)) == {Role.OPERATOR} and newest() == ("change roles", "administrator", "ben")
    client.post(f"/people/{ben.pk}/switch/", {"on": "no"})
    assert not fresh(ben).is_active and newest() == ("switch person off", "administrator", "ben")
    assert own.get("/").status_code == 302, "the session has ended too"
    assert client.post(f"/people/{ben.pk}/link/").status_code == 409
    client.post(f"/people/{ben.pk}/switch/", {"on": "yes"})
    assert fresh(ben).is_active and newest() == ("switch person on", "administrator", "ben")
    assert client.post(f"/people/{ben.pk}/roles/", {}).status_code == 409 and roles_of(fresh(ben))


def test_nobody_changes_themselves_and_the_last_administrator_stays(administrator: User, person: Person) -> None:
    ben = person("ben", "administrator")
    with pytest.raises(Refused, match="themselves"):
        people.set_roles(administrator, roles=[Role.VIEWER], actor=administrator, address="")
    with pytest.raises(Refused, match="themselves"):
        people.switch(administrator, on=False, actor=administrator, address="")
    invited, _ = people.add("eve", roles=[Role.ADMINISTRATOR], actor=ben, address="")
    people.switch(administrator, on=False, actor=ben, address="")
    with pytest.raises(Refused, match="last administrator"):
        people.switch(ben, on=False, actor=invited, address="")
    with pytest.raises(Refused, match="last administrator"):
        people.set_roles(ben, roles=[Role.VIEWER], actor=invited, address="")
    assert fresh(ben).is_active and Role.ADMINISTRATOR in roles_of(fresh(ben))


@pytest.mark.parametrize("role", ["viewer", "operator", "approver"])
def test_only_administrators(client_of: ClientOf, person: Person, role: str) -> None:
    client = client_of(person("somebody", role))
    assert client.get("/people/").status_code == 403
    assert client.post("/people/add/", {"name": "x", "roles": ["viewer"]}).status_code == 403
    for deed in ("link", "roles", "switch"):
        assert client.post(f"/people/1/{deed}/").status_code == 403
    assert User.objects.count() == 1 and 'href="/people/"' not in client.get("/").content.decode()


def test_an_earlier_link_works_no_more_when_another_was_made(administrator: User, person: Person) -> None:
    ben = person("ben", Role.VIEWER)
    first, second = signin.make_link(user=ben), signin.make_link(user=ben)
    with pytest.raises(signin.LinkSpent):
        signin.find_link(first.token)
    assert signin.find_link(second.token).user == ben


def test_who_was_switched_off_comes_in_neither_by_a_link_nor_by_an_old_session(
    client_of: ClientOf, administrator: User, person: Person
) -> None:
    ben = person("ben", Role.VIEWER)
    browser, link = client_of(ben), signin.make_link(user=ben)
    assert browser.get("/").status_code == 200
    people.switch(ben, on=False, actor=administrator, address="")
    people.switch(ben, on=True, actor=administrator, address="")
    assert browser.get("/").status_code == 302
    with pytest.raises(signin.LinkSpent):
        signin.find_link(link.token)
