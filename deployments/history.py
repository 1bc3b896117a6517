"""Finds jobs of the past, page by page: by key, never by counting, and in bounded time also where logs are read."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from django.db.models import Exists, OuterRef, Q, QuerySet

from controlpanel.times import midnight
from deployments.models import Job, LogChunk

PAGE = 50
LOOK_SECONDS = 0.05
"""How long a page may read logs. What is not read by then is left to the next page, which begins there."""
FEW, MANY = 25, 800
"""Jobs whose logs are read at once: the first ones, and the most once none of many had the text."""
FIELDS = {"host": "host_name", "kind": "kind", "state": "state"}


@dataclass(frozen=True)
class Wanted:
    """What the history is narrowed to; what is empty narrows nothing. Both days count, in the panel's zone."""

    deployment: str = ""
    host: str = ""
    kind: str = ""
    state: str = ""
    person: str = ""
    since: date | None = None
    until: date | None = None
    text: str = ""

    def __bool__(self) -> bool:
        return self != Wanted()


@dataclass(frozen=True)
class Page:
    """The newest jobs before a key. ``older`` is the key of the next page; None when this is the last one."""

    jobs: list[Job]
    older: int | None
    looked_back_to: Job | None = None
    """The oldest job whose log was read, where the time was over before the page was full."""


def narrowed(wanted: Wanted) -> QuerySet[Job]:
    """The jobs that fit, newest first, all but the text in their logs."""
    jobs = Job.objects.order_by("-pk").filter(
        **{lookup: value for name, lookup in FIELDS.items() if (value := getattr(wanted, name))}
    )
    if wanted.deployment:
        jobs = jobs.filter(_concerns(wanted.deployment))
    if wanted.person:
        jobs = jobs.filter(Q(requested_by_name=wanted.person) | Q(approved_by_name=wanted.person))
    if wanted.since:
        jobs = _from(jobs, midnight(wanted.since))
    if wanted.until and wanted.until < date.max:
        jobs = _before(jobs, midnight(wanted.until + timedelta(days=1)))
    return jobs


def _concerns(deployment: str) -> Q:
    """Its own jobs, and those by which it was replaced; they are few, so that the rest is still found by its index."""
    replaced = list(Job.objects.filter(replaces__name=deployment).values_list("pk", flat=True))
    own = Q(deployment_name=deployment)
    return own | Q(pk__in=replaced) if replaced else own


def found(wanted: Wanted) -> QuerySet[Job]:
    """All jobs that fit, also by their logs: for an export, which takes its time."""
    jobs = narrowed(wanted)
    return jobs.filter(Exists(_saying(wanted.text).filter(job=OuterRef("pk")))) if wanted.text else jobs


def page(wanted: Wanted, *, before: int | None, clock: Callable[[], float] = time.monotonic) -> Page:
    """The next page of the jobs that fit, each as a list shows it."""
    jobs = narrowed(wanted)
    if before is not None:
        jobs = jobs.filter(pk__lt=before)
    if wanted.text:
        return _page_of_text(jobs, wanted.text, until=clock() + LOOK_SECONDS, clock=clock)
    keys = list(jobs.values_list("pk", flat=True)[: PAGE + 1])
    return Page(_shown(keys[:PAGE]), keys[PAGE - 1] if len(keys) > PAGE else None)


def _page_of_text(jobs: QuerySet[Job], text: str, *, until: float, clock: Callable[[], float]) -> Page:
    """Read logs from the newest job on, until the page is full or the time is over."""
    hits: list[int] = []
    many, last = FEW, None
    while len(hits) <= PAGE:
        rest = jobs if last is None else jobs.filter(pk__lt=last)
        keys = list(rest.values_list("pk", flat=True)[:many])
        hits += sorted(set(_saying(text).filter(job__in=keys).values_list("job_id", flat=True)), reverse=True)
        if len(keys) < many:
            break
        last, many = keys[-1], min(MANY, many * 2)
        if clock() > until and len(hits) <= PAGE:
            return Page(_shown(hits), last, looked_back_to=Job.objects.get(pk=last))
    return Page(_shown(hits[:PAGE]), hits[PAGE - 1] if len(hits) > PAGE else None)


def _saying(text: str) -> QuerySet[LogChunk]:
    return LogChunk.objects.order_by().filter(text__icontains=text)


def _shown(keys: list[int]) -> list[Job]:
    """The jobs as a list shows them, newest first, without what only their own pages show."""
    jobs = Job.objects.filter(pk__in=keys).order_by("-pk").defer("plan", "traceback", "diagnosis", "hint")
    return list(jobs.select_related("revision__profile", "replaces").prefetch_related("steps", "gates"))


def _from(jobs: QuerySet[Job], moment: datetime) -> QuerySet[Job]:
    """Those asked for at ``moment`` or later. Their keys rise with the time, so that the newest are found by key."""
    first = Job.objects.filter(created_at__gte=moment).order_by("created_at").values_list("pk", flat=True).first()
    return jobs.none() if first is None else jobs.filter(pk__gte=first, created_at__gte=moment)


def _before(jobs: QuerySet[Job], moment: datetime) -> QuerySet[Job]:
    """Those asked for before ``moment``."""
    last = Job.objects.filter(created_at__lt=moment).order_by("-created_at").values_list("pk", flat=True).first()
    return jobs.none() if last is None else jobs.filter(pk__lte=last, created_at__lt=moment)
