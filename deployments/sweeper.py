"""Finds what a lost doorbell or a dead worker left lying, and rings again. Safe to run many times at once."""

from __future__ import annotations

import logging
import threading
from datetime import timedelta

from django.db import close_old_connections, transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from controlpanel import audit
from controlpanel.live import hints
from deployments import tasks
from deployments.lifecycle import ASK_AGAIN, CLAIMABLE, GateKind, JobState
from deployments.models import Gate, Job
from deployments.notices import due
from deployments.secrets import forget_retired

logger = logging.getLogger(__name__)

EVERY_SECONDS = 5.0
RING_AGAIN = timedelta(seconds=10)


def sweep() -> None:
    """Ring for every job that nobody works on though somebody should, and expire approvals that came to nothing.

    Secrets that are out of use, and that no server has any more, are deleted. Who is to be told something is told.
    """
    for job_id in [*_left_lying(), *_due()]:
        tasks.ring(job_id)
    for gate in Gate.objects.filter(answered_at=None, expires_at__lt=timezone.now(), job__state=JobState.WAITING):
        _expire(gate)
    forget_retired()
    due.note_and_ring()


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


def _due() -> list[int]:
    """Jobs that wait for a moment rather than for a person, and are to look again."""
    waits = Gate.objects.filter(kind=GateKind.WHEN_IDLE, answered_at=None, job__ring_at__lt=Now())
    again = {"state": JobState.QUEUED, "ring_at": timezone.now() + RING_AGAIN}
    found = waits.filter(job__state=JobState.WAITING).values_list("job_id", flat=True)
    return [pk for pk in found if Job.objects.filter(pk=pk, state=JobState.WAITING).update(**again)]


def _expire(gate: Gate) -> None:
    """Nobody approved in time: the job ends, by a worker if it has touched a host."""
    with transaction.atomic():
        ended = Job.end_untouched(
            gate.job_id,
            state=JobState.EXPIRED,
            summary="Nobody approved in time. Nothing was touched.",
            hint=ASK_AGAIN,
            among=(JobState.WAITING,),
        )
        if not ended:
            Job.ask_to_end(gate.job_id, by="nobody in time")
        if not gate.close(answer="expired"):
            transaction.set_rollback(True)
            return
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
