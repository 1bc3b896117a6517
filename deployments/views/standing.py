"""Standing approvals: listed where they count, given by an approver on a page of their own, revoked with one click."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from controlpanel.access import Action, requires
from controlpanel.forms import PlainIntegerField
from controlpanel.views.asking import asking
from deployments import services
from deployments.models import Deployment, StandingApproval
from deployments.services.standing import LONGEST_DAYS, LONGEST_LEASE
from hosts.models import Host

FORM = "deployments/standing_form.html"
LEASE = "deployments/lease_form.html"


class CrashForm(forms.Form):
    """For how long a deployment may be started again after a crash, and why."""

    days = PlainIntegerField(label="For how long", min_value=1, max_value=LONGEST_DAYS, initial=30)
    reason = forms.CharField(label="Why", required=False, max_length=2000, widget=forms.Textarea(attrs={"rows": 2}))


class LeaseForm(forms.Form):
    """Which cards, for how long, and why."""

    gpus = forms.MultipleChoiceField(label="Cards", error_messages={"required": "Tick the cards that you tune on."})
    hours = PlainIntegerField(label="For how long", min_value=1, max_value=LONGEST_LEASE, initial=4)
    reason = forms.CharField(
        label="Why", max_length=2000, widget=forms.Textarea(attrs={"rows": 2}), help_text="For the approver."
    )

    def __init__(self, *args: Any, host: Host, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.cards = list(host.gpus.filter(present=True))
        gpus = self.fields["gpus"]
        assert isinstance(gpus, forms.MultipleChoiceField)
        gpus.choices = [(gpu.uuid, str(gpu)) for gpu in self.cards]


def in_force() -> QuerySet[StandingApproval]:
    """Those that stand, with how often each was used."""
    return StandingApproval.in_force().select_related("deployment", "host", "job").annotate(uses=Count("gates"))


def about(subject: Deployment | Host | None) -> list[StandingApproval]:
    """Those that cover a deployment, or cards of a host; None: all."""
    found = in_force()
    if isinstance(subject, Host):
        return list(found.filter(host=subject))
    if subject is None:
        return list(found)
    place = subject.place
    own = Q(deployment=subject) | Q(job__deployment=subject) | Q(job__replaces=subject)
    found = found.filter(own | Q(host=place.host) if place is not None else own)
    return [each for each in found if each.host_id is None or (place is not None and each.covers(place))]


@require_http_methods(["GET", "POST"])
@requires(Action.APPROVE)
def allow(request: HttpRequest, pk: int) -> HttpResponse:
    """Let a deployment be started again after a crash."""
    found = get_object_or_404(Deployment, pk=pk)
    form = CrashForm(request.POST or None)
    context: dict[str, Any] = {"form": form, "deployment": found}
    if request.method == "GET":
        return render(request, FORM, context)
    if not form.is_valid():
        return render(request, FORM, context, status=422)
    try:
        services.allow_after_crash(found, **form.cleaned_data, **asking(request))
    except services.Refused as refused:
        return render(request, FORM, context | {"refused": refused}, status=409)
    messages.success(request, f"{found} is started again after a crash, for as long as this approval stands.")
    return redirect("deployments:deployment", pk=pk)


@require_http_methods(["GET", "POST"])
@requires(Action.ASK)
def lease(request: HttpRequest, pk: int) -> HttpResponse:
    """Ask for a tuning lease of cards of a host."""
    host = get_object_or_404(Host, pk=pk)
    form = LeaseForm(request.POST or None, host=host, initial={"gpus": request.GET.getlist("card")})
    context: dict[str, Any] = {"form": form, "host": host, "ticked": form["gpus"].value() or []}
    if request.method == "GET":
        return render(request, LEASE, context)
    if not form.is_valid():
        return render(request, LEASE, context, status=422)
    said = form.cleaned_data
    try:
        services.ask_for_lease(
            host, gpu_uuids=said["gpus"], hours=said["hours"], reason=said["reason"], **asking(request)
        )
    except services.Refused as refused:
        return render(request, LEASE, context | {"refused": refused}, status=409)
    messages.success(request, "The lease is asked for. It begins when an approver gives it, on the overview.")
    return redirect("hosts:host", pk=pk)


@require_POST
@requires(Action.APPROVE)
def give(request: HttpRequest, pk: int) -> HttpResponse:
    """Give a tuning lease that somebody has asked for."""
    found = get_object_or_404(StandingApproval.objects.select_related("host"), pk=pk)
    try:
        services.give_lease(found, **asking(request))
    except services.Refused as refused:
        return render(request, "409.html", {"refused": refused}, status=409)
    messages.success(request, f"{found.holder_name} has the lease for {found.hours} h.")
    return redirect("deployments:overview")


@require_POST
@requires(Action.LOOK)
def revoke(request: HttpRequest, pk: int) -> HttpResponse:
    """End one; who may is the service's to say."""
    found = get_object_or_404(StandingApproval.objects.select_related("deployment", "job", "host"), pk=pk)
    try:
        services.revoke_standing(found, **asking(request))
    except services.Refused as refused:
        return render(request, "409.html", {"refused": refused}, status=409)
    messages.success(request, "It is ended: nothing is approved by it any more.")
    if found.deployment_id is not None:
        return redirect("deployments:deployment", pk=found.deployment_id)
    return redirect("deployments:job", pk=found.job_id) if found.job_id else redirect("hosts:host", pk=found.host_id)
