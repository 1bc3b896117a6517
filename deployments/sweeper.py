"""Finds what a lost doorbell or a dead worker left lying, and rings again. Safe to run many times at once."""

from __future__ import annotations

import logging
import threading
from datetime import timedelta

from django.db import close_old_connections, transaction
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils import timezone

from controlpanel import audit
from controlpanel.live import hints
from deployments import services, tasks
from deployments.lifecycle import CLAIMABLE, JobState
from deployments.models import Gate, Job

logger = logging.getLogger(__name__)

EVERY_SECONDS = 5.0
RING_AGAIN = timedelta(seconds=10)


def sweep() -> None:
    """Expire approvals that came to nothing, and ring for every job that nobody works on though somebody should."""
    for gate in Gate.objects.filter(answered_at=None, expires_at__lt=timezone.now(), job__state=JobState.WAITING):
        _expire(gate)
    for job_id in _left_lying():
        tasks.ring(job_id)


def _left_lying() -> list[int]:
    """Jobs whose lease has lapsed, or whose time to be rung has come; each is put off so that it is rung once."""
    nobody = Q(lease_until=None) | Q(lease_until__lt=Now())
    lapsed = Q(state=JobState.RUNNING) & (Q(ring_at=None) | Q(ring_at__lt=Now()))
    due = Q(state__in=CLAIMABLE, ring_at__lt=Now())
    left = nobody & (lapsed | due)
    found = []
    for job_id in Job.objects.filter(left).values_list("pk", flat=True):
        if Job.objects.filter(left, pk=job_id).update(ring_at=timezone.now() + RING_AGAIN):
            found.append(job_id)
    return found


def _expire(gate: Gate) -> None:
    with transaction.atomic():
        now = timezone.now()
        if not Gate.objects.filter(pk=gate.pk, answered_at=None).update(answered_at=now, answer="expired"):
            return
        Job.objects.filter(pk=gate.job_id, state=JobState.WAITING).update(
            state=JobState.EXPIRED,
            summary="Nobody approved in time. Nothing was touched.",
            hint="Ask again when somebody can approve.",
            ended_at=now,
            version=F("version") + 1,
        )
        services.close(gate.job_id)
        audit.record("approval expired", actor=None, target=gate.job, detail={"gate": gate.pk})
    hints.hint(f"job:{gate.job_id}")
    hints.hint("overview")


def run_forever(stop: threading.Event) -> None:
    """Sweep every 5 s until ``stop``. A sweep that fails is logged; the next one tries again."""
    while not stop.wait(EVERY_SECONDS):
        try:
            close_old_connections()
            sweep()
        except Exception:  # a sweeper must outlive whatever the database or the broker do
            logger.exception("a sweep failed; the next one comes in %s s", EVERY_SECONDS)
