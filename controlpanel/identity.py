"""Which panel this is: a short id in the data directory, so that two panels on one machine never mix up their work."""

from __future__ import annotations

import os
import secrets
import socket
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


LONGEST_HOSTNAME = 32
"""Characters that are kept of it: names of 64 are allowed, and those who hold a job or a host are told apart anyway."""


def process_name() -> str:
    """Names this process as the owner of what it holds, in at most 40 characters: machine and pid."""
    return f"{socket.gethostname()[:LONGEST_HOSTNAME]}:{os.getpid()}"
