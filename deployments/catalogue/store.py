"""Keep what was read of an engine's flags, and do the readings that people ask for."""

from __future__ import annotations

from typing import Any

from django.db import close_old_connections
from django.utils import timezone

from controlpanel.live import hints
from deployments.catalogue.model import Catalogue
from deployments.catalogue.program import Program, program_from
from deployments.catalogue.reading import Same, read
from deployments.models import FlagCatalogue
from hosts import links
from hosts.models import Host
from hosts.probe.frames import Unknown
from hosts.transport.base import TransportError


def known(host: Host, program: Program) -> FlagCatalogue | None:
    """What is stored of a program on a host."""
    return FlagCatalogue.objects.filter(host=host, engine=program.engine, key=program.digest).first()


def keep(host: Host, program: Program, found: Catalogue | Same | Unknown) -> FlagCatalogue:
    """Store what a reading has found. What was known before stays when it has found nothing."""
    row, _ = FlagCatalogue.objects.update_or_create(
        host=host,
        engine=program.engine,
        key=program.digest,
        defaults={"program": program.key, "how": program.plain(), **_fields(found)},
    )
    return row


def _fields(found: Catalogue | Same | Unknown) -> dict[str, Any]:
    now = timezone.now()
    if isinstance(found, Unknown):
        return {"finished_at": now, "problem": found.reason, "hint": ""}
    fields: dict[str, Any] = {"finished_at": now, "read_at": now, "problem": "", "hint": ""}
    if isinstance(found, Catalogue):
        fields |= {
            "version": found.version,
            "interpreter": found.interpreter,
            "package": found.package,
            "stamp": found.stamp,
            "source": found.source,
            "gaps": list(found.gaps),
            "flags": [flag.plain() for flag in found.flags],
        }
    return fields


def run_reading(row_id: int) -> None:
    """Do one reading that was asked for. Rung twice, it runs once."""
    close_old_connections()
    if not FlagCatalogue.objects.filter(pk=row_id, started_at=None, finished_at=None).update(started_at=timezone.now()):
        return
    row = FlagCatalogue.objects.select_related("host", "host__via").get(pk=row_id)
    program = program_from(row.how)
    try:
        with links.borrow(row.host) as transport:
            keep(row.host, program, read(transport, program))
    except TransportError as error:
        fields = {"finished_at": timezone.now(), "problem": str(error), "hint": error.hint}
        FlagCatalogue.objects.filter(pk=row_id).update(**fields)
    finally:
        hints.hint(f"flags:{row_id}")
