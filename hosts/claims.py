"""Which hosts are read by which monitor: each by one at a time, by a lease, and each monitor has its share of them."""

from __future__ import annotations

import secrets
from datetime import timedelta

from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from controlpanel.identity import process_name
from hosts.models import Host, MonitorProcess

OWNER = f"{process_name()}:{secrets.token_hex(3)}"
"""This process. A number follows in the database, another one each time that it takes hosts."""
LEASE = timedelta(seconds=15)
FRESH = timedelta(seconds=5)
"""Cards that were read within this time are read."""


class Claims:
    """Of one monitor. What it writes of a host counts only while it holds it (``Host.held``)."""

    def __init__(self, owner: str = OWNER) -> None:
        self._owner = owner
        self._mine = Q(monitor_owner__startswith=f"{owner}:")
        self._rounds = 0

    def renew(self) -> dict[int, str]:
        """Renew the leases, let go of more than its share, and take hosts that nobody has; returns owner by host.

        A lease that has run out is not renewed, also where nobody else took the host: what our thread has read
        may have waited for as long as we were frozen, so a new one reads anew.
        """
        self._rounds += 1
        known = Host.objects.exclude(reach=Host.Reach.UNKNOWN).filter(maintenance="")
        lasting = known.filter(self._mine, monitor_lease_until__gt=Now())
        lasting.update(monitor_lease_until=Now() + LEASE)
        share = -(-known.count() // self._monitors())
        ours = list(lasting.order_by("pk").values_list("pk", flat=True))
        if excess := ours[share:]:
            self._give_back(lasting.filter(pk__in=excess))
        self._take(known, share - len(ours))
        return dict(lasting.values_list("pk", "monitor_owner"))

    def resting(self) -> list[Host]:
        """Hosts in maintenance of which nobody else is reading: ours now, so that the last word on them is ours."""
        known = Host.objects.exclude(maintenance="").exclude(reach=Host.Reach.UNKNOWN)
        known.filter(self._mine | self._free()).update(
            monitor_owner=f"{self._owner}:{self._rounds}r", monitor_lease_until=Now() + LEASE
        )
        return list(known.filter(monitor_owner=f"{self._owner}:{self._rounds}r"))

    def rest(self, hosts: list[Host]) -> None:
        """Let go of them."""
        self._give_back(Host.objects.filter(self._mine, pk__in=[host.pk for host in hosts]))

    def release_all(self) -> None:
        """The end: others may take them at once."""
        self._give_back(Host.objects.filter(self._mine))
        MonitorProcess.objects.filter(owner=self._owner).delete()

    def _monitors(self) -> int:
        """How many there are, this one included; those that have not been heard of for as long as a lease are gone."""
        MonitorProcess.objects.update_or_create(owner=self._owner, defaults={"alive_until": Now() + LEASE})
        MonitorProcess.objects.filter(alive_until__lte=Now()).delete()
        return max(1, MonitorProcess.objects.count())

    def _take(self, known: QuerySet[Host], most: int) -> None:
        if most > 0:
            free = known.filter(self._free()).order_by("pk").values_list("pk", flat=True)[:most]
            # Asked again in the statement that takes them: another may have been faster.
            known.filter(self._free(), pk__in=list(free)).update(
                monitor_owner=f"{self._owner}:{self._rounds}", monitor_lease_until=Now() + LEASE
            )

    def _free(self) -> Q:
        return Q(monitor_lease_until=None) | Q(monitor_lease_until__lte=Now())

    def _give_back(self, hosts: QuerySet[Host]) -> None:
        hosts.update(monitor_owner="", monitor_lease_until=None)


def is_read(host: Host, *, unless: Host) -> bool:
    """Whether a monitor has the host's cards now; False for the very host that is asked about."""
    if host.pk == unless.pk:
        return False
    good = Host.objects.filter(pk=host.pk, maintenance="", reach=Host.Reach.REACHABLE, gpu_problem="")
    return good.filter(monitor_lease_until__gt=Now(), gpus__read_at__gt=Now() - FRESH).exists()
