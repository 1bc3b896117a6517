"""The servers of other deployments that are to use a deployment's cards, whether they hold them already or load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from django.db.models import Q, QuerySet

from deployments.lifecycle import LIVE_LAUNCH
from deployments.models import Launch
from deployments.plan.cards import Claim
from hosts.models import Host

if TYPE_CHECKING:
    from deployments.steps.base import StepContext


def claims_on(ctx: StepContext, labels: Mapping[str, str]) -> tuple[Claim, ...]:
    """The launches of other deployments that may live and use one of these cards, and may not share it."""
    mine = {one.pk for one in ctx.job.subjects} | {ctx.deployment.pk}
    live = Launch.objects.filter(state__in=LIVE_LAUNCH, deployment__placements__host__in=_of_machine(ctx.host.machine))
    live = live.exclude(deployment__in=mine).exclude(deployment__name__in=ctx.deployment.partners).exclude(pid=None)
    found = []
    for launch in live.select_related("deployment").distinct():
        cards = tuple(labels[uuid] for uuid in launch.deployment.placement.gpu_uuids if uuid in labels)
        if cards:
            who = (launch.pid or 0, launch.start_time or 0)
            found.append(Claim(launch.deployment.name, launch.boot_id, launch.pid_namespace, *who, cards))
    return tuple(found)


def _of_machine(machine: Host) -> QuerySet[Host]:
    return Host.objects.filter(Q(pk=machine.pk) | Q(via=machine, transport=Host.TransportKind.PCT))
