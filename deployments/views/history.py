"""The history of jobs: search, export, and a job's whole log as a file."""

from __future__ import annotations

import csv
import io
import re
from typing import Any

from django import forms
from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET

from controlpanel.access import Action, requires
from deployments.lifecycle import JobKind, JobState, choices
from deployments.models import Deployment, Job, LogChunk
from deployments.views.streaming import streamed
from hosts.models import Host

PAGE = 50
ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
COLUMNS = (
    "id", "kind", "state", "deployment_name", "host_name", "revision", "requested_by_name", "approved_by_name",
    "reason", "summary", "created_at", "started_at", "ended_at",
)  # fmt: skip


class Filter(forms.Form):
    """What the history is narrowed to; an empty field means all."""

    deployment = forms.CharField(required=False, label="Deployment")
    host = forms.CharField(required=False, label="Host")
    kind = forms.ChoiceField(required=False, label="Kind", choices=[("", "all"), *choices(JobKind)])
    state = forms.ChoiceField(required=False, label="State", choices=[("", "all"), *choices(JobState)])
    person = forms.CharField(required=False, label="Asked or approved by")
    since = forms.DateField(required=False, label="From", widget=forms.DateInput(attrs={"type": "date"}))
    until = forms.DateField(required=False, label="To", widget=forms.DateInput(attrs={"type": "date"}))
    text = forms.CharField(required=False, label="Text in the log", max_length=200)

    def apply(self, jobs: QuerySet[Job]) -> QuerySet[Job]:
        """``jobs`` narrowed; a field that makes no sense narrows nothing and shows its error."""
        self.is_valid()
        wanted = {key: value for key, value in self.cleaned_data.items() if value}
        lookups = {
            "deployment": "deployment_name", "host": "host_name", "kind": "kind", "state": "state",
            "since": "created_at__date__gte", "until": "created_at__date__lte",
        }  # fmt: skip
        jobs = jobs.filter(**{lookups[key]: value for key, value in wanted.items() if key in lookups})
        if "person" in wanted:
            by = wanted["person"]
            jobs = jobs.filter(requested_by_name=by) | jobs.filter(approved_by_name=by)
        if "text" in wanted:
            hits = LogChunk.objects.filter(job=OuterRef("pk"), text__icontains=wanted["text"])
            jobs = jobs.filter(Exists(hits))
        return jobs


@require_GET
@requires(Action.LOOK)
def jobs(request: HttpRequest) -> HttpResponse:
    """The jobs, newest first. Pages go by job number (``before``), so a page keeps its content and is never slow."""
    form = Filter(request.GET)
    found = form.apply(Job.objects.order_by("-pk"))
    before = request.GET.get("before", "")
    if before.isdecimal() and len(before) < 19:
        found = found.filter(pk__lt=int(before))
    page = list(found.select_related("revision__profile").prefetch_related("steps", "gates")[: PAGE + 1])
    context: dict[str, Any] = {
        "form": form,
        "jobs": page[:PAGE],
        "older": page[PAGE - 1].pk if len(page) > PAGE else None,
        "paged": bool(before),
        "filtered": any(request.GET.get(name) for name in form.fields),
        "deployment_names": Deployment.objects.values_list("name", flat=True),
        "host_names": Host.objects.values_list("name", flat=True),
    }
    return render(request, "deployments/jobs.html", context)


@require_GET
@requires(Action.LOOK)
def export(request: HttpRequest) -> HttpResponseBase:
    """The same jobs as a CSV file, all pages of them."""
    found = Filter(request.GET).apply(Job.objects.order_by("-pk")).select_related("revision__profile")
    return streamed(
        request, found, write=lambda job: csv_line([getattr(job, name) for name in COLUMNS]),
        head=csv_line(COLUMNS), name="relaunch-jobs.csv", content_type="text/csv",
    )  # fmt: skip


def csv_line(values: Any) -> str:
    """One line of CSV in which no cell can be taken for a formula by a spreadsheet program."""
    line = io.StringIO()
    csv.writer(line).writerow([_harmless(value) for value in values])
    return line.getvalue()


def _harmless(value: object) -> str:
    text = "" if value is None else value.isoformat() if hasattr(value, "isoformat") else str(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


@require_GET
@requires(Action.LOOK)
def log_text(request: HttpRequest, pk: int) -> HttpResponseBase:
    """The whole log of a job as text; ``?colors=no`` leaves the terminal's colours out."""
    job = get_object_or_404(Job, pk=pk)
    plain = request.GET.get("colors") == "no"
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", f"job-{job.pk}-{job.kind}-{job.deployment_name}")
    return streamed(
        request, LogChunk.objects.filter(job=job).order_by("seq"), write=lambda chunk: _text(chunk, plain=plain),
        head="", name=f"{name}.txt", content_type="text/plain",
    )  # fmt: skip


def _text(chunk: LogChunk, *, plain: bool) -> str:
    text = ESCAPES.sub("", chunk.text) if plain else chunk.text
    if chunk.source == LogChunk.Source.PANEL:
        text = "".join(f"[relaunch] {line}\n" for line in text.splitlines())
    if chunk.dropped and not text:
        return f"[relaunch] {chunk.dropped} bytes of the server's log were dropped here\n"
    return text
