"""A command of the panel for a person to type on its machine, so that it is about this very panel."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from django.conf import settings


def manage_command(*words: str) -> str:
    """The line that runs ``manage.py`` with ``words`` on this panel's data, from any directory."""
    base, data = Path(settings.BASE_DIR), Path(settings.DATA_DIR)
    own = [f"RELAUNCH_DATA_DIR={shlex.quote(str(data))}"] if data != base / "var" else []
    return " ".join(["cd", shlex.quote(str(base)), "&&", *own, shlex.join([sys.executable, "manage.py", *words])])
