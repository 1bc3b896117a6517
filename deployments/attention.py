"""What one person must know wherever they are in the panel: jobs that wait for them, and jobs that failed lately."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.urls import reverse

from controlpanel.access import Action, may
from deployments.models import Gate, Job, StandingApproval
from deployments.services import why_not_answer
from deployments.views import board

MOST = 20
"""Of each kind; more are no more urgent."""


def attention(user: User) -> list[dict[str, Any]]:
    """What waits for ``user``, oldest first, then what failed, each with a key of its own; nothing secret is in it."""
    waiting = [gate for gate in board.open_gates() if _waits_for(gate, user)][:MOST]
    leases = StandingApproval.asked_for().exclude(holder=user)[:MOST] if may(user, Action.APPROVE) else ()
    return [*map(_waiting, waiting), *map(_asked_for, leases), *(_failed(job) for job in board.news()[:MOST])]


def _waits_for(gate: Gate, user: User) -> bool:
    """They may take the choice that is recommended."""
    return bool(gate.choices) and not why_not_answer(gate.job, Action(gate.choices[0]["action"]), user)


def _waiting(gate: Gate) -> dict[str, Any]:
    told = {"kind": "waiting", "deployment": gate.job.deployment_name, "text": gate.title}
    return {"key": f"gate-{gate.pk}", "job": gate.job_id, **told}


def _asked_for(lease: StandingApproval) -> dict[str, Any]:
    told = {"kind": "waiting", "deployment": "A tuning lease", "text": f"{lease.holder_name}: {lease.reason}"}
    return {"key": f"lease-{lease.pk}", "page": reverse("deployments:overview"), **told}


def _failed(job: Job) -> dict[str, Any]:
    told = {"kind": "failed", "deployment": job.deployment_name, "text": f"{job.get_kind_display()} {job.state}"}
    return {"key": f"job-{job.pk}", "job": job.pk, **told}
