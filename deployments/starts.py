"""How long the last starts of a deployment took, and when it is asked whether to wait longer."""

from __future__ import annotations

from deployments.decisions.readiness import COUNTED, limit
from deployments.models import Deployment, Launch


def last_starts(deployment: Deployment, *, before: Launch) -> list[float]:
    """Seconds from start to ready of the last starts that came up, newest first; ``before`` itself left out."""
    ready = Launch.objects.filter(
        deployment=deployment, started_at__isnull=False, ready_at__isnull=False, adopted_at__isnull=True
    )
    known = ready.exclude(pk=before.pk).order_by("-intended_at").values_list("started_at", "ready_at")[:COUNTED]
    return [(ready_at - started_at).total_seconds() for started_at, ready_at in known if ready_at and started_at]


def seconds_to_wait(deployment: Deployment, *, launch: Launch) -> int:
    """Seconds that a start may take before a person is asked."""
    return limit(deployment.ready_seconds, last_starts(deployment, before=launch))
