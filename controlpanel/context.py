"""What every template can use."""

from django.http import HttpRequest

from controlpanel.access import Permissions
from controlpanel.build import build_id


def panel(request: HttpRequest) -> dict[str, object]:
    """Return `may` (as in `{% if may.approve %}`) and `build_id`, the version of code and static files."""
    return {"may": Permissions(getattr(request, "user", None)), "build_id": build_id()}
