"""The migrations themselves, from nothing to the newest: every other test makes its tables from the models."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from django.apps import apps

from controlpanel.access import Role

ROOT = Path(__file__).parent.parent

pytestmark = pytest.mark.process


def test_a_new_database_gets_every_table_column_and_group(tmp_path: Path) -> None:
    manage(tmp_path, "migrate", "--verbosity", "0")

    with sqlite3.connect(tmp_path / "relaunch.sqlite3") as database:
        groups = {name for (name,) in database.execute("SELECT name FROM auth_group")}
        for model in apps.get_models():
            columns = {row[1] for row in database.execute(f'PRAGMA table_info("{model._meta.db_table}")')}
            assert columns == {field.column for field in model._meta.local_concrete_fields}, model
    assert groups == {str(role) for role in Role}
    assert "No migrations to apply" in manage(tmp_path, "migrate")


def manage(data: Path, *command: str) -> str:
    """What `manage.py` says, with that data directory."""
    environment = {**os.environ, "RELAUNCH_DATA_DIR": str(data), "DJANGO_SETTINGS_MODULE": "controlpanel.settings"}
    environment.pop("DATABASE_URL", None)
    ran = subprocess.run(
        [sys.executable, "manage.py", *command], capture_output=True, text=True, check=True, cwd=ROOT, env=environment
    )
    return ran.stdout
