"""The servers that run on a host: the look for them, and what becomes of each."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.dateparse import parse_datetime
from django.views.decorators.http import require_GET, require_POST

from controlpanel.access import Action, requires
from controlpanel.forms import readable
from controlpanel.views.asking import asking
from deployments import services
from deployments.discovery.found import Found
from deployments.discovery.naming import propose
from deployments.discovery.store import newest, servers_of
from deployments.engines.registry import ENGINES
from deployments.lifecycle import ServiceState
from deployments.models import Deployment, Launch, Profile, ServerLook
from hosts.models import Host


class AdoptForm(forms.Form):
    """What the deployment is called, and who may approve its jobs."""

    name = forms.CharField(max_length=64, error_messages={"required": "Give the deployment a name."})
    requester_may_approve = forms.BooleanField(required=False)

    def clean_name(self) -> str:
        """A name that can be seen, and that neither a profile nor a deployment has: both get it."""
        name = readable(self.cleaned_data["name"])
        for kind, model in (("profile", Profile), ("deployment", Deployment)):
            if model._default_manager.filter(name=name).exists():
                raise forms.ValidationError(f"There is already a {kind} named {name}: choose another name.")
        return name


@dataclass(frozen=True)
class Shown:
    """One server with what may be done with it."""

    found: Found
    engine: str
    since: datetime | None
    name: str
    """Proposed."""
    owner: Deployment | None = None
    on_port: Deployment | None = None
    """Whose port it has, though it is not the server of it."""
    attach_to: tuple[Deployment, ...] = ()
    """Others without a server, of its port or its cards."""
    launch: Launch | None = None
    """Ours of old, whose mark it carries."""

    @property
    def may_adopt(self) -> bool:
        """Is there anything that keeps it from becoming a deployment of its own?"""
        return not self.found.refused and self.owner is None and self.on_port is None


def context(host: Host) -> dict[str, Any]:
    """What the part of a host's page shows: the newest look, and the servers of the last one that has ended."""
    look = newest(host)
    done = look if look is None or look.finished_at else _last_done(host)
    old = services.is_old(done.started_at if done is not None else None)
    return {"host": host, "look": look, "done": done, "old": old, "servers": _shown(host, servers_of(done))}


def _last_done(host: Host) -> ServerLook | None:
    return ServerLook.objects.filter(host=host).exclude(finished_at=None).first()


def _shown(host: Host, servers: Collection[Found]) -> list[Shown]:
    taken = {*Profile.objects.values_list("name", flat=True), *Deployment.objects.values_list("name", flat=True)}
    here = Deployment.objects.filter(placements__host=host).select_related("profile").distinct()
    return [_one(host, found, taken, list(here)) for found in servers]


def _one(host: Host, found: Found, taken: set[str], here: list[Deployment]) -> Shown:
    engine = ENGINES[found.engine]
    owner = services.owner_of(host, found)
    same = [each for each in here if each.profile.engine == found.engine and each.live_launch is None]
    watched = [each for each in same if each.state != ServiceState.RELEASED]
    on_port = next((each for each in watched if each.port == found.port), None)
    cards = {card.uuid for card in found.cards}
    near = [each for each in same if each.port == found.port or cards & set(each.placement.gpu_uuids)]
    name = propose(engine, found.argv or found.words, taken=taken)
    taken.add(name)
    return Shown(
        found,
        engine.label,
        parse_datetime(found.since),
        name,
        owner,
        on_port,
        () if owner or found.refused else tuple(each for each in near if each != on_port),
        Launch.objects.filter(pk=found.launch).first() if _is_uuid(found.launch) else None,
    )


def _is_uuid(text: str) -> bool:
    """What a process says of itself may be anything."""
    try:
        UUID(text)
    except ValueError:
        return False
    return True


@require_GET
@requires(Action.LOOK)
def servers(request: HttpRequest, pk: int) -> HttpResponse:
    """The part of the host's page, fetched again when a look goes on."""
    return render(request, "deployments/_servers.html", context(_host(pk)))


@require_POST
@requires(Action.TEST_HOST)
def look(request: HttpRequest, pk: int) -> HttpResponse:
    """Ask a worker to look."""
    host = _host(pk)
    services.request_look(host, **asking(request))
    return redirect(f"{redirect('hosts:host', pk=pk).url}#servers")


@require_POST
@requires(Action.EDIT_DEPLOYMENT)
def adopt(request: HttpRequest, pk: int) -> HttpResponse:
    """Make a deployment of a server that was found."""
    host = _host(pk)
    form = AdoptForm(request.POST)
    key = request.POST.get("server", "")
    typed = {"form": form, "server": key}
    if not form.is_valid():
        return render(request, "deployments/servers.html", context(host) | {"typed": typed}, status=422)
    try:
        found, seen_at = found_on(host, key)
        made = services.adopt(host, found, seen_at=seen_at, **form.cleaned_data, **asking(request))
    except services.Refused as refused:
        again = context(host) | {"typed": typed, "refused": refused}
        return render(request, "deployments/servers.html", again, status=409)
    messages.success(
        request, f"{made} is adopted: it runs as it did, and the panel looks after it from now on. Nothing was touched."
    )
    return redirect("deployments:deployment", pk=made.pk)


@require_POST
@requires(Action.EDIT_DEPLOYMENT)
def attach(request: HttpRequest, pk: int, deployment_pk: int) -> HttpResponse:
    """Make a server that was found that of a deployment."""
    host = _host(pk)
    deployment = get_object_or_404(Deployment, pk=deployment_pk, placements__host=host)
    try:
        found, seen_at = found_on(host, request.POST.get("server", ""))
        revision = services.attach(deployment, found, seen_at=seen_at, **asking(request))
    except services.Refused as refused:
        return render(request, "409.html", {"refused": refused}, status=409)
    messages.success(request, f"{deployment} is attached to what runs, as {revision}. Nothing was touched.")
    return redirect("deployments:deployment", pk=deployment_pk)


@require_POST
@requires(Action.EDIT_DEPLOYMENT)
def attach_here(request: HttpRequest, pk: int) -> HttpResponse:
    """Make what the monitor has found on a deployment's port its server."""
    deployment = get_object_or_404(Deployment, pk=pk)
    found = found_for(deployment)
    try:
        if found is None or found.key != request.POST.get("server"):
            raise services.Refused("That server is not there any more.", hint="Look at the deployment's page again.")
        # The monitor forgets it with the first reading without it, so it was there at the last one.
        seen_at = deployment.placement.host.last_seen_at
        revision = services.attach(deployment, found, seen_at=seen_at, **asking(request))
    except services.Refused as refused:
        return render(request, "409.html", {"refused": refused}, status=409)
    messages.success(request, f"{deployment} is attached to what runs, as {revision}. Nothing was touched.")
    return redirect("deployments:deployment", pk=pk)


def found_for(deployment: Deployment) -> Found | None:
    """What the monitor has found on its port, ready to be attached."""
    stored = deployment.found.get("server")
    return Found.of({**stored, "effective": deployment.found.get("effective", {})}) if stored else None


def found_on(host: Host, key: str) -> tuple[Found, datetime | None]:
    """A server of the last look by its key, and when that began. Raises Refused where it has not seen it."""
    look = _last_done(host)
    known = {found.key: found for found in servers_of(look)}
    if look is None or key not in known:
        raise services.Refused(
            "That server is not in the last look any more.", hint="Look for servers again: it may have been restarted."
        )
    return known[key], look.started_at


def _host(pk: int) -> Host:
    return get_object_or_404(Host.objects.select_related("via"), pk=pk)
