"""Ask for the flags of an engine on a host to be read."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from controlpanel import audit
from controlpanel.access import Action, require
from deployments import tasks
from deployments.catalogue.program import Program
from deployments.models import FlagCatalogue
from hosts.models import Host


def request_flags(host: Host, program: Program, *, actor: User, address: str) -> FlagCatalogue:
    """Ask a worker to read the flags of a program's engine on a host. One reading of a program runs at a time."""
    require(actor, Action.TEST_HOST)
    with transaction.atomic():
        row, _ = FlagCatalogue.objects.select_for_update().get_or_create(
            host=host,
            engine=program.engine,
            key=program.digest,
            defaults={"program": program.key, "how": program.plain()},
        )
        if row.is_being_read:
            return row
        row.requested_at, row.started_at, row.finished_at = timezone.now(), None, None
        row.how = program.plain()
        row.save(update_fields=["requested_at", "started_at", "finished_at", "how"])
        audit.record("read flags", actor=actor, target=host, detail={"program": row.program}, address=address)
        transaction.on_commit(lambda: tasks.ring_flags(row.pk), robust=True)
    return row
