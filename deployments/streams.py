"""What a page may follow live: a job, its log, its memory curve, the cards of all hosts, the overview."""

from __future__ import annotations

import threading
import zlib
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from controlpanel.access import Action, may
from controlpanel.live.lastvalues import LastValues
from controlpanel.live.protocol import LARGEST_BATCH, MOST_ITEMS, Cursor
from controlpanel.live.streams import Batch, register
from deployments import logreading
from deployments.attention import attention
from deployments.lifecycle import ACTIVE
from deployments.models import (
    CloneCheck,
    Deployment,
    FlagCatalogue,
    Job,
    JobReading,
    LogChunk,
    ModelOnHost,
    Placement,
    ServerLook,
    StandingApproval,
)
from hosts.models import Gpu, Host, HostTest

STALE_AFTER = timedelta(seconds=5)
"""A reading older than this is shown grey, with its age: five intervals of the monitor, its beat included."""


class _Looks:
    """Whoever may look may follow, and all see the same."""

    shared = True

    def authorise(self, user: User, key: str) -> bool:
        """Looking is all that a stream allows."""
        return may(user, Action.LOOK)


class JobStream(_Looks):
    """``job:ID``: the version and state of a job, when they change."""

    def read(self, key: str, cursor: Cursor, user: User) -> Batch:
        """One item when the version is another than the cursor."""
        row = Job.objects.filter(pk=_number(key)).values("version", "state").first()
        if row is None:
            return Batch(cursor=cursor)
        version = f"{row['version']}.{row['state']}"
        return Batch(cursor=cursor) if version == cursor else Batch([{**row}], version)


class JobLogStream(_Looks):
    """``joblog:ID``: the chunks of a job's log after the one with number ``cursor``."""

    def read(self, key: str, cursor: Cursor, user: User) -> Batch:
        """At most one batch; its last chunk's number is the next cursor."""
        after = cursor if isinstance(cursor, int) else 0
        rows = LogChunk.objects.filter(job_id=_number(key), seq__gt=after).order_by("seq")
        chunks, more = logreading.fill(rows, size=LARGEST_BATCH, most=MOST_ITEMS)
        return Batch([logreading.item(chunk) for chunk in chunks], chunks[-1].seq if chunks else cursor, more=more)


class ReadingsStream(_Looks):
    """``readings:ID``: the memory curve of a job's cards."""

    def read(self, key: str, cursor: Cursor, user: User) -> Batch:
        """Points after the one with id ``cursor``."""
        after = cursor if isinstance(cursor, int) else 0
        rows = list(JobReading.objects.filter(job_id=_number(key), pk__gt=after).order_by("pk")[: MOST_ITEMS + 1])
        items = [
            {"id": row.pk, "uuid": row.gpu_uuid, "at": row.at.isoformat(), "used": row.used_mib}
            for row in rows[:MOST_ITEMS]
        ]
        return Batch(items, items[-1]["id"] if items else cursor, more=len(rows) > MOST_ITEMS)


class GpusStream(_Looks):
    """``gpus``: the last reading of every card; the last value wins, and only the cards that changed are told."""

    def __init__(self) -> None:
        self._cards = LastValues()
        self._lock = threading.Lock()

    def read(self, key: str, cursor: Cursor, user: User) -> Batch:
        """The cards that have changed or become stale since the cursor."""
        rows = Gpu.objects.filter(present=True).order_by()
        with self._lock:
            seen = rows.values_list("pk", "used_mib", "utilization_percent", "read_at")
            self._cards.see({pk: (used, utilization, _is_stale(at)) for pk, used, utilization, at in seen})
            told = self._cards.after(cursor)
        items = [gpu_item(gpu) for gpu in rows.filter(pk__in=told.keys).order_by("pk")] if told.keys else []
        return Batch(items, told.cursor, more=told.more)


def _is_stale(read_at: datetime | None) -> bool:
    return read_at is None or timezone.now() - read_at > STALE_AFTER


def gpu_item(gpu: Gpu) -> dict[str, Any]:
    """A card as pages get it. Memory in MiB."""
    return {
        "id": gpu.pk,
        "host": gpu.host_id,
        "uuid": gpu.uuid,
        "index": gpu.index,
        "used": gpu.used_mib,
        "total": gpu.total_mib,
        "baseline": gpu.baseline_mib,
        "util": gpu.utilization_percent,
        "temp": gpu.temperature_c,
        "read_at": gpu.read_at.isoformat() if gpu.read_at else None,
        "unread_reason": gpu.unread_reason,
        "stale": _is_stale(gpu.read_at),
    }


class OverviewStream(_Looks):
    """``overview``: one item when anything that the overview shows has changed."""

    def read(self, key: str, cursor: Cursor, user: User) -> Batch:
        """The version is put together from what the page is made of."""
        # Not all jobs: of a long history that would take half a second, every two seconds and for each page.
        last = Job.objects.order_by("-pk").values_list("pk", flat=True).first()
        jobs = list(Job.objects.filter(state__in=ACTIVE).order_by("pk").values_list("pk", "version", "state"))
        told = ("pk", "name", "production", "port", "state", "state_detail", "found", "out_of_router")
        states = list(Deployment.objects.order_by("pk").values_list(*told, "revision_id", "proven_revision_id"))
        places = list(Placement.objects.order_by("pk").values_list("deployment_id", "host_id", "gpu_uuids"))
        standing = list(StandingApproval.current().values_list("pk", "given_at"))
        hosts = list(Host.objects.order_by("pk").values_list("pk", "name", "reach", "gpu_problem", "maintenance"))
        version = f"{zlib.crc32(repr((last, jobs, states, places, hosts, standing)).encode()):08x}"
        return Batch(cursor=cursor) if version == cursor else Batch([{"version": version}], version)


class AttentionStream:
    """``attention``: what waits for this person and what failed, all of it when any of it changes."""

    shared = False

    def authorise(self, user: User, key: str) -> bool:
        """Each sees their own."""
        return may(user, Action.LOOK)

    def read(self, key: str, cursor: Cursor, user: User) -> Batch:
        """One item with all; the version is made of the keys."""
        found = attention(user)
        version = f"{zlib.crc32(repr([item['key'] for item in found]).encode()):08x}"
        return Batch(cursor=cursor) if version == cursor else Batch([{"all": found}], version)


class HostTestStream(_Looks):
    """``hosttest:ID``: one item when a host test has found something more."""

    def read(self, key: str, cursor: Cursor, user: User) -> Batch:
        """The version counts findings and the end."""
        test = HostTest.objects.filter(pk=_number(key)).first()
        if test is None:
            return Batch(cursor=cursor)
        version = f"{len(test.findings)}.{test.finished_at is not None}"
        return Batch(cursor=cursor) if version == cursor else Batch([{"version": version}], version)


class FlagsStream(_Looks):
    """``flags:ID``: one item when a reading of an engine's flags has ended."""

    def read(self, key: str, cursor: Cursor, user: User) -> Batch:
        """At most one item."""
        return _ended(
            FlagCatalogue.objects.filter(pk=_number(key)).values_list("finished_at", flat=True).first(), cursor
        )


class ModelStream(_Looks):
    """``model:ID``: one item when a reading of a model's files has ended."""

    def read(self, key: str, cursor: Cursor, user: User) -> Batch:
        """At most one item."""
        return _ended(ModelOnHost.objects.filter(pk=_number(key)).values_list("finished_at", flat=True).first(), cursor)


def _ended(ended: datetime | None, cursor: Cursor) -> Batch:
    """The version is the moment of the end; there is nothing to tell while it lasts."""
    version = str(ended.timestamp()) if ended is not None else ""
    return Batch(cursor=cursor) if version in (cursor, "") else Batch([{"ended": version}], version)


class ServersStream(_Looks):
    """``servers:ID``: one item when a look for servers has begun, and one when it has ended."""

    def read(self, key: str, cursor: Cursor, user: User) -> Batch:
        """The version is how far it has come."""
        look = ServerLook.objects.filter(pk=_number(key)).first()
        if look is None:
            return Batch(cursor=cursor)
        version = f"{look.started_at is not None}.{look.finished_at is not None}"
        return Batch(cursor=cursor) if version == cursor else Batch([{"version": version}], version)


class CloneStream(_Looks):
    """``clone:ID``: one item when the check of a clone has ended."""

    def read(self, key: str, cursor: Cursor, user: User) -> Batch:
        """At most one item."""
        return _ended(CloneCheck.objects.filter(pk=_number(key)).values_list("finished_at", flat=True).first(), cursor)


def _number(key: str) -> int:
    return int(key) if key.isdecimal() and len(key) < 19 else -1


def register_streams() -> None:
    """Name the readers of this app (called once, when Django is ready)."""
    for prefix, reader in (
        ("job", JobStream()),
        ("joblog", JobLogStream()),
        ("readings", ReadingsStream()),
        ("gpus", GpusStream()),
        ("overview", OverviewStream()),
        ("attention", AttentionStream()),
        ("hosttest", HostTestStream()),
        ("flags", FlagsStream()),
        ("model", ModelStream()),
        ("servers", ServersStream()),
        ("clone", CloneStream()),
    ):
        register(prefix, reader)
