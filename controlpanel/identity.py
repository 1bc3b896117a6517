"""Which panel this is: a short id in the data directory, so that two panels on one machine never mix up their work."""

from __future__ import annotations

import secrets
from functools import cache
from pathlib import Path

from django.conf import settings


@cache
def panel_id() -> str:
    """Twelve hex digits, made at first use and kept for ever."""
    path = Path(settings.DATA_DIR) / "panel-id"
    try:
        with path.open("x") as file:
            file.write(secrets.token_hex(6))
    except FileExistsError:
        pass
    return path.read_text().strip()
