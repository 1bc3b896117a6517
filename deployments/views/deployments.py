"""Deployments: the list, one deployment, the form, and the mark *proven*."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from controlpanel.access import Action, requires
from controlpanel.views.asking import asking
from deployments import services
from deployments.address import Address, address_of
from deployments.compared import drift
from deployments.engines.registry import ENGINES
from deployments.forms import DeploymentForm
from deployments.models import Deployment, Job, Launch, Revision
from deployments.views import board
from deployments.views.cardchoices import card_choices
from deployments.views.measured import measured, proof
from deployments.views.outcome import in_effect
from deployments.views.servers import found_for
from deployments.views.traffic import HookForms, hooks_in_words, out_of_router
from hosts.models import Host

SHOWN = 20  # launches and jobs on a deployment's page; the rest is in the history


@require_GET
@requires(Action.LOOK)
def deployments(request: HttpRequest) -> HttpResponse:
    """All deployments with their live state."""
    return render(request, "deployments/deployments.html", {"rows": board.rows(), "has_hosts": Host.objects.exists()})


@require_http_methods(["GET", "POST"])
@requires(Action.EDIT_DEPLOYMENT)
def new(request: HttpRequest) -> HttpResponse:
    """The form of a new deployment."""
    form = DeploymentForm(
        request.POST or None, initial={key: request.GET[key] for key in ("host", "revision") if key in request.GET}
    )
    traffic = HookForms(request.POST or None, hooks={})
    if request.method == "GET":
        return _form(request, form, traffic)
    if not _are_valid(form, traffic):
        return _form(request, form, traffic, status=422)
    place = _place(form)
    unsaved = form.save(commit=False)
    unsaved.hooks = traffic.hooks
    try:
        made = services.create_deployment(unsaved, **place, **asking(request))
    except services.Refused as refused:
        return _form(request, form, traffic, refused=refused, status=409)
    messages.success(request, f"{made.name} is created. Nothing is started yet.")
    return redirect("deployments:deployment", pk=made.pk)


@require_http_methods(["GET", "POST"])
@requires(Action.EDIT_DEPLOYMENT)
def edit(request: HttpRequest, pk: int) -> HttpResponse:
    """The form of a known deployment. What runs stays as it is."""
    name = get_object_or_404(Deployment, pk=pk).name
    form = DeploymentForm(request.POST or None, instance=Deployment.objects.get(pk=pk))
    traffic = HookForms(request.POST or None, hooks=form.instance.hooks)
    if request.method == "GET":
        return _form(request, form, traffic, old_name=name)
    if not _are_valid(form, traffic):
        return _form(request, form, traffic, old_name=name, status=422)
    place = _place(form)
    changed = form.save(commit=False)
    changed.hooks = traffic.hooks
    try:
        services.update_deployment(changed, **place, **asking(request))
    except services.Refused as refused:
        return _form(request, form, traffic, old_name=name, refused=refused, status=409)
    messages.success(request, f"{changed.name} is saved. What runs stays as it is until the next restart.")
    return redirect("deployments:deployment", pk=pk)


def _are_valid(form: DeploymentForm, traffic: HookForms) -> bool:
    """Both are asked, so that all that is wrong is said at once."""
    return all([form.is_valid(), traffic.is_valid()])


def _place(form: DeploymentForm) -> dict[str, Any]:
    """What the form says of the place and of those who share it."""
    said = form.cleaned_data
    return {"host": said["host"], "gpu_uuids": said["gpus"], "shares_with": said["shares_with"]}


def _form(
    request: HttpRequest, form: DeploymentForm, traffic: HookForms, *, status: int = 200, **more: Any
) -> HttpResponse:
    hosts = _by_machine()
    neighbours = _neighbours(form, hosts)
    with_neighbours = {neighbour.hosts for neighbour in neighbours}
    lonely = [listed for listed in map(_listed, hosts.values()) if listed not in with_neighbours]
    context = {
        "form": form,
        "traffic": traffic,
        "deployment": form.instance,
        **card_choices(form.all_gpus, Host.objects.all()),
        "ticked": form["gpus"].value() or [],
        "neighbours": neighbours,
        "lonely_hosts": "|".join(lonely),
        "has_revisions": Revision.objects.exists(),
        "has_hosts": Host.objects.exists(),
        **more,
    }
    return render(request, "deployments/deployment_form.html", context, status=status)


@dataclass(frozen=True)
class Neighbour:
    """Another deployment that may share cards. ``hosts``: those of its machine, as fields.js reads them."""

    deployment: Deployment
    where: str
    hosts: str
    ticked: bool


def _neighbours(form: DeploymentForm, hosts: dict[int, list[int]]) -> list[Neighbour]:
    """Each other deployment with its cards in words, and whether it is ticked. ``hosts`` by their machine."""
    labels = {gpu.uuid: f"GPU {gpu.index}" for gpu in form.all_gpus}
    ticked = {str(pk) for pk in form["shares_with"].value() or []}
    others = Deployment.objects.exclude(pk=form.instance.pk).prefetch_related("placements__host__via")
    found = []
    for other in others:
        place = next(iter(other.placements.all()), None)
        if place is not None:
            cards = ", ".join(sorted(labels[uuid] for uuid in place.gpu_uuids if uuid in labels))
            where = f"{place.host}{f', {cards}' if cards else ''}"
            found.append(Neighbour(other, where, _listed(hosts[place.host.machine.pk]), str(other.pk) in ticked))
    return found


def _by_machine() -> dict[int, list[int]]:
    """The hosts that use the cards of each machine: itself, and its containers."""
    found: dict[int, list[int]] = {}
    for host in Host.objects.select_related("via"):
        found.setdefault(host.machine.pk, []).append(host.pk)
    return found


def _listed(hosts: Iterable[int]) -> str:
    return "|".join(str(pk) for pk in hosts)


@require_GET
@requires(Action.LOOK)
def deployment(request: HttpRequest, pk: int) -> HttpResponse:
    """One deployment: what it does now, how that differs from what was proven, and its past."""
    return render(request, "deployments/deployment.html", _context(pk))


@require_GET
@requires(Action.LOOK)
def part(request: HttpRequest, pk: int) -> HttpResponse:
    """The live part of that page, fetched again when something changed."""
    return render(request, "deployments/_deployment.html", _context(pk))


def _context(pk: int) -> dict[str, Any]:
    found = get_object_or_404(Deployment, pk=pk)
    row = board.rows(Deployment.objects.filter(pk=pk))[0]
    told = row.launch.effective if row.launch else row.found.get("effective", {})
    proven = row.deployment.proven_launch
    then = proven.effective if proven is not None and (row.launch is None or proven.pk != row.launch.pk) else {}
    return {
        "deployment": row.deployment,
        "row": row,
        "address": _address(row),
        "missing_cards": len(row.placement.gpu_uuids) - len(row.gpus) if row.placement else 0,
        "out": out_of_router(row.deployment),
        "hooks": hooks_in_words(row.deployment),
        "partners": found.shares_with.all(),
        "secrets": found.secrets.filter(retired_at=None),
        "given": set(row.launch.requested.get("secrets", {}).values()) if row.launch else set(),
        "attachable": found_for(row.deployment) if row.found and not row.active else None,
        "found_command": shlex.join(row.found["argv"]) if row.found else "",
        "in_effect": in_effect(told),
        "drift": drift(told, then, asked=row.unproven),
        "proven_version": then.get("version", ""),
        "measured": measured(row.deployment),
        "proof": proof(row.deployment, row.launch),
        "launches": found.launches.select_related("revision__profile", "job")[:SHOWN],
        "jobs": Job.objects.filter(Q(deployment=found) | Q(replaces=found))
        .select_related("replaces", "revision__profile")
        .prefetch_related("steps", "gates")[:SHOWN],
    }


def _address(row: board.Row) -> Address | None:
    """Of what serves, else of what a start would launch."""
    if row.placement is None:
        return None
    deployment, host = row.deployment, row.placement.host
    revision = row.running or deployment.revision
    return address_of(
        ENGINES[deployment.profile.engine],
        row.found.get("argv") or revision.argv,
        machine=host.address if host.transport == Host.TransportKind.SSH else "",
        host=str(host),
        port=deployment.port,
        in_image=bool(revision.container),
    )


@require_POST
@requires(Action.APPROVE)
def proven(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Mark a launch as proven: its revision becomes the one to go back to."""
    launch = get_object_or_404(Launch.objects.select_related("revision__profile", "deployment"), pk=pk)
    try:
        services.mark_proven(launch, **asking(request))
    except services.Refused as refused:
        return render(request, "409.html", {"refused": refused}, status=409)
    messages.success(request, f"{launch.revision} is now the proven revision of {launch.deployment}.")
    if launch.job_id:
        return redirect("deployments:job", pk=launch.job_id)
    return redirect("deployments:deployment", pk=launch.deployment_id)


@require_POST
@requires(Action.APPROVE)
def unproven(request: HttpRequest, pk: int) -> HttpResponse:
    """Take the mark back."""
    found = get_object_or_404(Deployment.objects.select_related("proven_revision__profile"), pk=pk)
    try:
        services.unmark_proven(found, **asking(request))
    except services.Refused as refused:
        return render(request, "409.html", {"refused": refused}, status=409)
    messages.success(request, f"Nothing of {found} counts as proven any more.")
    return redirect("deployments:deployment", pk=pk)
