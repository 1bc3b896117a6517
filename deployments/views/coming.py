"""A plan on its job's page while it is still being made."""

from __future__ import annotations

from typing import Any

from deployments.lifecycle import CLAIMABLE, StepName, StepState
from deployments.models import Job


def coming(job: Job) -> dict[str, Any] | None:
    """What is known of the plan so far; None when none is being made. Reads ``job.steps`` (prefetch it)."""
    if job.state not in CLAIMABLE:
        return None
    steps = (step for step in job.steps.all() if step.name == StepName.PLAN and step.state == StepState.RUNNING)
    step = next(steps, None)
    return (step.data.get("coming") or None) if step is not None else None
