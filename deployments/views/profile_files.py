"""Profiles that come from elsewhere or go there: a clone of another one, a YAML file."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.http import content_disposition_header
from django.utils.text import slugify
from django.views.decorators.http import require_GET, require_http_methods

from controlpanel.access import Action, requires
from controlpanel.views.asking import asking
from deployments import services
from deployments.commandline import write
from deployments.engines.registry import ENGINES
from deployments.models import Profile
from deployments.profile_forms import CloneForm, ImportForm
from deployments.profilefile import write_file
from deployments.views.revisions import revision_numbered


@require_GET
@requires(Action.LOOK)
def export(request: HttpRequest, pk: int) -> HttpResponse:
    """The profile as a file to keep: the revision of ``?revision=``, or all."""
    profile = get_object_or_404(Profile, pk=pk)
    one = revision_numbered(profile, request.GET.get("revision"))
    revisions = [one] if one else list(profile.revisions.all())
    name = slugify(profile.name) or "profile"
    answer = HttpResponse(write_file(profile, revisions), content_type="application/yaml; charset=utf-8")
    filename = f"{name}-r{one.number}.yaml" if one else f"{name}.yaml"
    answer["Content-Disposition"] = content_disposition_header(True, filename) or "attachment"
    return answer


@require_http_methods(["GET", "POST"])
@requires(Action.EDIT_PROFILE)
def clone(request: HttpRequest, pk: int) -> HttpResponse:
    """The form of a profile that begins as a revision of this one is (``?from=``)."""
    profile = get_object_or_404(Profile, pk=pk)
    source = revision_numbered(profile, request.GET.get("from")) or profile.newest
    initial = {"description": profile.description, "notes": f"As {source}."}
    form = CloneForm(request.POST or None, initial=initial)
    context = {"form": form, "profile": profile, "source": source, "command": write(source.command)}
    if request.method == "GET":
        return render(request, "deployments/profile_clone.html", context)
    if not form.is_valid():
        return render(request, "deployments/profile_clone.html", context, status=422)
    try:
        made = services.clone_profile(source, **form.cleaned_data, **asking(request))
    except services.Refused as refused:
        return render(request, "deployments/profile_clone.html", context | {"refused": refused}, status=409)
    messages.success(request, f"{made.name} is created. Its revision 1 is what {source} is.")
    return redirect("deployments:profile", pk=made.pk)


@require_http_methods(["GET", "POST"])
@requires(Action.EDIT_PROFILE)
def bring(request: HttpRequest) -> HttpResponse:
    """Import a file in two steps: show what it would make, then make just that."""
    form = ImportForm(request.POST or None, request.FILES or None)
    if request.method == "GET":
        return _page(request, form)
    if not form.is_valid() or form.file is None:
        return _page(request, form, status=422)
    try:
        services.check_import(form.file, into=form.into)
        # What was changed since it was shown is shown first.
        if form.cleaned_data["shown"] != form.mark or (form.there and not form.into):
            return _page(request, form, **_offer(form))
        profile = services.import_profile(form.file, name=form.title, into=form.into, **asking(request))
    except services.Refused as refused:
        return _page(request, form, status=409, refused=refused)
    count = len(form.file.revisions)
    messages.success(request, f"{profile.name} has {count} revision{'s' if count > 1 else ''} from the file.")
    return redirect("deployments:profile", pk=profile.pk)


def _offer(form: ImportForm) -> dict[str, Any]:
    """What the file would make, for the page."""
    assert form.file is not None
    first = 1 if form.into is None else form.into.newest.number + 1
    rows = [
        (number, revision, write(revision.command)) for number, revision in enumerate(form.file.revisions, start=first)
    ]
    return {"offer": rows, "name": form.title, "engine": ENGINES[form.file.engine].label, "mark": form.mark}


def _page(request: HttpRequest, form: ImportForm, *, status: int = 200, **more: Any) -> HttpResponse:
    return render(
        request, "deployments/profile_import.html", {"form": form, "there": form.there, **more}, status=status
    )
