"""Profiles: the list, one profile with its revisions, and the forms that make new ones."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.db.models import Count, Max
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods

from controlpanel.access import Action, requires
from controlpanel.views.asking import asking
from deployments import services
from deployments.commandline import write
from deployments.engines.registry import ENGINES
from deployments.flags import around, flags_of, side_by_side
from deployments.lifecycle import LaunchState
from deployments.models import Deployment, Launch, Profile, Revision
from deployments.revision_forms import ProfileForm, RevisionForm
from deployments.views.flagcheck import context as check_context
from deployments.views.flagcheck import only_of_the_command, usual_host, wants_check
from deployments.views.knobs import Knobs, asks_of_knobs, taken
from deployments.views.knobs import context as knobs_context
from deployments.views.revisions import is_number, revision_numbered
from deployments.views.whatif import context as whatif_context


@require_GET
@requires(Action.LOOK)
def profiles(request: HttpRequest) -> HttpResponse:
    """All profiles with the number of their newest revision."""
    found = Profile.objects.annotate(
        newest_number=Max("revisions__number"),
        changed_at=Max("revisions__created_at"),
        used_by=Count("deployments", distinct=True),
    )
    rows = [
        (profile, ENGINES[profile.engine].label if profile.engine in ENGINES else profile.engine) for profile in found
    ]
    return render(request, "deployments/profiles.html", {"rows": rows})


@require_http_methods(["GET", "POST"])
@requires(Action.EDIT_PROFILE)
def new(request: HttpRequest) -> HttpResponse:
    """The form of a new profile."""
    knobs = taken(request.POST) if request.method == "POST" else Knobs()
    form = ProfileForm(knobs.data)
    context = _with_check(request, form, {"form": form}, knobs)
    if _is_only_shown(request):
        return render(request, "deployments/profile_form.html", context)
    if not form.is_valid() or knobs.refused:
        return render(request, "deployments/profile_form.html", context, status=422)
    head = {key: form.cleaned_data[key] for key in ("name", "engine", "description")}
    try:
        profile = services.create_profile(**head, **form.launch, **asking(request))
    except services.Refused as refused:
        return render(request, "deployments/profile_form.html", context | {"refused": refused}, status=409)
    messages.success(request, f"{profile.name} is created with revision 1.")
    _tell(request, form)
    return redirect("deployments:profile", pk=profile.pk)


@require_http_methods(["GET", "POST"])
@requires(Action.EDIT_PROFILE)
def revise(request: HttpRequest, pk: int) -> HttpResponse:
    """The form of a new revision, filled from ``?from=``; with ``?plan=`` a deployment is planned next."""
    profile = get_object_or_404(Profile, pk=pk)
    base = revision_numbered(profile, request.GET.get("from")) or profile.newest
    deployment = _to_plan(profile, request.GET.get("plan"))
    knobs = taken(request.POST, profile.engine) if request.method == "POST" else Knobs()
    form = RevisionForm(knobs.data, engine=profile.engine, initial=RevisionForm.from_revision(base))
    context = {"form": form, "profile": profile, "base": base, "deployment": deployment}
    context = _with_check(request, form, context, knobs)
    if _is_only_shown(request):
        return render(request, "deployments/profile_form.html", context)
    if not form.is_valid() or knobs.refused:
        return render(request, "deployments/profile_form.html", context, status=422)
    if _says_the_same(form.launch, base):
        messages.info(request, f"Nothing was changed, so no revision was made: {base} says the same.")
        return _after(profile, deployment, base)
    try:
        made = services.add_revision(profile, **form.launch, **asking(request))
    except services.Refused as refused:
        return render(request, "deployments/profile_form.html", context | {"refused": refused}, status=409)
    messages.success(request, f"{made} is saved. Nothing changes on a host before a deployment is restarted with it.")
    _tell(request, form)
    return _after(profile, deployment, made)


def _tell(request: HttpRequest, form: RevisionForm) -> None:
    """Say what was taken another way than it was written."""
    for remark in form.remarks:
        messages.info(request, remark)


def _is_only_shown(request: HttpRequest) -> bool:
    """Is nothing to be saved?"""
    return request.method == "GET" or wants_check(request.POST) or asks_of_knobs(request.POST)


def _with_check(request: HttpRequest, form: RevisionForm, context: dict[str, Any], knobs: Knobs) -> dict[str, Any]:
    """The form's page with the check of its command line and the settings that people change first beside it."""
    profile, deployment = context.get("profile"), context.get("deployment")
    if request.method == "POST" and _is_only_shown(request):
        only_of_the_command(form)
    engine = profile.engine if profile is not None else str(form["engine"].value() or "")
    label = ENGINES[engine].label if engine in ENGINES else engine
    found = check_context(request, form, engine=engine, usual=usual_host(profile, deployment))
    settings = knobs_context(knobs, engine_key=engine, command=str(form["command"].value() or ""))
    return context | found | settings | {"engine_label": label}


def _says_the_same(launch: dict[str, Any], base: Revision) -> bool:
    """Nothing was changed in the form that was filled from ``base``; a note written into it is a change."""
    return all(value == getattr(base, name) for name, value in launch.items() if name != "notes") and (
        launch["notes"] in ("", base.notes)
    )


def _after(profile: Profile, deployment: Deployment | None, revision: Revision) -> HttpResponse:
    """The page that comes after the form: the plan that it was opened for, else the profile."""
    if deployment is not None:
        return redirect(f"{deployment.plan_url()}?revision={revision.number}")
    return redirect("deployments:profile", pk=profile.pk)


def _to_plan(profile: Profile, deployment_pk: str | None) -> Deployment | None:
    """The deployment whose restart the revision is made for, if it is for one."""
    return (
        Deployment.objects.filter(pk=int(deployment_pk), profile=profile).first() if is_number(deployment_pk) else None
    )


@require_GET
@requires(Action.LOOK)
def profile(request: HttpRequest, pk: int) -> HttpResponse:
    """One profile: its newest command line, all revisions, and who uses it."""
    found = get_object_or_404(Profile, pk=pk)
    revisions = list(found.revisions.select_related("created_by", "profile"))
    shown = revision_numbered(found, request.GET.get("revision")) or revisions[0]
    deployments = Deployment.objects.filter(profile=found).select_related("revision", "proven_revision")
    deployments = deployments.prefetch_related("placements__host")
    served = Launch.objects.filter(revision__profile=found, ready_at__isnull=False)
    context = {
        "profile": found,
        "engine": ENGINES[found.engine].label if found.engine in ENGINES else found.engine,
        "revisions": revisions,
        "running": _running(found, besides=revisions[0]),
        "shown": shown,
        "command": write(shown.command),
        "deployments": deployments,
        "proven": {deployment.proven_revision_id for deployment in deployments},
        "served": set(served.values_list("revision_id", flat=True)),
    }
    return render(request, "deployments/profile.html", context | whatif_context(request, found, shown))


@require_GET
@requires(Action.LOOK)
def compare(request: HttpRequest, pk: int) -> HttpResponse:
    """Two revisions side by side: ``left`` and ``right`` are revision ids, of this profile or of ``other``'s."""
    found = get_object_or_404(Profile, pk=pk)
    revisions = list(found.revisions.select_related("profile"))
    left, right = _any_revision(request.GET.get("left")), _any_revision(request.GET.get("right"))
    other = _other_profile(request.GET.get("other"), found, left, right)
    left, right = (side if side and side.profile in (found, other) else None for side in (left, right))
    if other is not None and other not in {side.profile for side in (left, right) if side}:
        right = other.newest
    right = right or revisions[0]
    left = left or _running(found, besides=right)
    left = left or next((revision for revision in revisions if revision != right), right)
    rows = side_by_side(flags_of(left.argv), flags_of(right.argv))
    env = side_by_side(left.env, right.env)
    rest = side_by_side(_rest(left), _rest(right))
    context = {
        "profile": found, "left": left, "right": right, "other": other,
        "groups": [(found, revisions), *([(other, list(other.revisions.all()))] if other else [])],
        "others": Profile.objects.exclude(pk=pk),
        "tables": [("Flags", rows), ("Environment", env), ("Place", rest)],
        "changes": sum(row.changed for row in [*rows, *env, *rest]),
    }  # fmt: skip
    return render(request, "deployments/compare.html", context)


def _running(found: Profile, *, besides: Revision) -> Revision | None:
    """The revision of a profile that serves now, if it is another than ``besides``: the last one started first."""
    serving = Launch.objects.filter(state=LaunchState.SERVING, revision__profile=found).exclude(revision=besides)
    launch = serving.select_related("revision__profile").order_by("-started_at").first()
    return launch.revision if launch is not None else None


def _other_profile(asked: str | None, found: Profile, *sides: Revision | None) -> Profile | None:
    """The second profile of a comparison: the one that was chosen, else that of a revision that is not ours."""
    if asked == "":
        return None
    if is_number(asked):
        return Profile.objects.exclude(pk=found.pk).filter(pk=int(asked)).first()
    return next((side.profile for side in sides if side is not None and side.profile_id != found.pk), None)


def _rest(revision: Revision) -> dict[str, str]:
    found = {
        "port": str(revision.port),
        "ready pattern": revision.ready_pattern,
        "engine versions": revision.engine_versions,
    }
    around_it = around(revision.argv, revision.workdir, revision.container)
    return around_it | {name: value for name, value in found.items() if value}


def _any_revision(pk: str | None) -> Revision | None:
    return Revision.objects.filter(pk=int(pk)).select_related("profile").first() if is_number(pk) else None
