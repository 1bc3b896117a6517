"""The audit page: what its filters leave, the state of the chain, and the files."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone

from controlpanel import audit
from controlpanel.models import AuditEntry

pytestmark = pytest.mark.django_db
ClientOf = Callable[[User], Client]


@pytest.fixture
def client(client_of: ClientOf, viewer: User) -> Client:
    return client_of(viewer)


def write(action: str, *, actor: User | None = None, target: User | None = None, **detail: object) -> AuditEntry:
    with transaction.atomic():
        return audit.record(action, actor=actor, target=target, detail=detail, address="192.0.2.1")


def shown(client: Client, query: str) -> list[str]:
    return [row["action"] for row in json.loads(b"".join(client.get(f"/audit/export.json{query}")))]


@pytest.mark.long
def test_each_filter_narrows_page_and_file(client: Client, administrator: User, viewer: User) -> None:
    write("approved a plan", actor=administrator)
    write("changed a role", actor=administrator, target=viewer)
    write("expired a plan")
    today = timezone.now().date()
    for query, expected in (
        ("", ["expired a plan", "changed a role", "approved a plan"]),
        ("?person=administrator", ["changed a role", "approved a plan"]),
        ("?action=Plan", ["expired a plan", "approved a plan"]),
        ("?target=view", ["changed a role"]),
        (f"?since={today}&until={today}&person=panel", ["expired a plan"]),
        (f"?since={today + timedelta(days=1)}", []),
        (f"?until={today - timedelta(days=1)}", []),
        ("?until=9999-12-31&action=role", ["changed a role"]),
    ):
        assert shown(client, query) == expected, query
        page = client.get(f"/audit/{query}").content.decode()
        assert [word for word in ("expired a plan", "changed a role", "approved a plan") if word in page] == expected
    assert "Enter a valid date" in client.get("/audit/?since=soon").content.decode()


def test_the_state_of_the_chain_is_shown_when_asked_for(client: Client) -> None:
    write("one")
    write("two")
    assert "entries are what was written" not in client.get("/audit/").content.decode()
    assert "All 2 entries are what was written" in client.get("/audit/?verify=1").content.decode()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE controlpanel_auditentry SET actor_name = 'x' WHERE action = 'two'")
    assert "The chain is broken at entry 2: the entry was changed." in client.get("/audit/?verify=1").content.decode()


def test_the_file_holds_what_the_hashes_are_made_of(client: Client, administrator: User) -> None:
    entry = write("approved", actor=administrator, target=administrator, reason="é", number=1.0)
    (row,) = json.loads(b"".join(client.get("/audit/export.json")))
    assert (row["hash"], row["detail"]) == (entry.hash, entry.detail_json)
    target = [row["target_type"], row["target_id"], row["target_name"]]
    rebuilt = AuditEntry(
        number=row["number"], at=datetime.fromisoformat(row["at"]), actor_name=row["actor_name"],
        address=row["address"], action=row["action"], target_type=target[0], target_id=target[1],
        target_name=target[2], detail_json=row["detail"], previous_hash=row["previous_hash"],
    )  # fmt: skip
    assert audit.hash_of(rebuilt) == row["hash"]


def test_the_table_has_the_same_and_runs_no_formula(client: Client) -> None:
    write("=1+1", why="-2")
    answer = client.get("/audit/export.csv")
    assert answer["Content-Disposition"] == 'attachment; filename="relaunch-audit.csv"'
    (row,) = csv.DictReader(io.StringIO(b"".join(answer).decode()))
    assert (row["action"], row["detail"]) == ("'=1+1", '{"why":"-2"}')


def test_only_who_may_look_sees_it(client_of: ClientOf, stranger: User) -> None:
    for path in ("/audit/", "/audit/export.csv", "/audit/export.json"):
        assert client_of(stranger).get(path).status_code == 403
