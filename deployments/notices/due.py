"""What somebody must be told by chat or mail, once: written down here, sent by a worker."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from controlpanel.access import Action, may
from controlpanel.sealing import CannotUnseal
from deployments import tasks
from deployments.attention import attention
from deployments.models import Notice, NoticeAddress
from deployments.notices.sending import Unsent, send

PAUSES = (timedelta(seconds=30), timedelta(minutes=5), timedelta(minutes=30))
"""After a try that failed; then it is given up."""
_one_at_a_time = threading.Lock()
KEPT = timedelta(days=30)
"""Longer than anything is news."""
CLAIMED = timedelta(minutes=2)
"""Longer than one try takes: after that the worker has died."""


def note_and_ring() -> None:
    """Write down what is new for each address, and ring for what is due. Safe to run many times at once."""
    told: dict[int, list[dict[str, Any]]] = {}
    for address in NoticeAddress.objects.select_related("user", "deployment"):
        if may(address.user, Action.LOOK):
            if address.user_id not in told:
                told[address.user_id] = attention(address.user)
            note(address, told[address.user_id])
    for pk in Notice.objects.filter(due_at__lt=Now()).values_list("pk", flat=True):
        tasks.ring_notice(pk)
    Notice.objects.filter(Q(due_at=None), made_at__lt=timezone.now() - KEPT).delete()


def note(address: NoticeAddress, items: list[dict[str, Any]]) -> None:
    """What has come since the address is known and was not told yet. ``items``: its user's attention."""
    found = [item for item in items if _is_meant(address, item)]
    known = set(Notice.objects.filter(address=address).values_list("key", flat=True)) if found else set()
    shown, now = ("key", "title", "text", "path"), timezone.now()
    fresh = [{name: item[name] for name in shown} for item in found if item["key"] not in known]
    Notice.objects.bulk_create(
        [Notice(address=address, due_at=now, **item) for item in fresh],
        ignore_conflicts=True,  # another sweeper has written it down meanwhile
    )


def _is_meant(address: NoticeAddress, item: dict[str, Any]) -> bool:
    if not item["at"] or datetime.fromisoformat(item["at"]) < address.created_at:
        return False
    return address.deployment is None or address.deployment.name in item["about"]


def deliver(notice_id: int) -> None:
    """Try to send one that is due, unless another worker does."""
    if not _one_at_a_time.acquire(blocking=False):
        return  # the sweeper rings again in a few seconds; jobs need this process's threads more
    try:
        _deliver(notice_id)
    finally:
        _one_at_a_time.release()


def _deliver(notice_id: int) -> None:
    now = timezone.now()
    if not Notice.objects.filter(pk=notice_id, due_at__lt=now).update(due_at=now + CLAIMED):
        return
    notice = Notice.objects.select_related("address").get(pk=notice_id)
    problem = _try(notice)
    tries = notice.tries + 1
    again = problem is not None and tries <= len(PAUSES)
    Notice.objects.filter(pk=notice_id).update(
        tries=tries,
        due_at=now + PAUSES[tries - 1] if again else None,
        sent_at=None if problem else timezone.now(),
        problem=problem.reason if problem else "",
    )


def _try(notice: Notice) -> Unsent | None:
    try:
        url = notice.address.open()
    except CannotUnseal as error:
        return Unsent(error.message)
    return send(url, title=notice.title, text=f"{notice.text}\n{link_to(notice.path)}".strip())


def link_to(path: str) -> str:
    """The whole address of a page, where it is known how browsers reach the panel; else nothing."""
    return f"{settings.PANEL_URL.geturl()}{path}" if settings.PANEL_URL else ""
