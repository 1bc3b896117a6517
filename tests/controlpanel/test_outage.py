"""A database that is busy or away is answered with 503 and a sentence; every other fault of it stays a 500."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.db import Error, InterfaceError, OperationalError, ProgrammingError, connection
from django.test import AsyncClient, Client

from controlpanel.models import AuditEntry
from controlpanel.outage import passes


def wrapped(kind: type[Error], cause: Exception) -> Error:
    """As Django wraps an error of the driver."""
    error = kind(str(cause))
    error.__cause__ = cause
    return error


def sqlite_error(path: Path, statement: str) -> Exception:
    with pytest.raises(sqlite3.OperationalError) as caught:
        sqlite3.connect(path, timeout=0).execute(statement)
    return caught.value


def test_a_locked_or_missing_sqlite_passes_a_missing_table_does_not(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite3"
    holder = sqlite3.connect(path)
    holder.execute("BEGIN EXCLUSIVE")
    locked = sqlite_error(path, "BEGIN IMMEDIATE")
    holder.close()
    away = sqlite_error(tmp_path / "nowhere" / "a.sqlite3", "SELECT 1")
    no_table = sqlite_error(path, "SELECT * FROM nothing")

    assert passes(wrapped(OperationalError, locked)) and passes(wrapped(OperationalError, away))
    assert not passes(wrapped(OperationalError, no_table))


@pytest.mark.parametrize(
    ("kind", "cause", "answer"),
    [
        (OperationalError, psycopg.OperationalError("connection refused"), True),
        (OperationalError, psycopg.errors.CannotConnectNow(), True),
        (OperationalError, psycopg.errors.TooManyConnections(), True),
        (OperationalError, psycopg.errors.LockNotAvailable(), True),
        (OperationalError, psycopg.errors.DeadlockDetected(), True),
        (OperationalError, psycopg.errors.DiskFull(), False),
        (InterfaceError, psycopg.InterfaceError("the connection is closed"), True),
        (ProgrammingError, psycopg.errors.UndefinedTable(), False),
        (ProgrammingError, psycopg.ProgrammingError("the placeholders do not fit"), False),
        (OperationalError, ZeroDivisionError(), False),
    ],
)
def test_which_errors_of_postgresql_pass(kind: type[Error], cause: Exception, answer: bool) -> None:
    assert passes(wrapped(kind, cause)) is answer


def test_what_did_not_come_from_a_database_does_not_pass() -> None:
    assert not passes(None) and not passes(ValueError()) and not passes(OperationalError("ours"))


@pytest.fixture
def patient(person: object) -> Iterator[Client]:
    """A client that gets the page for an error, and whose database waits only a moment for a lock."""
    if connection.vendor != "sqlite":
        pytest.skip("a lock of SQLite")
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout = 20")
    yield Client(raise_request_exception=False)
    connection.close()


@pytest.mark.django_db(transaction=True)
def test_a_request_that_meets_a_lock_is_told_to_come_again(patient: Client) -> None:
    User.objects.create_user("ana", password="correct horse battery")
    right = {"user_name": "ana", "password": "correct horse battery"}
    with contextlib.closing(sqlite3.connect(connection.settings_dict["NAME"], uri=True)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        answer = patient.post("/login/", right)

    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    assert "wait a few seconds" in answer.content.decode()
    assert answer["Cache-Control"] == "no-store" and "Content-Security-Policy" in answer
    assert not AuditEntry.objects.filter(action="signed in").exists()
    assert patient.post("/login/", right).status_code == 302


@pytest.mark.django_db
def test_a_database_that_is_away_before_the_view_begins(viewer: User, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(viewer)

    def gone(*_: object) -> None:
        raise OperationalError from psycopg.OperationalError("connection refused")

    monkeypatch.setattr("django.contrib.sessions.backends.db.SessionStore.load", gone)
    assert client.get("/").status_code == 503
    as_served = AsyncClient(raise_request_exception=False)
    as_served.cookies = client.cookies
    assert async_to_sync(as_served.get)("/").status_code == 503


@pytest.mark.django_db
def test_another_fault_of_the_database_is_an_error_of_ours(viewer: User) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(viewer)
    with connection.cursor() as cursor:  # undone with the test's transaction
        cursor.execute(f"ALTER TABLE {AuditEntry._meta.db_table} RENAME TO away")

    answer = client.get("/audit/")
    assert answer.status_code == 500 and "Retry-After" not in answer
