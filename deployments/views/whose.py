"""Whose memory it is that a deployment's cards show, where it is not its own."""

from __future__ import annotations

from django.db.models import Exists, OuterRef, Q

from deployments.known import known_card
from deployments.lifecycle import LaunchState, ServiceState
from deployments.models import Deployment, Launch
from hosts.models import Gpu

"""What an idle card may show above its baseline."""
IS_THERE = (ServiceState.SERVING, ServiceState.NOT_ANSWERING)

Users = dict[tuple[int, str], list[tuple[int, str]]]
"""By machine and uuid of a card: key and name of each deployment that has a server there."""


def users_of_cards() -> Users:
    """Who has a server on which card. A container's cards are those of its node."""
    runs = Launch.objects.filter(deployment=OuterRef("pk"), state__in=(LaunchState.STARTING, LaunchState.SERVING))
    there = Deployment.objects.filter(Q(state__in=IS_THERE) | Exists(runs)).prefetch_related("placements__host__via")
    found: Users = {}
    for deployment in there:
        for place in deployment.placements.all():
            for uuid in place.gpu_uuids:
                found.setdefault((place.host.machine.pk, uuid), []).append((deployment.pk, deployment.name))
    return found


def whose(gpu: Gpu, deployment: Deployment, users: Users, *, runs: bool) -> str:
    """Who else uses a card of ``deployment``, in words; empty where what it shows may be all its own.

    ``runs``: it may have a server itself.
    """
    others = [name for pk, name in users.get((gpu.host.machine.pk, gpu.uuid), []) if pk != deployment.pk]
    if others:
        return f"{'also ' if runs else ''}used by {', '.join(others)}"
    if runs or gpu.used_mib is None or gpu.used_mib <= known_card(gpu, deployment).limit_mib:
        return ""
    return f"in use, though {deployment} does not run"
