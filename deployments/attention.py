"""What one person must know wherever they are: what waits for them, what failed lately, what is down."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.urls import reverse

from controlpanel.access import Action, may
from deployments.lifecycle import JobKind, ServiceState
from deployments.models import Deployment, Gate, Job, StandingApproval
from deployments.services import why_not_answer
from deployments.views import board

MOST = 20
"""Of each kind; more are no more urgent."""


def attention(user: User) -> list[dict[str, Any]]:
    """What waits for ``user``, oldest first, then what failed and what is down.

    Each has a key of its own and the moment since when; nothing secret is in it.
    """
    waiting = [gate for gate in board.open_gates() if _waits_for(gate, user)][:MOST]
    leases = StandingApproval.asked_for().exclude(holder=user)[:MOST] if may(user, Action.APPROVE) else ()
    failed = board.news()[:MOST]
    down = Deployment.objects.filter(state__in=board.BAD_SERVICE).order_by("name")[:MOST]
    return [*map(_waiting, waiting), *map(_asked_for, leases), *map(_failed, failed), *map(_down, down)]


def _waits_for(gate: Gate, user: User) -> bool:
    """They may take the choice that is recommended."""
    return bool(gate.choices) and not why_not_answer(gate.job, Action(gate.choices[0]["action"]), user)


def _waiting(gate: Gate) -> dict[str, Any]:
    name = gate.job.deployment_name
    told = {
        "kind": "waiting",
        "deployment": name,
        "about": about(gate.job),
        "title": f"{name} waits for you",
        "text": gate.title,
        "at": gate.opened_at.isoformat(),
    }
    return {"key": f"gate-{gate.pk}", "path": gate.job.get_absolute_url(), **told}


def _asked_for(lease: StandingApproval) -> dict[str, Any]:
    told = {
        "kind": "waiting",
        "deployment": "",
        "about": [],
        "title": "A tuning lease waits for you",
        "text": f"{lease.holder_name}: {lease.reason}",
        "at": lease.asked_at.isoformat(),
    }
    return {"key": f"lease-{lease.pk}", "path": reverse("deployments:overview"), **told}


def _failed(job: Job) -> dict[str, Any]:
    name, text = job.deployment_name, f"{JobKind(job.kind).noun} {job.state}"
    at = job.ended_at.isoformat() if job.ended_at else ""
    told = {
        "kind": "failed",
        "deployment": name,
        "about": about(job),
        "title": f"{name} failed",
        "text": text,
        "at": at,
    }
    return {"key": f"job-{job.pk}", "path": job.get_absolute_url(), **told}


def _down(deployment: Deployment) -> dict[str, Any]:
    how = "has crashed" if deployment.state == ServiceState.CRASHED else "does not answer"
    at = deployment.state_since.isoformat() if deployment.state_since else ""
    told = {
        "kind": "down",
        "deployment": deployment.name,
        "about": [deployment.name],
        "title": f"{deployment} {how}",
        "at": at,
    }
    path = reverse("deployments:deployment", args=[deployment.pk])
    return {"key": f"down-{deployment.pk}-{at}", "path": path, "text": deployment.state_detail, **told}


def about(job: Job) -> list[str]:
    """The names of its deployments: a replacement has two."""
    return [job.deployment_name, *([job.replaces.name] if job.replaces is not None else [])]
