"""The form that asks for a benchmark."""

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
from deployments.benchmark.wanted import FEWEST_TOKENS, MOST_TOKENS, USUAL_AT_ONCE, USUAL_TOKENS, Wanted, levels_from
from deployments.models import Deployment
from deployments.views import board

TEMPLATE = "deployments/benchmark_form.html"


class BenchmarkForm(forms.Form):
    """How the server is asked."""

    at_once = forms.CharField(
        label="Requests at once", max_length=60, initial=", ".join(map(str, USUAL_AT_ONCE)),
        help_text="Each number is measured by itself: 1 is one request after another.",
    )  # fmt: skip
    tokens = forms.IntegerField(
        label="Tokens of each answer", min_value=FEWEST_TOKENS, max_value=MOST_TOKENS, initial=USUAL_TOKENS,
        help_text="Keep it the same, so that figures can be compared.",
    )  # fmt: skip
    reason = forms.CharField(
        label="Why", max_length=2000, required=False, widget=forms.Textarea(attrs={"rows": 2}),
        help_text="For the history.",
    )  # fmt: skip
    request_key = forms.UUIDField(widget=forms.HiddenInput)

    def clean_at_once(self) -> tuple[int, ...]:
        """The levels. Raises ValidationError with what to write."""
        try:
            return levels_from(self.cleaned_data["at_once"])
        except ValueError as error:
            raise forms.ValidationError(str(error)) from error


@require_http_methods(["GET", "POST"])
@requires(Action.ASK)
def ask(request: HttpRequest, pk: int) -> HttpResponse:
    """Say how to measure; the answer is the job's page."""
    deployment = get_object_or_404(Deployment.objects.select_related("profile"), pk=pk)
    form = BenchmarkForm(request.POST or None, initial={"request_key": uuid4()})
    if request.method == "GET":
        return _form(request, deployment, form)
    if not form.is_valid():
        return _form(request, deployment, form, status=422)
    said = form.cleaned_data
    wanted = Wanted(said["at_once"], said["tokens"])
    more = {"reason": said["reason"], "request_key": said["request_key"]}
    try:
        job = services.request_benchmark(deployment, wanted=wanted, **more, **asking(request))
    except services.Refused as refused:
        return _form(request, deployment, form, refused=refused, status=409)
    return redirect("deployments:job", pk=job.pk)


def _form(
    request: HttpRequest, deployment: Deployment, form: BenchmarkForm, *, status: int = 200, **more: Any
) -> HttpResponse:
    row = board.rows(Deployment.objects.filter(pk=deployment.pk))[0]
    return render(request, TEMPLATE, {"deployment": deployment, "row": row, "form": form, **more}, status=status)
