"""The host pages: the list, one host with the steps that make it usable, and the forms behind them."""

from __future__ import annotations

import time
from typing import Any

from django.contrib import messages
from django.db.models import Count, Q
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from controlpanel.access import Action, requires
from controlpanel.models import AuditEntry
from controlpanel.views.asking import asking
from hosts import doubles, services
from hosts.forms import BaselineForm, HostForm, MaintenanceForm, MemoryForm, TrustForm
from hosts.history import showing
from hosts.models import Gpu, Host, HostKey, HostTest

PARTS = {"keys", "test", "cards", "header"}
KEY_FILES = {"ssh-ed25519": "ed25519", "ssh-rsa": "rsa"}
REFUSED = 409


@require_GET
@requires(Action.LOOK)
def hosts(request: HttpRequest) -> HttpResponse:
    """All hosts with their reach and cards."""
    rows = Host.objects.select_related("via").annotate(card_count=Count("gpus", filter=Q(gpus__present=True)))
    rows = rows.order_by("name")
    return render(request, "hosts/hosts.html", {"hosts": rows})


@require_http_methods(["GET", "POST"])
@requires(Action.EDIT_HOST)
def add(request: HttpRequest) -> HttpResponse:
    """The form of a new host; on success its page, where the next steps stand."""
    if request.method == "GET":
        wanted = request.GET.get("transport", Host.TransportKind.SSH)
        return _form(request, HostForm(initial={"transport": wanted}))
    form = HostForm(request.POST)
    if not form.is_valid():
        return _form(request, form, status=422)
    try:
        host = services.register_host(form.save(commit=False), **asking(request))
    except services.Refused as refused:
        return _form(request, form, refused=refused, status=REFUSED)
    messages.success(request, f"{host.name} is added. The steps below make it usable.")
    return redirect("hosts:host", pk=host.pk)


@require_http_methods(["GET", "POST"])
@requires(Action.EDIT_HOST)
def edit(request: HttpRequest, pk: int) -> HttpResponse:
    """The form of a known host."""
    host = get_object_or_404(Host, pk=pk)
    form = HostForm(request.POST or None, instance=host)
    name = Host.objects.values_list("name", flat=True).get(pk=pk)
    if request.method == "GET":
        return _form(request, form, old_name=name)
    if not form.is_valid():
        return _form(request, form, old_name=name, status=422)
    try:
        services.update_host(form.save(commit=False), **asking(request))
    except services.Refused as refused:
        return _form(request, form, old_name=name, refused=refused, status=REFUSED)
    messages.success(request, f"{host.name} is saved.")
    return redirect("hosts:host", pk=pk)


def _form(request: HttpRequest, form: HostForm, *, status: int = 200, **more: Any) -> HttpResponse:
    return render(request, "hosts/form.html", {"form": form, "host": form.instance, **more}, status=status)


@require_GET
@requires(Action.LOOK)
def host(request: HttpRequest, pk: int) -> HttpResponse:
    """One host: the steps from its address to its cards."""
    return _page(request, _host(pk))


@require_GET
@requires(Action.LOOK)
def host_part(request: HttpRequest, pk: int, part: str) -> HttpResponse:
    """One part of the host's page, fetched again when its test goes on."""
    if part not in PARTS:
        raise Http404
    return render(request, f"hosts/_{part}.html", _context(_host(pk)))


@require_GET
@requires(Action.LOOK)
def memory(request: HttpRequest, pk: int) -> JsonResponse:
    """The memory of a host's cards over time, for the curve on its page: ``span``, or ``since`` and ``until``."""
    now = int(time.time())
    form = MemoryForm(request.GET)
    if not form.is_valid():
        *first, last = [words for words, _ in showing.spans().values()]
        return JsonResponse({"error": f"Choose {', '.join(first)} or {last}."}, status=422)
    return JsonResponse(showing.memory(_host(pk), form.window(now), now=now))


@require_POST
@requires(Action.TEST_HOST)
def test(request: HttpRequest, pk: int) -> HttpResponse:
    """Ask a worker to try the connection."""
    found = _host(pk)
    try:
        services.request_test(found, **asking(request))
    except services.Refused as refused:
        return _page(request, found, refused=refused, status=REFUSED)
    return redirect(f"{_url(found)}#test")


@require_POST
@requires(Action.TRUST_HOST_KEY)
def trust(request: HttpRequest, pk: int, key_pk: int) -> HttpResponse:
    """Pin an offered key, if the fingerprint that the person read on the host is the same."""
    found = _host(pk)
    key = get_object_or_404(HostKey, pk=key_pk, host=found)
    form = TrustForm(request.POST)
    if not form.is_valid():
        return _page(request, found, trust_form=form, status=422)
    typed = form.cleaned_data["fingerprint"]
    try:
        services.trust_key(key, typed_fingerprint=typed, **asking(request))
    except services.Refused as refused:
        return _page(request, found, trust_form=form, refused=refused, status=REFUSED)
    messages.success(request, f"The key of {found.name} is trusted. Test the connection next.")
    return redirect("hosts:host", pk=pk)


@require_POST
@requires(Action.TRUST_HOST_KEY)
def forget(request: HttpRequest, pk: int, key_pk: int) -> HttpResponse:
    """Take the trust in a key back."""
    found = _host(pk)
    key = get_object_or_404(HostKey, pk=key_pk, host=found)
    try:
        services.forget_key(key, **asking(request))
    except services.Refused as refused:
        return _page(request, found, refused=refused, status=REFUSED)
    messages.success(request, f"The key is forgotten: {found.name} is not reached until a key is trusted again.")
    return redirect("hosts:host", pk=pk)


@require_POST
@requires(Action.EDIT_HOST)
def baseline(request: HttpRequest, pk: int, gpu_pk: int) -> HttpResponse:
    """Say what a card's memory in use is when nobody holds it; a number above the usual is asked for twice."""
    found = _host(pk)
    gpu = get_object_or_404(Gpu, pk=gpu_pk, host=found)
    form = BaselineForm(request.POST)
    if not form.is_valid():
        return _page(request, found, baseline_form=form, baseline_gpu=gpu.pk, status=422)
    mib, confirmed = form.cleaned_data["mib"], form.cleaned_data["confirmed_mib"]
    try:
        services.confirm_baseline(gpu, mib=mib, confirmed_mib=confirmed, **asking(request))
    except services.NotConfirmed as asked:
        more = {"baseline_form": form, "baseline_gpu": gpu.pk, "baseline_asked": asked}
        return _page(request, found, status=REFUSED, **more)
    except services.Refused as refused:
        return _page(request, found, baseline_form=form, baseline_gpu=gpu.pk, refused=refused, status=REFUSED)
    messages.success(request, f"GPU {gpu.index} counts as free at {mib} MiB.")
    return redirect(f"{_url(found)}#cards")


@require_POST
@requires(Action.EDIT_HOST)
def maintenance(request: HttpRequest, pk: int) -> HttpResponse:
    """Leave a host alone for a while."""
    found, form = _host(pk), MaintenanceForm(request.POST)
    if not form.is_valid():
        return _page(request, found, maintenance_form=form, status=422)
    try:
        services.begin_maintenance(found, reason=form.cleaned_data["reason"], **asking(request))
    except services.Refused as refused:
        return _page(request, found, maintenance_form=form, refused=refused, status=REFUSED)
    messages.success(request, f"{found.name} is in maintenance: it is not read, and no job begins there.")
    return redirect("hosts:host", pk=pk)


@require_POST
@requires(Action.EDIT_HOST)
def maintenance_end(request: HttpRequest, pk: int) -> HttpResponse:
    """Read a host again."""
    found = _host(pk)
    services.end_maintenance(found, **asking(request))
    messages.success(request, f"{found.name} is read again within a few seconds.")
    return redirect("hosts:host", pk=pk)


@require_POST
@requires(Action.EDIT_HOST)
def delete(request: HttpRequest, pk: int) -> HttpResponse:
    """Forget a host that nothing uses."""
    found = _host(pk)
    try:
        services.remove_host(found, **asking(request))
    except services.Refused as refused:
        return _page(request, found, refused=refused, status=REFUSED)
    messages.success(request, f"{found.name} is removed.")
    return redirect("hosts:hosts")


def _host(pk: int) -> Host:
    return get_object_or_404(Host.objects.select_related("via"), pk=pk)


def _url(host: Host) -> str:
    return redirect("hosts:host", pk=host.pk).url


def _page(request: HttpRequest, host: Host, *, status: int = 200, **more: Any) -> HttpResponse:
    return render(request, "hosts/host.html", _context(host) | more, status=status)


def _context(host: Host) -> dict[str, Any]:
    keys = list(host.keys.select_related("pinned_by").order_by("-offered_at"))
    pinned = [key for key in keys if key.pinned_at]
    offered = [key for key in keys if not key.pinned_at]
    for key in keys:
        key.file = f"/etc/ssh/ssh_host_{KEY_FILES.get(key.key_type, 'ecdsa')}_key.pub"  # type: ignore[attr-defined]
    for key in pinned:
        key.trusted_by = _trusted_by(key)  # type: ignore[attr-defined]
    same = doubles.same_machine(host)
    last_test, gpus = host.tests.first(), host.gpus.filter(present=True)
    return {
        "host": host,
        "same": {"words": doubles.in_words(host, same), "hint": doubles.hint(host, same)} if same else None,
        "is_set_up": bool(gpus) and not offered and _was_tested(host, last_test),
        "pinned": pinned,
        "offered": offered,
        "key_changed": bool(pinned and offered),
        "public_key": services.panel_public_key() if host.key_source == Host.KeySource.PANEL else "",
        "last_test": last_test,
        "gpus": gpus,
        "gone": host.gpus.filter(present=False),
        "placements": host.placements.select_related("deployment").prefetch_related("deployment__placements__host"),
        "in_use": host.placements.exclude(deployment__state="released").exists(),
        "trust_form": TrustForm(),
        "spans": showing.spans(),
        "maintenance_form": MaintenanceForm(),
    }


def _was_tested(host: Host, last_test: HostTest | None) -> bool:
    """It answers, and its last test found nothing to be done: its steps are past, and what it does comes first."""
    if host.reach != Host.Reach.REACHABLE or last_test is None or last_test.finished_at is None:
        return False
    return all(finding["status"] in ("ok", "info") for finding in last_test.findings)


def _trusted_by(key: HostKey) -> str:
    """Who compared the fingerprint. The audit still knows somebody whose account was deleted."""
    if key.pinned_by is not None:
        return key.pinned_by.get_username()
    host = {"target_type": Host._meta.label_lower, "target_id": str(key.host_id)}
    for entry in AuditEntry.objects.filter(action="trust host key", **host):
        if entry.detail.get("fingerprint") == key.fingerprint:
            return f"{entry.actor_name}, whose account was deleted since"
    return "the panel itself when it was set up"
