"""What is done before the panel's processes start."""

import pytest
from django.db import connection

from controlpanel import preparation
from controlpanel.models import FailedSignIn

pytestmark = pytest.mark.django_db


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL counts by itself")
def test_only_a_database_that_has_grown_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    from django.utils import timezone

    FailedSignIn.objects.create(user_name="ana", address="", at=timezone.now())
    assert preparation.analyse() is False
    monkeypatch.setattr(preparation, "_SMALL_BYTES", 0)
    assert preparation.analyse() is True
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM sqlite_stat1 WHERE tbl = 'controlpanel_failedsignin'")
        assert cursor.fetchone()[0] > 0
