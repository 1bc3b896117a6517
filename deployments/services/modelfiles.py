"""Ask for the files of a model on a host to be read."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from controlpanel import audit
from controlpanel.access import Action, require
from deployments import tasks
from deployments.models import ModelOnHost
from deployments.models.modelfiles import key_of
from hosts.models import Host


def request_model(host: Host, path: str, workdir: str, *, actor: User, address: str) -> ModelOnHost:
    """Ask a worker to read what decides about memory in a model's files. One reading of a model runs at a time."""
    require(actor, Action.TEST_HOST)
    with transaction.atomic():
        row, _ = ModelOnHost.objects.select_for_update().get_or_create(
            host=host, key=key_of(path, workdir), defaults={"path": path, "workdir": workdir}
        )
        if row.is_being_read:
            return row
        row.requested_at, row.started_at, row.finished_at = timezone.now(), None, None
        row.save(update_fields=["requested_at", "started_at", "finished_at"])
        audit.record("read model", actor=actor, target=host, detail={"path": path}, address=address)
        transaction.on_commit(lambda: tasks.ring_model(row.pk), robust=True)
    return row
