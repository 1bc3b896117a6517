"""The form that asks for a restart, a start or a stop. It makes a job that plans first; nothing happens yet."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods

from controlpanel.access import Action, requires
from controlpanel.views.asking import asking
from deployments import services
from deployments.job_forms import JobForm
from deployments.lifecycle import JobKind
from deployments.models import Deployment, Revision, StandingApproval
from deployments.views import board
from deployments.views.gatecard import ways_to_approval
from deployments.views.measured import proof
from deployments.views.revisions import revision_numbered

TEMPLATE = "deployments/job_form.html"


@require_http_methods(["GET", "POST"])
@requires(Action.ASK)
def ask(request: HttpRequest, pk: int, kind: JobKind) -> HttpResponse:
    """Choose what to launch and say why; the answer is the job's page with its plan."""
    deployment = get_object_or_404(Deployment.objects.select_related("profile", "revision__profile"), pk=pk)
    row = board.rows(Deployment.objects.filter(pk=pk))[0]
    options = _options(deployment, running=row.running, kind=kind)
    context: dict[str, Any] = {"deployment": deployment, "row": row, "kind": kind, "options": _described(options)}
    if kind != JobKind.STOP and isinstance(request.user, User):
        context["lease"] = StandingApproval.lease_for(request.user, deployment)
    context["proof"] = proof(deployment, row.launch) if kind != JobKind.STOP else {}
    context["ways"] = ways_to_approval(deployment, user=asking(request)["actor"])
    if request.method == "GET":
        initial = {"request_key": uuid4(), **_first_choice(request, deployment, options)}
        context["editable"] = _editable(options, initial.get("other"))
        form = JobForm(options=options, profile=deployment.profile, initial=initial)
        return render(request, TEMPLATE, context | {"form": form})
    form = JobForm(request.POST, options=options, profile=deployment.profile)
    context["form"] = form
    is_valid = form.is_valid()
    context["editable"] = _editable(options, form.cleaned_data.get("other"))
    if not is_valid:
        return render(request, TEMPLATE, context, status=422)
    fields = {key: form.cleaned_data[key] for key in ("revision", "reason", "way_back", "request_key")}
    try:
        job = services.request_job(deployment, kind=kind, **fields, **asking(request))
    except services.Refused as refused:
        return render(request, TEMPLATE, context | {"refused": refused}, status=409)
    return redirect("deployments:job", pk=job.pk)


def _options(deployment: Deployment, *, running: Revision | None, kind: JobKind) -> dict[str, Revision]:
    """What may be launched with one click, the likeliest first."""
    if kind == JobKind.STOP:
        return {}
    found: dict[str, Revision] = {}
    if running is not None:
        found["same"] = running
    if running is None or running.pk != deployment.revision_id:
        found["chosen"] = deployment.revision
    if deployment.proven_revision is not None and deployment.proven_revision not in found.values():
        found["proven"] = deployment.proven_revision
    if deployment.profile.newest not in found.values():
        found["newest"] = deployment.profile.newest
    return found


def _first_choice(request: HttpRequest, deployment: Deployment, options: dict[str, Revision]) -> dict[str, Any]:
    """What is chosen when the form opens: ``?which=`` an option, ``?revision=`` a number, else the likeliest."""
    which, number = request.GET.get("which", ""), request.GET.get("revision")
    if which == "proven":  # which may be on offer under another name too
        which = next((key for key, revision in options.items() if revision == deployment.proven_revision), which)
    if which in options:
        return {"which": which}
    wanted = revision_numbered(deployment.profile, number)
    if wanted is None:
        return {"which": next(iter(options), "")}
    same = next((key for key, revision in options.items() if revision == wanted), "other")
    return {"which": same, "other": wanted}


def _editable(options: dict[str, Revision], other: Revision | None) -> list[tuple[str, Revision]]:
    """From which revision an edit starts, by what is chosen: the page shows the link of the choice that is made."""
    return [*options.items(), *([("other", other)] if other is not None else [])]


WORDS = {
    "same": "The same flags again",
    "chosen": "The revision set for this deployment",
    "proven": "The proven revision",
    "newest": "The newest revision",
}


def _described(options: dict[str, Revision]) -> list[dict[str, Any]]:
    return [{"key": key, "title": WORDS[key], "revision": revision} for key, revision in options.items()]
