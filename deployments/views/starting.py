"""A start on the page of its job: how far it is, and what its last starts took."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from deployments.decisions.readiness import usual
from deployments.engines.progress import Reached
from deployments.lifecycle import CLAIMABLE, StepName, StepState
from deployments.models import Job, Launch
from deployments.starts import last_starts


@dataclass(frozen=True)
class Starting:
    """``since``: when it began. ``usual``: seconds that its last starts took, None when none is known. ``answering``:
    what it has said so far to its first question.
    """

    since: datetime
    reached: Reached | None
    usual: float | None
    took: list[float]
    answering: str = ""


def starting(job: Job, launch: Launch | None) -> Starting | None:
    """The start that a job follows now; None when it follows none, as while it waits for a person: then the question
    says how far it was. Reads ``job.steps`` (prefetch it).
    """
    if (
        job.state not in CLAIMABLE
        or launch is None
        or launch.started_at is None
        or launch.ready_at
        or job.deployment is None
    ):
        return None
    step = next(
        (step for step in job.steps.all() if step.name == StepName.CHECK and step.state == StepState.RUNNING), None
    )
    if step is None:
        return None
    told = step.data.get("reached")
    took = last_starts(job.deployment, before=launch)
    reached, answering = Reached(**told) if told else None, step.data.get("answering", "")
    return Starting(launch.started_at, reached, usual(took), took, answering)
