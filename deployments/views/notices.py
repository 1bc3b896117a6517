"""Where somebody is told by chat or mail: add an address, send a test, remove it. Never the address itself."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from controlpanel.access import Action, requires
from controlpanel.forms import readable
from controlpanel.views.asking import asking
from deployments import services
from deployments.forms import PLAIN
from deployments.models import Deployment, NoticeAddress


class NoticeForm(forms.Form):
    """One address. It is never put into the page again."""

    name = forms.CharField(
        label="Name", max_length=64, help_text="For yourself, for example “team chat” or “my phone”."
    )
    url = forms.CharField(
        label="Address",
        max_length=2000,
        widget=forms.PasswordInput(attrs=PLAIN | {"autocomplete": "off"}),
        help_text="It is not shown again.",
        error_messages={"required": "Paste the address."},
    )
    deployment = forms.ModelChoiceField(
        Deployment.objects.filter(released={}), label="About", required=False, empty_label="all deployments"
    )

    def clean_name(self) -> str:
        """A name that reads as it is."""
        return readable(self.cleaned_data["name"])


@never_cache
@sensitive_post_parameters("url")
@require_http_methods(["GET", "POST"])
@requires(Action.BE_TOLD)
def notices(request: HttpRequest) -> HttpResponse:
    """One's own addresses with what was sent there last, and the form that adds one."""
    form = NoticeForm(request.POST or None)
    if request.method == "GET":
        return _page(request, form)
    if not form.is_valid():
        return _page(request, form, status=422)
    try:
        services.add_notice_address(**form.cleaned_data, **asking(request))
    except services.Refused as refused:
        return _page(request, form, refused=refused, status=409)
    messages.success(request, f"{form.cleaned_data['name']} is added. Send a test, to see that it arrives.")
    return redirect("deployments:notices")


@require_POST
@requires(Action.BE_TOLD)
def test(request: HttpRequest, pk: int) -> HttpResponse:
    """Send a test."""
    row = _own(request, pk)
    services.send_test_notice(row, actor=asking(request)["actor"])
    messages.info(request, f"A test is on its way to {row}. What came of it stands below in a few seconds.")
    return redirect("deployments:notices")


@require_POST
@requires(Action.BE_TOLD)
def remove(request: HttpRequest, pk: int) -> HttpResponse:
    """Forget an address."""
    row = _own(request, pk)
    services.remove_notice_address(row, **asking(request))
    messages.success(request, f"{row} is removed. Nothing is sent there any more.")
    return redirect("deployments:notices")


def _own(request: HttpRequest, pk: int) -> NoticeAddress:
    return get_object_or_404(NoticeAddress, pk=pk, user=asking(request)["actor"])


def _page(request: HttpRequest, form: NoticeForm, *, status: int = 200, **more: Any) -> HttpResponse:
    addresses = NoticeAddress.objects.filter(user=asking(request)["actor"]).select_related("deployment")
    rows = [{"address": address, "last": address.notices.exclude(tries=0).first()} for address in addresses]
    waiting = any(address.notices.filter(tries=0).exclude(due_at=None).exists() for address in addresses)
    context = {"form": form, "rows": rows, "waiting": waiting, "panel_url": settings.PANEL_URL, **more}
    return render(request, "deployments/notices.html", context, status=status)
