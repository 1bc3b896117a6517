"""By which marks a process is known as the server of a deployment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from django.db.models import Q

from deployments.lifecycle import LIVE_LAUNCH
from deployments.models import Deployment, Launch
from deployments.plan.cards import Card
from deployments.plan.marks import identity
from hosts.models import Gpu, Host

EARLIER_LAUNCHES = 200
"""Whose markers a process that was left behind may still carry."""


def known_card(gpu: Gpu, deployment: Deployment | None = None) -> Card:
    """A stored card with the limit under which it counts as free, for ``deployment`` or for anybody."""
    card = Card(gpu.uuid, f"GPU {gpu.index}", gpu.baseline_mib, gpu.ceiling_mib)
    return card if deployment is None else replace(card, tolerance_mib=deployment.tolerance_mib)


def launches_on(machine: Host) -> list[Launch]:
    """What lives on a machine and in its containers as far as is known, and what has ended there lately."""
    there = Launch.objects.filter(Q(host=machine) | Q(host__via=machine)).select_related("deployment")
    live = there.filter(state__in=LIVE_LAUNCH)
    ended = there.exclude(state__in=LIVE_LAUNCH).order_by("-intended_at")[:EARLIER_LAUNCHES]
    return [*live, *ended]


def names_of(rows: Iterable[Launch]) -> dict[str, str]:
    """launch -> deployment, as ``launches`` is wanted everywhere: an adopted one by its identity too."""
    named = [(launch, launch.deployment.name) for launch in rows]
    adopted = {
        identity(launch.boot_id, launch.pid, launch.start_time): name
        for launch, name in named
        if launch.adopted_at is not None and launch.ended_at is None
    }
    return {str(launch.pk): name for launch, name in named} | adopted
