"""Secrets of a deployment: which there are, since when and by whom; set, replace, remove. Never what they are."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from controlpanel.access import Action, requires
from controlpanel.views.asking import asking
from deployments import commandline, services
from deployments.engines.base import Engine
from deployments.engines.registry import ENGINES
from deployments.forms import PLAIN
from deployments.models import Deployment
from deployments.plan.passing import API_KEY, ROUTER_KEY

LATER = "What runs keeps what it was started with until the next restart."


class SecretForm(forms.Form):
    """One secret of a deployment. The value is never put into the page again; ``named`` is whose it is."""

    HUB, OTHER = "HF_TOKEN", "other"

    what = forms.ChoiceField(label="What is it?", widget=forms.Select)
    name = forms.CharField(
        label="Name of the environment variable",
        required=False,
        max_length=64,
        widget=forms.TextInput(attrs=PLAIN),
        help_text="In capital letters, as the server reads it. Only for another environment variable.",
    )
    value = forms.CharField(
        label="Value",
        max_length=5000,
        widget=forms.PasswordInput(attrs=PLAIN | {"autocomplete": "new-password"}),
        help_text="It is not shown again, here or anywhere else.",
        error_messages={"required": "Paste the value."},
    )

    def __init__(self, *args: Any, engine: Engine, wanted: str = "", **kwargs: Any) -> None:
        choices = [(API_KEY, "API key: asked of its users")] if engine.takes_api_key else []
        choices += [
            (self.HUB, "HF_TOKEN: for models on Hugging Face that need a login"),
            (ROUTER_KEY, "Router key: sent when it is taken out of its router and put back"),
            (self.OTHER, "Another environment variable"),
        ]
        known = wanted in dict(choices)
        initial = {"what": wanted if known else self.OTHER, "name": "" if known else wanted} if wanted else {}
        super().__init__(*args, **kwargs)
        self.initial = {**self.initial, **initial}
        what = self.fields["what"]
        assert isinstance(what, forms.ChoiceField)
        what.choices = choices

    def clean_name(self) -> str:
        """The name when it is asked for. Raises ValidationError with what to write."""
        name: str = self.cleaned_data["name"]
        if self.cleaned_data.get("what") != self.OTHER:
            return ""
        if not name:
            raise forms.ValidationError("Write the name of the variable, for example WANDB_API_KEY.")
        try:
            commandline.check_env_name(name)
        except ValueError as error:
            raise forms.ValidationError(str(error)) from error
        return name

    def clean(self) -> dict[str, Any]:
        """Adds ``named``."""
        said = super().clean() or self.cleaned_data
        return {**said, "named": said.get("name") or said.get("what", "")}


@never_cache
@sensitive_post_parameters("value")
@require_http_methods(["GET", "POST"])
@requires(Action.SET_SECRET)
def secrets(request: HttpRequest, pk: int) -> HttpResponse:
    """The list, and the form that sets one; with ``?name=`` it is about that one."""
    found = get_object_or_404(Deployment, pk=pk)
    form = SecretForm(request.POST or None, engine=ENGINES[found.profile.engine], wanted=request.GET.get("name", ""))
    if request.method == "GET":
        return _page(request, found, form)
    if not form.is_valid():
        return _page(request, found, form, status=422)
    name = form.cleaned_data["named"]
    try:
        replaced = services.set_secret(found, name=name, value=form.cleaned_data["value"], **asking(request))
    except services.Refused as refused:
        return _page(request, found, form, refused=refused, status=409)
    messages.success(request, f"{name} is {'replaced' if replaced else 'set'}. {LATER}")
    return redirect("deployments:deployment", pk=pk)


@require_POST
@requires(Action.SET_SECRET)
def remove(request: HttpRequest, pk: int) -> HttpResponse:
    """Take one out of use."""
    found = get_object_or_404(Deployment, pk=pk)
    name = request.POST.get("name", "")
    try:
        services.remove_secret(found, name=name, **asking(request))
    except services.Refused as refused:
        return render(request, "409.html", {"refused": refused}, status=409)
    opened = " Then it answers whoever reaches its port." if name == API_KEY else ""
    messages.success(request, f"{name} is removed. {LATER}{opened}")
    return redirect("deployments:deployment", pk=pk)


def _page(request: HttpRequest, found: Deployment, form: SecretForm, *, status: int = 200, **more: Any) -> HttpResponse:
    context = {
        "deployment": found,
        "engine": ENGINES[found.profile.engine],
        "secrets": found.secrets.filter(retired_at=None),
        "form": form,
        **more,
    }
    return render(request, "deployments/secrets.html", context, status=status)
