"""The history of jobs: search and export."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_GET

from controlpanel.access import Action, requires
from controlpanel.templatetags.words import look
from controlpanel.views.export import Kind, exported
from deployments.history import Wanted, found, page
from deployments.lifecycle import JobKind, JobState, choices
from deployments.models import Deployment, Job
from hosts.models import Host

COLUMNS = (
    "id", "kind", "state", "deployment_name", "host_name", "revision", "requested_by_name", "approved_by_name",
    "reason", "summary", "created_at", "started_at", "ended_at",
)  # fmt: skip


STATES = [(state.value, look("job", state).word) for state in JobState]
"""In the words of the badges."""


class Filter(forms.Form):
    """What the history is narrowed to; an empty field means all."""

    deployment = forms.CharField(required=False, label="Deployment")
    host = forms.CharField(required=False, label="Host")
    kind = forms.ChoiceField(required=False, label="Kind", choices=[("", "all"), *choices(JobKind)])
    state = forms.ChoiceField(required=False, label="State", choices=[("", "all"), *STATES])
    person = forms.CharField(required=False, label="Asked or approved by")
    since = forms.DateField(required=False, label="From", widget=forms.DateInput(attrs={"type": "date"}))
    until = forms.DateField(required=False, label="To", widget=forms.DateInput(attrs={"type": "date"}))
    text = forms.CharField(required=False, label="Text in the log", max_length=200)

    def wanted(self) -> Wanted:
        """What was filled in; a field that makes no sense narrows nothing and shows its error."""
        self.is_valid()
        return Wanted(**{key: value for key, value in self.cleaned_data.items() if value})


@require_GET
@requires(Action.LOOK)
def jobs(request: HttpRequest) -> HttpResponse:
    """The jobs, newest first. Pages go by job number (``before``), so a page keeps its content and is never slow."""
    form = Filter(request.GET)
    wanted = form.wanted()
    before = request.GET.get("before", "")
    context: dict[str, Any] = {
        "form": form,
        "page": page(wanted, before=int(before) if before.isdecimal() and len(before) < 19 else None),
        "paged": bool(before),
        "filtered": bool(wanted),
        "deployment_names": Deployment.objects.values_list("name", flat=True),
        "host_names": Host.objects.values_list("name", flat=True),
    }
    return render(request, "deployments/jobs.html", context)


@require_GET
@requires(Action.LOOK)
def export(request: HttpRequest, kind: Kind) -> HttpResponseBase:
    """The same jobs as a file, all pages of them."""
    rows = found(Filter(request.GET).wanted()).select_related("revision__profile")
    return exported(request, rows, kind=kind, name="relaunch-jobs", columns=COLUMNS, values=_values)


def _values(job: Job) -> list[Any]:
    return [getattr(job, column) for column in COLUMNS]
