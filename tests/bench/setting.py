"""Where a benchmark runs: this process becomes the web process of a panel in a directory of its own."""

import os
import tempfile
from pathlib import Path


def prepare() -> Path:
    """Make the panel's data directory and set Django up on it. Call before anything of Django is imported."""
    directory = Path(tempfile.mkdtemp(prefix="relaunch-bench-"))
    data = directory / "data"
    data.mkdir()
    for name in ("REDIS_URL", "DATABASE_URL", "SECRET_KEY"):
        os.environ.pop(name, None)
    os.environ |= {
        "RELAUNCH_DATA_DIR": str(data),
        "DJANGO_SETTINGS_MODULE": "controlpanel.settings",
        "RELAUNCH_LOG_LEVEL": "WARNING",
    }
    import django

    django.setup()
    return directory
