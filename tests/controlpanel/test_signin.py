"""Getting in: links that work once, passwords that cannot be guessed, pages that are closed."""

import re
import threading
import uuid
from collections.abc import Callable
from datetime import timedelta

import pytest
import time_machine
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection
from django.test import Client
from django.urls import get_resolver
from django.utils import timezone

from controlpanel import audit, signin
from controlpanel.access import Action, Role, may
from controlpanel.models import AuditEntry, FailedSignIn, OneTimeLink

PASSWORD = "correct horse battery"
GOOD = {"user_name": "ana", "password": "a-good-long-one", "password_again": "a-good-long-one"}


@pytest.fixture
def link(db: None) -> signin.NewLink:
    return signin.make_link()


def test_only_the_hash_of_a_token_is_stored(link: signin.NewLink) -> None:
    stored = OneTimeLink.objects.get()

    assert len(link.token) >= 43 and link.token not in stored.token_hash
    assert not AuditEntry.objects.filter(detail_json__contains=link.token).exists()


def test_looking_at_a_link_does_not_use_it_up(client: Client, link: signin.NewLink) -> None:
    for _ in range(2):
        assert client.get(link.path).status_code == 200
        assert client.head(link.path).status_code == 405

    assert OneTimeLink.objects.get().used_at is None


def test_the_first_administrator_gets_every_role_and_is_signed_in(client: Client, link: signin.NewLink) -> None:
    answer = client.post(link.path, GOOD)

    user = User.objects.get(username="ana")
    assert (answer.status_code, answer["Location"]) == (302, "/")
    assert all(may(user, action) for action in Action)
    assert client.session["_auth_user_id"] == str(user.pk)
    assert AuditEntry.objects.filter(action="used one-time link", actor=user).exists()
    assert signin.somebody_can_sign_in()


def test_before_anybody_exists_the_sign_in_page_says_where_the_link_is(client: Client, db: None) -> None:
    page = client.get("/login/").content.decode()
    assert "in the terminal where the panel runs" in page and 'type="password"' not in page

    User.objects.create_user("ana")
    page = client.get("/login/").content.decode()
    assert "terminal" not in page and 'type="password"' in page


def test_a_used_link_is_spent(client: Client, link: signin.NewLink) -> None:
    client.post(link.path, GOOD)

    for answer in (Client().get(link.path), Client().post(link.path, GOOD | {"user_name": "eve"})):
        assert answer.status_code == 410
    assert not User.objects.filter(username="eve").exists()


def test_an_old_link_is_spent(client: Client, link: signin.NewLink) -> None:
    with time_machine.travel(timezone.now() + signin.LINK_LIFE + timedelta(seconds=1)):
        assert client.get(link.path).status_code == 410


@pytest.mark.parametrize("token", ["x", "é" * 20, "a" * 500])
def test_a_made_up_link_is_spent(client: Client, db: None, token: str) -> None:
    assert client.get(f"/sign-in/{token}/").status_code == 410


@pytest.mark.parametrize(
    "change",
    [
        {"password": "short", "password_again": "short"},
        {"password": "12345678901", "password_again": "12345678901"},
        {"password": "password123", "password_again": "password123"},
        {"password_again": "another-long-one"},
        {"user_name": "a b"},
        {"user_name": ""},
    ],
)
def test_a_bad_form_does_not_use_the_link_up(client: Client, link: signin.NewLink, change: dict[str, str]) -> None:
    answer = client.post(link.path, GOOD | change)

    assert answer.status_code == 200 and not User.objects.exists()
    assert client.post(link.path, GOOD).status_code == 302


def test_a_taken_name_is_said_and_the_link_still_works(client: Client, link: signin.NewLink, viewer: User) -> None:
    answer = client.post(link.path, GOOD | {"user_name": "Viewer"})

    assert "taken" in answer.content.decode()
    assert client.post(link.path, GOOD).status_code == 302


@pytest.mark.django_db(transaction=True)
def test_of_many_who_use_a_link_at_once_one_gets_in() -> None:
    link = signin.make_link()
    results: list[str] = []
    barrier = threading.Barrier(6)

    def use(number: int) -> None:
        barrier.wait(10)
        try:
            signin.use_link(link.token, user_name=f"user{number}", password="a-good-long-one", address="")
            results.append("in")
        except (signin.LinkSpent, IntegrityError):
            results.append("out")
        finally:
            connection.close()

    threads = [threading.Thread(target=use, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(results) == ["in"] + ["out"] * 5
    assert User.objects.count() == 1


def test_an_invited_person_chooses_a_password(client: Client, capsys: pytest.CaptureFixture[str], db: None) -> None:
    call_command("signinlink", user="ben", role=["operator"], url="https://panel.example.com")
    url = capsys.readouterr().out.strip()
    path = url.removeprefix("https://panel.example.com")

    assert "ben" in client.get(path).content.decode()
    client.post(path, {"password": "a-good-long-one", "password_again": "a-good-long-one"})
    ben = User.objects.get(username="ben")
    assert ben.check_password("a-good-long-one") and may(ben, Action.ASK) and not may(ben, Action.APPROVE)


def test_an_invitation_for_nobody_is_refused(db: None) -> None:
    with pytest.raises(CommandError, match="--role"):
        call_command("signinlink", user="nobody")


def log_in(client: Client, name: str, password: str, **extra: str) -> bool:
    client.post("/login/", {"user_name": name, "password": password, **extra})
    return "_auth_user_id" in client.session


def test_right_name_and_password_get_in(client: Client, viewer: User) -> None:
    assert log_in(client, "viewer", PASSWORD)
    assert AuditEntry.objects.filter(action="signed in", actor=viewer, address="127.0.0.1").exists()


def test_all_refusals_read_the_same(viewer: User) -> None:
    switched_off = User.objects.create_user("gone", password=PASSWORD, is_active=False)
    pages = set()
    for name, password in (("viewer", "wrong"), ("nobody", "wrong"), (switched_off.username, PASSWORD)):
        answer = Client().post("/login/", {"user_name": name, "password": password})
        text = answer.content.decode().replace(f'value="{name}"', "")
        pages.add((answer.status_code, re.sub(r'name="csrfmiddlewaretoken" value="\w+"', "", text)))

    assert len(pages) == 1


def test_five_wrong_passwords_stop_even_the_right_one_for_a_while(client: Client, viewer: User) -> None:
    for _ in range(signin.FAILURES_PER_PERSON):
        assert not log_in(client, "viewer", "wrong")
    assert not log_in(client, "VIEWER", PASSWORD) and not log_in(client, "viewer", PASSWORD)

    with time_machine.travel(timezone.now() + signin.FAILURES_COUNT_FOR + timedelta(seconds=1)):
        assert log_in(client, "viewer", PASSWORD)


def test_others_are_not_locked_out_by_a_guesser(viewer: User) -> None:
    for _ in range(signin.FAILURES_PER_PERSON):
        signin.note_failure(user_name="viewer", address="10.0.0.66")

    assert log_in(Client(), "viewer", PASSWORD)


def test_many_names_from_one_address_are_stopped_too(client: Client, viewer: User) -> None:
    for number in range(signin.FAILURES_PER_ADDRESS):
        signin.note_failure(user_name=f"name{number}", address="127.0.0.1")

    assert not log_in(client, "viewer", PASSWORD)


def test_a_right_password_starts_the_count_anew(client: Client, viewer: User) -> None:
    log_in(client, "viewer", "wrong")
    log_in(client, "viewer", PASSWORD)

    assert not FailedSignIn.objects.exists()


@pytest.mark.parametrize(
    ("wanted", "got"),
    [
        ("/jobs/?state=failed", "/jobs/?state=failed"),
        ("https://evil.example/", "/"),
        ("//evil.example", "/"),
        ("", "/"),
    ],
)
def test_after_signing_in_one_lands_inside(client: Client, viewer: User, wanted: str, got: str) -> None:
    answer = client.post("/login/", {"user_name": "viewer", "password": PASSWORD, "next": wanted})

    assert answer["Location"] == got


def test_signing_out_needs_a_post(client_of: Callable[[User], Client], viewer: User) -> None:
    client = client_of(viewer)
    assert client.get("/logout/").status_code == 405
    client.post("/logout/")

    assert "_auth_user_id" not in client.session
    assert AuditEntry.objects.filter(action="signed out", actor_name="viewer").exists()


def test_a_forged_post_is_refused(viewer: User) -> None:
    client = Client(enforce_csrf_checks=True)

    assert client.post("/login/", {"user_name": "viewer", "password": PASSWORD}).status_code == 403


def test_every_page_is_closed_to_strangers_but_the_doors(client: Client, db: None) -> None:
    open_doors = {"healthz", "login/", "sign-in/<str:token>/"}
    routes = [str(pattern.pattern) + str(child.pattern) for pattern in get_resolver().url_patterns
              for child in getattr(pattern, "url_patterns", [])]  # fmt: skip
    assert open_doors <= set(routes)

    for route in set(routes) - open_doors:
        path = "/" + re.sub(r"<[^>]*>", "1", re.sub(r"<uuid:[^>]*>", str(uuid.uuid4()), route))
        assert client.get(path).status_code in {302, 405}, path


def test_the_brake_and_the_chain_hold_together(client: Client, viewer: User) -> None:
    log_in(client, "viewer", "wrong")
    log_in(client, "viewer", PASSWORD)

    assert audit.verify_chain().broken_at is None


def test_pages_carry_the_strict_headers(client: Client, db: None) -> None:
    answer = client.get("/login/")

    policy = answer["Content-Security-Policy"]
    assert "default-src 'self'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
    assert answer["X-Content-Type-Options"] == "nosniff" and answer["X-Frame-Options"] == "DENY"
    assert "no-store" in answer["Cache-Control"]


def test_health_needs_no_sign_in(client: Client, db: None) -> None:
    assert client.get("/healthz").json() == {"ok": True}


def test_roles_are_replaced_not_added(viewer: User) -> None:
    signin.give_roles(viewer, roles=[Role.OPERATOR])

    assert list(viewer.groups.values_list("name", flat=True)) == ["operator"]
