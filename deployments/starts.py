"""What the last starts took: how long, for when it is asked whether to wait longer, and what of the cards."""

from __future__ import annotations

from collections.abc import Sequence

from deployments.decisions.readiness import COUNTED, limit
from deployments.fit.served import Served, served_of
from deployments.models import Deployment, Launch, Revision

SERVED_LAUNCHES = 20
"""So far back is looked for one that served on the same cards."""


def last_starts(deployment: Deployment, *, before: Launch | None = None) -> list[float]:
    """Seconds from start to ready of the last starts that came up, newest first; ``before`` itself left out."""
    ready = Launch.objects.filter(
        deployment=deployment, started_at__isnull=False, ready_at__isnull=False, adopted_at__isnull=True
    )
    others = ready if before is None else ready.exclude(pk=before.pk)
    known = others.order_by("-intended_at").values_list("started_at", "ready_at")[:COUNTED]
    return [(ready_at - started_at).total_seconds() for started_at, ready_at in known if ready_at and started_at]


def seconds_to_wait(deployment: Deployment, *, launch: Launch) -> int:
    """Seconds that a start may take before a person is asked."""
    return limit(deployment.ready_seconds, last_starts(deployment, before=launch))


def last_served(revision: Revision, uuids: Sequence[str]) -> Served | None:
    """When a revision became ready last on exactly these cards, with what was measured then.

    Not of an adopted server: nobody has seen it become ready.
    """
    ready = Launch.objects.filter(revision=revision, adopted_at=None).exclude(ready_at=None).order_by("-intended_at")
    rows = ready.values_list("ready_at", "memory_used", "effective")[:SERVED_LAUNCHES]
    for at, used, effective in rows:
        if uuids and set(used) == set(uuids) and at is not None:
            return served_of(at.isoformat(timespec="seconds"), used, effective)
    return None
