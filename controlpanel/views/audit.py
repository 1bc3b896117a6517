"""The audit page: who did what, when and from where."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

from django import forms
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_GET

from controlpanel.access import Action, requires
from controlpanel.audit import verify_chain
from controlpanel.models import AuditEntry
from controlpanel.times import midnight
from controlpanel.views.export import Kind, exported

PAGE = 100


class Filter(forms.Form):
    """What the list is narrowed to; an empty field means all."""

    person = forms.CharField(required=False, label="Who", max_length=150)
    action = forms.CharField(required=False, label="What contains", max_length=64)
    target = forms.CharField(required=False, label="On what", max_length=200)
    since = forms.DateField(required=False, label="From", widget=forms.DateInput(attrs={"type": "date"}))
    until = forms.DateField(required=False, label="To", widget=forms.DateInput(attrs={"type": "date"}))


LOOKUPS = {"person": "actor_name", "action": "action__icontains", "target": "target_name__icontains"}
COLUMNS = (
    "number", "at", "actor_name", "address", "action", "target_type", "target_id", "target_name", "detail",
    "previous_hash", "hash",
)  # fmt: skip


def found(form: Filter) -> QuerySet[AuditEntry]:
    """The entries that fit, newest first; a field that makes no sense narrows nothing and shows its error."""
    form.is_valid()
    given = form.cleaned_data
    entries = AuditEntry.objects.filter(**{lookup: given[name] for name, lookup in LOOKUPS.items() if given.get(name)})
    if since := given.get("since"):
        entries = entries.filter(at__gte=midnight(since))
    if (until := given.get("until")) and until < date.max:
        entries = entries.filter(at__lt=midnight(until + timedelta(days=1)))
    return entries


@require_GET
@requires(Action.LOOK)
def audit(request: HttpRequest) -> HttpResponse:
    """The entries, newest first; ``before`` is the number a page begins below, ``verify`` walks the chain."""
    form = Filter(request.GET)
    entries = found(form)
    before = request.GET.get("before", "")
    if before.isdecimal() and len(before) < 19:
        entries = entries.filter(number__lt=int(before))
    page = list(entries[: PAGE + 1])
    context = {
        "form": form,
        "entries": page[:PAGE],
        "older": page[PAGE - 1].number if len(page) > PAGE else None,
        "paged": bool(before),
        "filtered": any(form.cleaned_data.values()),
        "chain": verify_chain() if "verify" in request.GET else None,
    }
    return render(request, "controlpanel/audit.html", context)


@require_GET
@requires(Action.LOOK)
def export(request: HttpRequest, kind: Kind) -> HttpResponseBase:
    """The same entries as a file, all pages of them, with the hashes that chain them."""
    entries = found(Filter(request.GET))
    return exported(request, entries, kind=kind, name="relaunch-audit", columns=COLUMNS, values=_values)


def _values(entry: AuditEntry) -> list[Any]:
    # The detail as the text that was hashed: whoever checks the chain needs each letter of it.
    return [entry.detail_json if column == "detail" else getattr(entry, column) for column in COLUMNS]
