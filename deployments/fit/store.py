"""Keep what was read of models on hosts, and do the readings that people ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import close_old_connections
from django.utils import timezone

from controlpanel.live import hints
from deployments.fit.files import ModelFiles
from deployments.fit.read import read_model_files
from deployments.fit.stored import as_data
from deployments.models import ModelOnHost
from deployments.models.modelfiles import key_of
from hosts import links
from hosts.models import Host
from hosts.probe.frames import Unknown
from hosts.transport.base import CommandTimeout, OutputTooLarge, Transport, TransportError, no_tick


def keep(host: Host, path: str, workdir: str, found: ModelFiles | Unknown) -> ModelOnHost:
    """Store what a reading has found. What was known before stays when it has found nothing."""
    row, _ = ModelOnHost.objects.update_or_create(
        host=host, key=key_of(path, workdir), defaults={"path": path, "workdir": workdir, **_fields(found)}
    )
    return row


def read_and_keep(
    transport: Transport, host: Host, path: str, workdir: str, *, timeout: float, tick: Callable[[], None] = no_tick
) -> ModelFiles | Unknown:
    """Read a model for something that does not wait long for a disk. Raises TransportError when the link is lost."""
    try:
        found = read_model_files(transport, path, workdir=workdir, timeout=timeout, tick=tick)
    except (CommandTimeout, OutputTooLarge) as error:
        found = Unknown(str(error))
    keep(host, path, workdir, found)
    return found


def _fields(found: ModelFiles | Unknown) -> dict[str, Any]:
    now = timezone.now()
    if isinstance(found, Unknown):
        return {"finished_at": now, "problem": found.reason, "hint": ""}
    return {"files": as_data(found), "finished_at": now, "read_at": now, "problem": "", "hint": ""}


def run_reading(row_id: int) -> None:
    """Do one reading that was asked for. Rung twice, it runs once."""
    close_old_connections()
    if not ModelOnHost.objects.filter(pk=row_id, started_at=None, finished_at=None).update(started_at=timezone.now()):
        return
    row = ModelOnHost.objects.select_related("host", "host__via").get(pk=row_id)
    try:
        with links.borrow(row.host) as transport:
            keep(row.host, row.path, row.workdir, read_model_files(transport, row.path, workdir=row.workdir))
    except TransportError as error:
        fields = {"finished_at": timezone.now(), "problem": str(error), "hint": error.hint}
        ModelOnHost.objects.filter(pk=row_id).update(**fields)
    finally:
        hints.hint(f"model:{row_id}")
