"""By which marks a process is known as the server of a deployment."""

from __future__ import annotations

from collections.abc import Iterable

from deployments.models import Launch
from deployments.plan.marks import identity


def names_of(rows: Iterable[Launch]) -> dict[str, str]:
    """launch -> deployment, as ``launches`` is wanted everywhere: an adopted one by its identity too."""
    named = [(launch, launch.deployment.name) for launch in rows]
    adopted = {
        identity(launch.boot_id, launch.pid, launch.start_time): name
        for launch, name in named
        if launch.adopted_at is not None and launch.ended_at is None
    }
    return {str(launch.pk): name for launch, name in named} | adopted
