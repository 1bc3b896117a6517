"""Which build of the panel this is, so that an open page can tell that a newer one is served."""

import hashlib
from functools import cache
from pathlib import Path

from django.conf import settings


@cache
def build_id() -> str:
    """Return twelve hex digits that change when the pages' code or static files change."""
    digest = hashlib.sha256()
    manifest = Path(settings.STATIC_ROOT) / "staticfiles.json"
    if manifest.exists():
        digest.update(manifest.read_bytes())
    for template in sorted((settings.BASE_DIR / "templates").rglob("*.html")):
        digest.update(template.read_bytes())
    return digest.hexdigest()[:12]
