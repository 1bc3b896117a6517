"""People: who may sign in, with which roles; a one-time link for somebody new. For administrators."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.contrib.auth.validators import ASCIIUsernameValidator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from controlpanel import people
from controlpanel.access import Action, Role, requires
from controlpanel.refusal import Refused
from controlpanel.signin import NewLink
from controlpanel.views.asking import asking

ROLES = {
    Role.VIEWER: "looks",
    Role.OPERATOR: "asks for restarts, starts on clean cards",
    Role.APPROVER: "approves, trusts host keys, confirms kills",
    Role.ADMINISTRATOR: "edits hosts, profiles, deployments, people",
}


class RolesForm(forms.Form):
    """What somebody may do."""

    roles = forms.MultipleChoiceField(
        label="Roles",
        choices=[(str(role), role.capitalize()) for role in Role],
        error_messages={"required": "Tick at least one role."},
    )

    def clean_roles(self) -> list[Role]:
        """As roles."""
        return [Role(name) for name in self.cleaned_data["roles"]]


class PersonForm(RolesForm):
    """Somebody new."""

    name = forms.CharField(
        label="User name",
        max_length=150,
        validators=[ASCIIUsernameValidator()],
        widget=forms.TextInput(attrs={"autocomplete": "off", "autocapitalize": "off", "spellcheck": "false"}),
    )


@require_GET
@requires(Action.MANAGE_PEOPLE)
def listed(request: HttpRequest) -> HttpResponse:
    """All people, and the form that adds one."""
    return _page(request, PersonForm(initial={"roles": [Role.VIEWER]}))


@never_cache
@require_POST
@requires(Action.MANAGE_PEOPLE)
def add(request: HttpRequest) -> HttpResponse:
    """Add somebody and show their link: now, and never again."""
    form = PersonForm(request.POST)
    if not form.is_valid():
        return _page(request, form, status=422)
    try:
        user, link = people.add(form.cleaned_data["name"], roles=form.cleaned_data["roles"], **asking(request))
    except Refused as refused:
        form.add_error("name", f"{refused.message} {refused.hint}")
        return _page(request, form, status=409)
    return _with_link(request, user, link)


@never_cache
@require_POST
@requires(Action.MANAGE_PEOPLE)
def link(request: HttpRequest, pk: int) -> HttpResponse:
    """Show a new link for somebody: now, and never again."""
    user = get_object_or_404(User, pk=pk)
    try:
        made = people.new_link(user, **asking(request))
    except Refused as refused:
        return _page(request, refused=refused, status=409)
    return _with_link(request, user, made)


@require_POST
@requires(Action.MANAGE_PEOPLE)
def roles(request: HttpRequest, pk: int) -> HttpResponse:
    """Change somebody's roles."""
    user = get_object_or_404(User, pk=pk)
    form = RolesForm(request.POST)
    try:
        people.set_roles(user, roles=form.cleaned_data["roles"] if form.is_valid() else [], **asking(request))
    except Refused as refused:
        return _page(request, refused=refused, status=409)
    messages.success(request, f"The roles of {user} are saved.")
    return redirect("controlpanel:people")


@require_POST
@requires(Action.MANAGE_PEOPLE)
def switch(request: HttpRequest, pk: int) -> HttpResponse:
    """Switch somebody off, or on again."""
    user = get_object_or_404(User, pk=pk)
    on = request.POST.get("on") == "yes"
    try:
        people.switch(user, on=on, **asking(request))
    except Refused as refused:
        return _page(request, refused=refused, status=409)
    messages.success(request, f"{user} is switched {'on' if on else 'off'}.")
    return redirect("controlpanel:people")


def _with_link(request: HttpRequest, user: User, made: NewLink) -> HttpResponse:
    """The page with the link on top; its address is how browsers reach the panel."""
    own = settings.PANEL_URL.geturl().rstrip("/") if settings.PANEL_URL else f"{request.scheme}://{request.get_host()}"
    return _page(request, invited={"user": user, "url": own + made.path})


def _page(request: HttpRequest, form: PersonForm | None = None, *, status: int = 200, **more: Any) -> HttpResponse:
    form = form or PersonForm(initial={"roles": [Role.VIEWER]})
    rows = [{"user": user, "roles": {group.name for group in user.groups.all()}} for user in people.everybody()]
    shown = {"form": form, "chosen": form["roles"].value() or [], "rows": rows, "all_roles": ROLES.items()}
    return render(request, "controlpanel/people.html", shown | more, status=status)
