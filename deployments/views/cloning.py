"""Clone a deployment to another host: choose the place, look at what differs, then make it."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from controlpanel.access import Action, requires
from controlpanel.forms import readable
from controlpanel.views.asking import asking
from deployments import services
from deployments.cloning.rows import named, version_there
from deployments.engines.registry import ENGINES
from deployments.fit.estimate import KV_FLAGS
from deployments.forms import PLAIN
from deployments.models import CloneCheck, Deployment
from deployments.views.cardchoices import card_choices
from deployments.views.fitthere import Place, Tried, tried
from hosts.models import Gpu, Host

GOOD = ("ok", "info")


class CloneForm(forms.Form):
    """The name and the place of the clone."""

    name = forms.CharField(label="Name", max_length=64, widget=forms.TextInput(attrs=PLAIN))
    host = forms.ModelChoiceField(label="Host", queryset=Host.objects.none(), empty_label="choose a host")
    gpus = forms.MultipleChoiceField(label="Cards", required=False)

    def __init__(self, *args: Any, source: Deployment, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        here = [place.host_id] if (place := source.place) else []  # its host may have been removed
        host, gpus = self.fields["host"], self.fields["gpus"]
        assert isinstance(host, forms.ModelChoiceField) and isinstance(gpus, forms.MultipleChoiceField)
        host.queryset = Host.objects.exclude(pk__in=here)
        self.all_gpus = list(Gpu.objects.filter(present=True).exclude(host__in=here).select_related("host"))
        gpus.choices = [(gpu.uuid, str(gpu)) for gpu in self.all_gpus]

    def clean_name(self) -> str:
        """A name that can be seen."""
        return readable(self.cleaned_data["name"])

    def clean(self) -> dict[str, Any]:
        """Keep only cards of the chosen host: others may still be ticked behind it."""
        cleaned = super().clean() or self.cleaned_data
        host = cleaned.get("host")
        own = {gpu.uuid for gpu in self.all_gpus if host and gpu.host_id == host.pk}
        cleaned["gpus"] = [uuid for uuid in cleaned.get("gpus", []) if uuid in own]
        if host and own and not cleaned["gpus"]:
            self.add_error("gpus", f"Tick the cards of {host} that the server is to use.")
        return cleaned


@require_http_methods(["GET", "POST"])
@requires(Action.EDIT_DEPLOYMENT)
def clone(request: HttpRequest, pk: int) -> HttpResponse:
    """Choose the place; the answer is the page of the check there."""
    deployment = get_object_or_404(Deployment.objects.select_related("revision__profile"), pk=pk)
    initial = {"name": _free_name(deployment.name)}
    form = CloneForm(request.POST or None, source=deployment, initial=initial)
    if request.method == "GET":
        return _form(request, deployment, form)
    if not form.is_valid():
        return _form(request, deployment, form, status=422)
    said = form.cleaned_data
    try:
        check = services.request_clone_check(
            deployment, name=said["name"], host=said["host"], gpu_uuids=said["gpus"], **asking(request)
        )
    except services.Refused as refused:
        return _form(request, deployment, form, refused=refused, status=409)
    return redirect(check.get_absolute_url())


def _free_name(name: str) -> str:
    taken = set(Deployment.objects.values_list("name", flat=True))
    return next(found for number in range(2, 10_000) if (found := f"{name[:58]}-{number}") not in taken)


def _form(
    request: HttpRequest, deployment: Deployment, form: CloneForm, *, status: int = 200, **more: Any
) -> HttpResponse:
    hosts: QuerySet[Host] = form.fields["host"].queryset  # type: ignore[attr-defined]
    place = deployment.place
    context = {
        "deployment": deployment,
        "form": form,
        **card_choices(form.all_gpus, hosts),
        "uses": named([gpu.name for gpu in place.gpus]) if place is not None else "",
        "ticked": form["gpus"].value() or [],
        "has_hosts": hosts.exists(),
        **more,
    }
    return render(request, "deployments/clone.html", context, status=status)


@require_GET
@requires(Action.LOOK)
def check(request: HttpRequest, pk: int) -> HttpResponse:
    """What differs there; with ``?part`` only the piece that is fetched again when the check has ended."""
    template = "deployments/_clone_check.html" if "part" in request.GET else "deployments/clone_check.html"
    return render(request, template, _context(_check(pk)))


@require_POST
@requires(Action.EDIT_DEPLOYMENT)
def create(request: HttpRequest, pk: int) -> HttpResponse:
    """Make the deployment that was checked, or look once more."""
    found = _check(pk)
    place = {"name": found.name, "host": found.host, "gpu_uuids": found.gpu_uuids}
    try:
        if "again" in request.POST:
            return redirect(
                services.request_clone_check(found.deployment, **place, **asking(request)).get_absolute_url()
            )
        made = services.clone_deployment(found, **asking(request))
    except services.Refused as refused:
        context = _context(found) | {"refused": refused}
        return render(request, "deployments/clone_check.html", context, status=409)
    messages.success(
        request, f"{made} is created on {found.host}. Nothing is started yet, and {found.deployment} stays as it is."
    )
    return redirect("deployments:deployment", pk=made.pk)


def _check(pk: int) -> CloneCheck:
    return get_object_or_404(
        CloneCheck.objects.select_related("deployment__revision__profile", "revision__profile", "host__via"), pk=pk
    )


def _context(check: CloneCheck) -> dict[str, Any]:
    there = _fits_there(check) if check.finished_at and not check.problem else None
    rows = [*check.rows, *([there.fit] if there is not None and there.fit else [])]
    return {
        "check": check,
        "deployment": check.deployment,
        "rows": len(rows),
        "differing": sum(row["status"] not in GOOD for row in rows),
        "otherwise": [row["label"] for row in check.rows if row["status"] == "info" and row["here"] != row["there"]],
        "tried": there,
    }


def _fits_there(check: CloneCheck) -> Tried | None:
    """By the model's files as the check has read them; None for an engine whose needs nobody knows."""
    revision = check.revision
    engine = ENGINES.get(revision.profile.engine) if revision is not None else None
    if revision is None or engine is None or engine.key not in KV_FLAGS:
        return None
    place = Place("", check.name, check.host, check.gpu_uuids)
    return tried(engine, revision, place, version=version_there(check.rows, engine.label))
