"""The audit page: who did what, when and from where."""

from __future__ import annotations

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from controlpanel.access import Action, requires
from controlpanel.audit import verify_chain
from controlpanel.models import AuditEntry

PAGE = 100


class Filter(forms.Form):
    """What the list is narrowed to; an empty field means all."""

    person = forms.CharField(required=False, label="Who", max_length=150)
    action = forms.CharField(required=False, label="What contains", max_length=64)
    target = forms.CharField(required=False, label="On what", max_length=200)
    since = forms.DateField(required=False, label="From", widget=forms.DateInput(attrs={"type": "date"}))
    until = forms.DateField(required=False, label="To", widget=forms.DateInput(attrs={"type": "date"}))


LOOKUPS = {
    "person": "actor_name",
    "action": "action__icontains",
    "target": "target_name__icontains",
    "since": "at__date__gte",
    "until": "at__date__lte",
}


@require_GET
@requires(Action.LOOK)
def audit(request: HttpRequest) -> HttpResponse:
    """The entries, newest first; ``before`` is the number a page begins below, ``verify`` walks the chain."""
    form = Filter(request.GET)
    form.is_valid()
    wanted = {LOOKUPS[name]: value for name, value in form.cleaned_data.items() if value}
    found = AuditEntry.objects.filter(**wanted)
    before = request.GET.get("before", "")
    if before.isdecimal() and len(before) < 19:
        found = found.filter(number__lt=int(before))
    page = list(found[: PAGE + 1])
    context = {
        "form": form,
        "entries": page[:PAGE],
        "older": page[PAGE - 1].number if len(page) > PAGE else None,
        "paged": bool(before),
        "filtered": bool(wanted),
        "chain": verify_chain() if "verify" in request.GET else None,
    }
    return render(request, "controlpanel/audit.html", context)
