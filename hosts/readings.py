"""Keep what was read from a host's cards, and whether the host was reached."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from controlpanel.live import hints
from hosts.models import Gpu, Host
from hosts.probe.facts import HostFacts
from hosts.probe.frames import Unknown
from hosts.probe.gpus import GpuReading
from hosts.transport.base import HostKeyChanged, HostKeyUnknown, TransportError

UPDATE_CARD = f"""UPDATE {Gpu._meta.db_table} SET used_mib = %s, unread_reason = %s, read_at = %s, source = %s,
 utilization_percent = %s, temperature_c = %s, power_w = %s WHERE uuid = %s AND host_id IN
 (SELECT id FROM {Host._meta.db_table} WHERE id = %s OR (via_id = %s AND transport = 'pct'))"""
"""Of a card where it is, and in the containers of this node that have it: what is read there is read for them too."""


class HoldLost(Exception):
    """The host is another monitor's now, or nobody's: nothing was written."""


def store_cards(host: Host, facts: HostFacts, *, source: str) -> None:
    """Write the last reading of every card. A card that cannot be read keeps its row and says why."""
    readings: tuple[GpuReading, ...] = ()
    if isinstance(facts.gpus, Unknown):
        problem = facts.gpus.reason
    else:
        problem, readings = " ".join(facts.gpus.faults), facts.gpus.gpus
    with transaction.atomic():
        for names, cards in _by_fields(host, readings, facts, source).items():
            Gpu.objects.bulk_create(cards, update_conflicts=True, unique_fields=["host", "uuid"], update_fields=names)
        missing = Gpu.objects.filter(host=host).exclude(uuid__in=[reading.uuid for reading in readings])
        # Not listed is not free: its last value must not be taken for a fresh one.
        missing.update(used_mib=None, unread_reason=problem or "nvidia-smi does not list this card any more.")
        Host.objects.filter(pk=host.pk).exclude(gpu_problem=problem).update(gpu_problem=problem)
    hints.hint("gpus")


def _by_fields(
    host: Host, readings: Iterable[GpuReading], facts: HostFacts, source: str
) -> dict[tuple[str, ...], list[Gpu]]:
    """Cards of which the same fields were read, so that they are stored by one statement."""
    found: dict[tuple[str, ...], list[Gpu]] = {}
    for position, reading in enumerate(readings):
        fields = _fields(reading, facts, source)
        # A card whose index could not be read still needs one to be listed by.
        first = {"index": position, **fields}
        found.setdefault(tuple(fields), []).append(Gpu(host=host, uuid=reading.uuid, **first))
    return found


def identity(facts: HostFacts) -> object:
    """All that is stored of the cards and does not change from look to look."""
    if isinstance(facts.gpus, Unknown):
        return facts.gpus.reason
    cards = facts.gpus.gpus
    told = [(c.index, c.uuid, c.name, c.bus_id, c.driver_version, c.display, c.memory_total) for c in cards]
    return tuple(told), facts.gpus.faults


def update_cards(looks: Iterable[tuple[Host, HostFacts]], *, source: str) -> None:
    """Write the figures of cards of many hosts, and of their containers. All else is as it is stored already.

    It is most of the monitor's work, and by the models it would cost ten times as much.
    """
    rows = [row for host, facts in looks for row in _moved(host, facts, source)]
    if rows:
        with connection.cursor() as cursor:
            cursor.executemany(UPDATE_CARD, rows)


def _moved(host: Host, facts: HostFacts, source: str) -> Iterator[tuple[Any, ...]]:
    """The parameters of UPDATE_CARD for each card."""
    if isinstance(facts.gpus, Unknown):
        return
    read_at = connection.ops.adapt_datetimefield_value(facts.measured_at)
    for card in facts.gpus.gpus:
        used = card.memory_used
        reason = used.reason if isinstance(used, Unknown) else ""
        moving = map(_number, (card.utilization_percent, card.temperature_c, card.power_watts))
        yield _number(used), reason, read_at, source, *moving, card.uuid, host.pk, host.pk


def _fields(reading: GpuReading, facts: HostFacts, source: str) -> dict[str, object]:
    used = reading.memory_used
    fields: dict[str, object] = {
        "used_mib": None if isinstance(used, Unknown) else used,
        "unread_reason": used.reason if isinstance(used, Unknown) else "",
        "read_at": facts.measured_at,
        "source": source,
        "present": True,
        "total_mib": _number(reading.memory_total),
        "utilization_percent": _number(reading.utilization_percent),
        "temperature_c": _number(reading.temperature_c),
        "power_w": _number(reading.power_watts),
    }
    if not isinstance(reading.index, Unknown):
        fields["index"] = reading.index
    if reading.name:
        fields |= {"name": reading.name, "bus_id": reading.bus_id, "driver_version": reading.driver_version}
        fields |= {"display": reading.display}
    return fields


def _number(value: float | Unknown) -> float | None:
    return None if isinstance(value, Unknown) else value


def reached(host: Host, facts: HostFacts) -> None:
    """The host has answered."""
    boot, name = ("", "") if isinstance(facts.host, Unknown) else (facts.host.boot_id, facts.host.hostname)
    seen = {
        "boot_id": boot or host.boot_id,
        "hostname": (name or host.hostname)[:255],
        "last_seen_at": facts.measured_at,
    }
    _reach(host, Host.Reach.REACHABLE, "", problem="", hint="", **seen)


def not_reached(host: Host, error: TransportError, *, owner: str = "") -> None:
    """The host has not answered: why, and what to do. An unknown host key is kept for a person to compare.

    ``owner`` as in ``reached``.
    """
    if isinstance(error, HostKeyUnknown | HostKeyChanged):
        host.keys.get_or_create(
            key_type=error.key.key_type,
            fingerprint=error.key.fingerprint,
            defaults={"key_base64": error.key.key_base64},
        )
    _reach(host, Host.Reach.UNREACHABLE, owner, problem=str(error), hint=error.hint)


def _reach(host: Host, reach: Host.Reach, owner: str, **fields: object) -> None:
    row = Host.held(host.pk, owner) if owner else Host.objects.filter(pk=host.pk)
    if row.exclude(reach=reach).update(reach=reach, reach_since=timezone.now()):
        hints.hint("overview")
    row.update(**fields)
