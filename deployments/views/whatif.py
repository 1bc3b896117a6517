"""What if: a profile's command with another context, precision, fraction or number of cards, from what is known.

No host is asked: the model's files are those that were read last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from controlpanel.access import Action, requires
from controlpanel.views.asking import asking
from deployments import services
from deployments.engines.base import Engine
from deployments.engines.registry import ENGINES
from deployments.fit.estimate import KV_FLAGS
from deployments.fit.whatif import Wanted, as_launched, flags_for, has_setting, tokens_of
from deployments.fit.where import draft_place, model_place
from deployments.models import Placement, Profile, Revision
from deployments.views.fitthere import Place, Tried, tried
from deployments.views.revisions import revision_numbered
from hosts.models import Host
from hosts.probe.frames import Unknown

MOST_CARDS = 64


class WhatIfForm(forms.Form):
    """The settings that people try first; an empty one stays as the command has it."""

    on = forms.ChoiceField(label="On", required=False)
    context = forms.CharField(label="Context", required=False, max_length=12)
    kv = forms.ChoiceField(label="KV cache", required=False)
    fraction = forms.FloatField(label="Memory fraction", required=False, min_value=0.01, max_value=1)
    cards = forms.IntegerField(label="Cards to split over", required=False, min_value=1, max_value=MOST_CARDS)

    def __init__(self, data: QueryDict, *, engine: Engine, now: Mapping[str, str], places: Sequence[Place]) -> None:
        super().__init__(data, auto_id="whatif-%s")
        self._choices("on", [(place.key, place.label) for place in places])
        kinds = [(name, name) for name in KV_FLAGS[engine.key]]
        launched = f"as launched ({now['precision']})" if now["precision"] else "as launched"
        self._choices("kv", [("", launched), *kinds])
        for name in ("context", "fraction", "cards"):
            if has_setting(engine, name):
                self.fields[name].widget.attrs |= {"placeholder": now[name] or "the engine decides"}
            else:
                del self.fields[name]
        self.fields["context"].widget.attrs |= {"inputmode": "text"}

    def _choices(self, name: str, choices: list[tuple[str, str]]) -> None:
        chosen = self.fields[name]
        assert isinstance(chosen, forms.ChoiceField)
        chosen.choices = choices

    def clean_context(self) -> int | None:
        """Tokens."""
        text = self.cleaned_data["context"]
        if not text:
            return None
        tokens = tokens_of(text)
        if tokens is None:
            raise forms.ValidationError("Write a number of tokens, as 131072 or 128K.")
        return tokens

    @property
    def wanted(self) -> Wanted:
        """What to try; what is not valid is left as it is."""
        found = self.cleaned_data
        return Wanted(found.get("context"), found.get("kv", ""), found.get("fraction"), found.get("cards"))


@require_GET
@requires(Action.LOOK)
def whatif(request: HttpRequest, pk: int) -> HttpResponse:
    """The part of the page that changes with the settings."""
    profile = get_object_or_404(Profile, pk=pk)
    shown = revision_numbered(profile, request.GET.get("revision")) or profile.newest
    return render(request, "deployments/_whatif_result.html", context(request, profile, shown))


@require_POST
@requires(Action.TEST_HOST)
def read(request: HttpRequest, pk: int) -> HttpResponse:
    """Ask a worker to read the model's files, and those of its draft, on the chosen host."""
    profile = get_object_or_404(Profile, pk=pk)
    shown = revision_numbered(profile, request.POST.get("revision")) or profile.newest
    engine = ENGINES[profile.engine]
    place = _chosen(places_of(profile), request.POST.get("on", ""))
    found = model_place(engine, shown.argv, shown.container)
    if place is not None and not isinstance(found, Unknown):
        for path in filter(None, (found, draft_place(engine, shown.argv, shown.container))):
            services.request_model(place.host, path, shown.workdir, **asking(request))
    kept = QueryDict(mutable=True)
    kept.update({name: request.POST[name] for name in ("revision", *WhatIfForm.base_fields) if name in request.POST})
    return redirect(f"{reverse('deployments:profile', args=[pk])}?{kept.urlencode()}#whatif")


def context(request: HttpRequest, profile: Profile, shown: Revision) -> dict[str, Any]:
    """For the panel of the profile's page; empty for an engine whose needs nobody knows."""
    engine = ENGINES.get(profile.engine)
    if engine is None or engine.key not in KV_FLAGS:
        return {}
    places = places_of(profile)
    form = WhatIfForm(request.GET, engine=engine, now=as_launched(engine, shown.argv), places=places)
    form.is_valid()
    place = _chosen(places, form.cleaned_data.get("on", ""))
    found = (
        tried(engine, shown, place, flags=flags_for(engine, form.wanted))
        if place is not None
        else Tried(reason="Add a host first.")
    )
    kept = {name: request.GET[name] for name in WhatIfForm.base_fields if request.GET.get(name)}
    return {"whatif": form, "tried": found, "place": place, "shown": shown, "profile": profile, "kept": kept}


def places_of(profile: Profile) -> list[Place]:
    """Where it is used, then all hosts with cards."""
    used = Placement.objects.filter(deployment__profile=profile).select_related("host", "deployment")
    found = [
        Place(f"d{one.deployment_id}", f"{one.deployment} on {one.host}", one.host, one.gpu_uuids)
        for one in used.order_by("pk")
    ]
    hosts = Host.objects.filter(gpus__present=True).distinct().order_by("name")
    return [*found, *(Place(f"h{host.pk}", f"any cards of {host}", host, ()) for host in hosts)]


def _chosen(places: Sequence[Place], key: str) -> Place | None:
    return next((place for place in places if place.key == key), places[0] if places else None)
