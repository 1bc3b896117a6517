"""The first page: what needs a person, what runs where, and which cards are left."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from controlpanel.access import Action, requires
from deployments.lifecycle import JobState, ServiceState
from deployments.models import Deployment, Job, StandingApproval
from deployments.often import asked_lately
from deployments.views import board
from deployments.views.traffic import Out, out_of_router
from hosts.models import Host


@require_GET
@requires(Action.LOOK)
def overview(request: HttpRequest) -> HttpResponse:
    """The overview, or with ``?part`` only the piece that is fetched again when something changed."""
    template = "deployments/_overview.html" if "part" in request.GET else "deployments/overview.html"
    return render(request, template, _context())


def _context() -> dict[str, Any]:
    rows = board.rows(Deployment.objects.exclude(state=ServiceState.RELEASED))
    jobs = [row.active for row in rows if row.active]
    attention: dict[str, Any] = {
        "gates": list(board.open_gates()),
        "leases": list(StandingApproval.asked_for().select_related("host")),
        "unknown_jobs": [job for job in jobs if job.state == JobState.UNKNOWN],
        "failed_jobs": [job for row in rows if (job := row.failed) and _is_last_of_all(job, rows)],
        "troubled": [row for row in rows if row.deployment.state in board.BAD_SERVICE and not row.is_at_work],
        "out_of_router": [(row, out) for row in rows if (out := _is_left_out(row))],
        "hosts_in_trouble": list(board.troubled_hosts()),
        "asked_often": [asked for asked in asked_lately() if asked.is_often],
        "not_applied": [row for row in rows if row.not_applied and not row.active and not _tells_more(row)],
        "not_proven": [
            row for row in rows if row.not_proven and not row.active and (_tells_more(row) or not row.not_applied)
        ],
    }
    return {
        **attention,
        "calm": not any(attention.values()),
        "rows": rows,
        "spare": board.spare_cards(),
        "first_run": not rows and not Host.objects.exists(),
        "has_hosts": bool(rows) or Host.objects.exists(),
    }


def _is_last_of_all(job: Job, rows: list[board.Row]) -> bool:
    """Nothing was done since, also not to the deployment that it replaced."""
    concerned = {one.pk for one in job.subjects}
    return all(row.last == job for row in rows if row.deployment.pk in concerned)


def _is_left_out(row: board.Row) -> Out | None:
    """It is out of its router, and neither is a job at work on that nor is it meant to stay so."""
    out = None if row.active else out_of_router(row.deployment)
    return None if out is None or out.meant else out


def _tells_more(row: board.Row) -> bool:
    """Of a server that somebody else has started, how it differs from the proven one says more than from the next."""
    return bool(row.found) and row.not_proven
