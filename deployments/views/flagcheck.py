"""A command line in the profile form, checked against the flags of the engine on a host; and these flags as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse, JsonResponse, QueryDict
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_GET

from controlpanel.access import Action, requires
from controlpanel.views.asking import asking
from deployments import services
from deployments.catalogue.finding import Finding
from deployments.catalogue.model import Flag
from deployments.catalogue.program import NoProgram, Program, program_of
from deployments.catalogue.setting import CannotSet
from deployments.catalogue.validate import check
from deployments.models import Deployment, FlagCatalogue, Profile
from deployments.revision_forms import RevisionForm
from deployments.views import allflags
from deployments.views.allflags import default_of, kind_of
from hosts.models import Host

CHECK, READ = "check", "read"
OF_THE_COMMAND = ("command", "env", "workdir", "engine")
"""The fields that a check needs; what is missing elsewhere is told when it is saved."""


class HostToCheckForm(forms.Form):
    """Which host's engine a command line is checked against."""

    check_host = forms.ModelChoiceField(
        label="Check the flags against the engine on",
        queryset=Host.objects.all(),
        required=False,
        empty_label="choose a host",
    )


@dataclass(frozen=True)
class Checked:
    """What came of it. ``findings`` None: not checked (yet). ``reason``: why it cannot be.

    ``program``: what was checked, where the flags are known.
    """

    row: FlagCatalogue | None = None
    findings: Sequence[Finding] | None = None
    reason: str = ""
    program: Program | None = None


def wants_check(data: QueryDict) -> bool:
    """Was the form sent to be checked only, and not to be saved?"""
    do = data.get("do", "")
    return do in (CHECK, READ) or allflags.asks_of_flags(do)


def context(request: HttpRequest, form: RevisionForm, *, engine: str, usual: Host | None) -> dict[str, Any]:
    """For the form's page: the host to check against, and what the check has found, if it was asked for or is known."""
    asks = request.method == "POST" and wants_check(request.POST)
    hosts = HostToCheckForm(request.POST if "check_host" in request.POST else None, initial={"check_host": usual})
    host = usual
    if hosts.is_bound:
        host = hosts.cleaned_data.get("check_host") if hosts.is_valid() else None
    launch = _launch(form, engine)
    made = Checked()
    if launch is not None and host is not None and engine:
        again = asks and request.POST.get("do") == READ
        made = checked(request, engine, launch, host, may_ask=asks, again=again)
    elif asks and host is None:
        made = Checked(reason="Choose the host whose engine is to read this command.")
    shown = {"host_form": hosts, "check_host": host, "check_asked": asks}
    if launch is None or host is None or made.program is None:
        return shown | {"checked": made}
    return shown | _with_flags(request, form, engine, launch, host, made)


def _with_flags(
    request: HttpRequest, form: RevisionForm, engine: str, launch: Mapping[str, Any], host: Host, made: Checked
) -> dict[str, Any]:
    """The check and all flags beside it, once the flag is set that a button names."""
    assert made.program is not None and made.row is not None and made.row.catalogue is not None
    known, said, problem = made.row.catalogue, "", ""
    try:
        said, changed = allflags.apply(request.POST, form, launch, made.program, known)
    except CannotSet as error:
        problem = str(error)
    else:
        made = checked(request, engine, changed, host, may_ask=False, again=False)
    args = made.program.args if made.program is not None else ()
    return {"checked": made, "picked": allflags.picked(request.POST, args, known, said=said, problem=problem)}


def only_of_the_command(form: RevisionForm) -> None:
    """Say nothing of what is missing elsewhere in a form that is only checked."""
    form.is_valid()
    for name in [name for name in form.errors if name not in OF_THE_COMMAND]:
        del form.errors[name]


def _launch(form: RevisionForm, engine: str) -> Mapping[str, Any] | None:
    """The command as it stands in the form, sent or as it was filled in; None when it cannot be read."""
    if not form.is_bound:
        words = {name: form.initial.get(name) or "" for name in ("command", "env", "workdir")}
        filled = RevisionForm(words, engine=engine)
        return filled.launch if form.initial.get("command") and filled.is_valid() else None
    form.is_valid()
    return form.launch or None


def checked(
    request: HttpRequest, engine: str, launch: Mapping[str, Any], host: Host, *, may_ask: bool, again: bool
) -> Checked:
    """Check a command against what is known of the host's engine; with ``may_ask`` a worker reads what is not."""
    program = program_of(
        engine, launch["argv"], env=launch["env"], workdir=launch["workdir"], container=launch["container"]
    )
    if isinstance(program, NoProgram):
        return Checked(reason=program.reason)
    row = FlagCatalogue.objects.filter(host=host, engine=engine, key=program.digest).first()
    if may_ask and (again or row is None or row.catalogue is None):
        row = services.request_flags(host, program, **asking(request))
    if row is None or row.catalogue is None:
        return Checked(row)
    return Checked(row, check(program.args, row.catalogue), program=program)


def usual_host(profile: Profile | None, deployment: Deployment | None) -> Host | None:
    """Where a profile is used, or the only host that there is."""
    if deployment is not None and deployment.place is not None:
        return deployment.place.host
    if profile is not None:
        used = Host.objects.filter(placements__deployment__profile=profile).order_by("-placements__pk").first()
        if used is not None:
            return used
    hosts = list(Host.objects.all()[:2])
    return hosts[0] if len(hosts) == 1 else None


@require_GET
@requires(Action.LOOK)
def flags(request: HttpRequest, pk: int) -> HttpResponse:
    """The flags of one catalogue, for completion and help."""
    row = get_object_or_404(FlagCatalogue, pk=pk)
    known = row.catalogue.flags if row.catalogue is not None else ()
    return JsonResponse({"version": row.version, "flags": [_told(flag) for flag in known if not flag.is_positional]})


def _told(flag: Flag) -> dict[str, Any]:
    return {
        "names": flag.names,
        "value": kind_of(flag),
        "choices": [str(choice) for choice in flag.choices or ()],
        "default": default_of(flag),
        "help": flag.help,
        "deprecated": flag.deprecated,
        "instead": flag.instead,
    }
