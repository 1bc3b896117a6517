"""The form that asks to replace a deployment by another on its cards. It makes a job that plans first."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods

from controlpanel.access import Action, requires
from controlpanel.views.asking import asking
from deployments import services
from deployments.lifecycle import ServiceState
from deployments.models import Deployment
from deployments.services.replacing import weighed
from deployments.views import board

TEMPLATE = "deployments/replace_form.html"


class ReplaceForm(forms.Form):
    """By which deployment, why, and the way back."""

    by = forms.ChoiceField(error_messages={"required": "Choose the deployment that takes its place."})
    reason = forms.CharField(
        label="Why", max_length=2000, widget=forms.Textarea(attrs={"rows": 2}),
        help_text="For the approver and the history.",
    )  # fmt: skip
    way_back = forms.BooleanField(
        label="If it fails, start again what was serving", required=False, initial=True,
        help_text="So that nobody has to be awake for a roll-back. Unticked, the job asks.",
    )  # fmt: skip
    request_key = forms.UUIDField(widget=forms.HiddenInput)

    def __init__(self, *args: Any, found: list[Deployment], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["by"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [(str(one.pk), one.name) for one in found]


@require_http_methods(["GET", "POST"])
@requires(Action.ASK)
def replace(request: HttpRequest, pk: int) -> HttpResponse:
    """Choose what takes its place, and say why; the answer is the job's page with its plan."""
    known = Deployment.objects.exclude(state=ServiceState.RELEASED).select_related("profile", "revision__profile")
    old = get_object_or_404(known, pk=pk)
    known_there = weighed(old)
    found = [one for one, why_not in known_there if not why_not]
    context: dict[str, Any] = {"deployment": old, "row": board.rows(Deployment.objects.filter(pk=pk))[0]}
    context["candidates"] = board.rows(Deployment.objects.filter(pk__in=[one.pk for one in found]))
    context["not_offered"] = [(one, why_not) for one, why_not in known_there if why_not]
    if request.method == "GET":
        chosen = request.GET.get("by") or (str(found[0].pk) if len(found) == 1 else "")
        form = ReplaceForm(found=found, initial={"request_key": uuid4(), "by": chosen})
        return render(request, TEMPLATE, context | {"form": form})
    form = ReplaceForm(request.POST, found=found)
    if not form.is_valid():
        return render(request, TEMPLATE, context | {"form": form}, status=422)
    said = form.cleaned_data
    by = next(one for one in found if str(one.pk) == said["by"])
    fields = {name: said[name] for name in ("reason", "way_back", "request_key")}
    try:
        job = services.request_replacement(old, by=by, **fields, **asking(request))
    except services.Refused as refused:
        return render(request, TEMPLATE, context | {"form": form, "refused": refused}, status=409)
    return redirect("deployments:job", pk=job.pk)
