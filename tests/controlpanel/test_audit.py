"""The record of what was done: no entry outside the deed's transaction, and a chain that shows every change."""

import threading

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction

from controlpanel import audit
from controlpanel.models import AppendOnly, AuditEntry, AuditHead


def write(action: str = "looked", **detail: object) -> AuditEntry:
    with transaction.atomic():
        return audit.record(action, actor=None, target=None, detail=detail)


@pytest.mark.django_db(transaction=True)
def test_an_entry_outside_a_transaction_is_refused() -> None:
    with pytest.raises(audit.NotInTransaction):
        audit.record("looked", actor=None, target=None, detail={})


def test_an_entry_says_who_what_where_and_on_what(administrator: User, viewer: User) -> None:
    entry = audit.record(
        "gave a role", actor=administrator, target=viewer, detail={"role": "operator"}, address="10.0.0.7"
    )

    entry.refresh_from_db()
    assert (entry.actor, entry.actor_name, entry.address) == (administrator, "administrator", "10.0.0.7")
    assert (entry.target_type, entry.target_id, entry.target_name) == ("auth.user", str(viewer.pk), "viewer")
    assert entry.detail == {"role": "operator"}


def test_an_entry_stays_readable_and_valid_when_the_person_is_gone(viewer: User) -> None:
    entry = audit.record("looked", actor=viewer, target=None, detail={})
    viewer.delete()

    entry.refresh_from_db()
    assert entry.actor is None and entry.actor_name == "viewer"
    assert audit.verify_chain().broken_at is None


def test_secrets_in_the_detail_are_masked(db: None) -> None:
    entry = write(argv=["serve", "--api-key", "abcd1234"], environment={"HF_TOKEN": "hf_abcdefghijk"})

    assert "abcd1234" not in entry.detail_json and "hf_abcdefghijk" not in entry.detail_json


def test_entries_are_neither_changed_nor_removed(db: None) -> None:
    entry = write()
    entry.action = "something else"

    for change in (
        entry.save,
        entry.delete,
        AuditEntry.objects.all().delete,
        lambda: AuditEntry.objects.update(action="x"),
        lambda: AuditEntry.objects.bulk_create([]),
    ):
        with pytest.raises(AppendOnly):
            change()


def test_a_chain_of_any_text_verifies(db: None) -> None:
    write(text="naïve \0 \ud800", numbers=[1, 1.5, 1e22], none=None, nested={"b": 1, "a": [True]})
    write()

    report = audit.verify_chain()
    assert (report.entries, report.broken_at) == (2, None)
    assert report.head == AuditEntry.objects.get(number=2).hash


def test_an_empty_chain_verifies(db: None) -> None:
    assert audit.verify_chain().entries == 0


@pytest.mark.parametrize(
    ("sql", "broken_at"),
    [
        ("UPDATE controlpanel_auditentry SET detail_json='{}' WHERE number=2", 2),
        ("UPDATE controlpanel_auditentry SET actor_name='eve' WHERE number=1", 1),
        ("DELETE FROM controlpanel_auditentry WHERE number=2", 2),
        ("DELETE FROM controlpanel_auditentry WHERE number=3", 3),
    ],
)
def test_a_change_behind_our_back_is_found(db: None, sql: str, broken_at: int) -> None:
    for number in range(3):
        write(number=number)
    with connection.cursor() as cursor:
        cursor.execute(sql)

    report = audit.verify_chain()
    assert report.broken_at == broken_at and report.reason


@pytest.mark.django_db(transaction=True)
def test_entries_of_many_threads_make_one_line() -> None:
    def work() -> None:
        for _ in range(5):
            write()
        connection.close()

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    report = audit.verify_chain()
    assert (report.entries, report.broken_at) == (30, None)
    assert AuditHead.objects.get().length == 30


@pytest.mark.django_db(transaction=True)
def test_a_deed_that_fails_leaves_no_entry() -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        audit.record("looked", actor=None, target=None, detail={})
        raise ZeroDivisionError

    assert write().number == 1
