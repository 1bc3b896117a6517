"""Ask for a benchmark of what serves."""

from __future__ import annotations

from uuid import UUID

from django.contrib.auth.models import User

from controlpanel.refusal import Refused
from deployments.benchmark.wanted import Wanted
from deployments.lifecycle import JobKind, LaunchState
from deployments.models import Deployment, Job
from deployments.services.jobs import insert_job


def request_benchmark(
    deployment: Deployment, *, wanted: Wanted, reason: str, request_key: UUID, actor: User, address: str
) -> Job:
    """Make a job that measures how fast the server answers. It stops and starts nothing, so nobody approves it.

    Raises Refused when nothing serves that the panel has started, or another job holds the cards or the port.
    """
    launch = deployment.live_launch
    if launch is None or launch.revision is None or launch.state != LaunchState.SERVING:
        raise Refused(
            f"No server of {deployment} serves that Relaunch has started.",
            hint="Start or restart it first: what is measured is kept with its launch.",
        )
    job = Job(kind=JobKind.BENCHMARK, reason=reason, request_key=request_key, revision=launch.revision, way_back=False)
    given = {"at_once": list(wanted.at_once), "tokens": wanted.tokens}
    return insert_job(job, deployment, actor=actor, address=address, given=given)
