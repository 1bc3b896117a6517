"""The router of a deployment: the form of its hooks, what is said while it is out, and the buttons that end that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.request import QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.dateparse import parse_datetime
from django.views.decorators.http import require_POST

from controlpanel.access import Action, requires
from controlpanel.views.asking import asking
from deployments import services
from deployments.forms import PLAIN
from deployments.lifecycle import ServiceState
from deployments.models import Deployment
from deployments.traffic.hook import METHODS, How, Moment, hook_of, said_as

HOW = [("", "Nothing"), (How.REQUEST.value, "Send a request to the router"), (How.COMMAND.value, "Run a command")]


class HookForm(forms.Form):
    """One hook. After ``is_valid`` ``hook`` is what is kept of it: empty for none."""

    how = forms.ChoiceField(required=False, choices=HOW)
    method = forms.ChoiceField(label="Method", required=False, choices=[(name, name) for name in METHODS])
    url = forms.CharField(
        label="Address", required=False, max_length=2000, widget=forms.TextInput(attrs=PLAIN),
        help_text="As the panel's own machine reaches the router; where only the host reaches it, run a command.",
    )  # fmt: skip
    headers = forms.CharField(
        label="Headers", required=False, max_length=8000, widget=forms.Textarea(attrs=PLAIN | {"rows": 2}),
        help_text="One a line, as in Content-Type: application/json. For the router's key write {router key}.",
    )  # fmt: skip
    body = forms.CharField(
        label="Body", required=False, max_length=8000, widget=forms.Textarea(attrs=PLAIN | {"rows": 3}),
        help_text="Empty: none.",
    )  # fmt: skip
    command = forms.CharField(
        label="Command", required=False, max_length=8000, widget=forms.Textarea(attrs=PLAIN | {"rows": 2}),
        help_text="Run by sh on the deployment's host, as the panel's login there.",
    )  # fmt: skip

    def __init__(self, *args: Any, label: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["how"].label = label
        self.hook: dict[str, str] = {}

    def clean(self) -> dict[str, Any]:
        """What was written, as a hook."""
        said = super().clean() or self.cleaned_data
        how = said.get("how") or ""
        if how:
            texts = {name: said.get(name, "") for name in ("method", "url", "headers", "body", "command")}
            try:
                self.hook = said_as(how, **texts).as_data
            except ValueError as problem:
                self.add_error("command" if how == How.COMMAND else "url", str(problem))
        return said


class HookForms:
    """Both hooks of a deployment, as a part of its form. They come together: what is taken out must come back."""

    LABELS = {
        Moment.TAKE_OUT: "Before the server is stopped, to take it out",
        Moment.PUT_BACK: "After the new one has passed its check, to put it back",
    }

    def __init__(self, data: QueryDict | None, *, hooks: dict[str, Any]) -> None:
        self.forms = [
            HookForm(data, prefix=moment.name.lower(), initial=hooks.get(moment, {}), label=label)
            for moment, label in self.LABELS.items()
        ]

    @property
    def has_errors(self) -> bool:
        """Something of it is not right."""
        return any(form.errors for form in self.forms)

    def is_valid(self) -> bool:
        """Both are right, and there are both or none."""
        for form in self.forms:
            form.full_clean()
        if self.has_errors:
            return False
        empty = [form for form in self.forms if not form.hook]
        if len(empty) == 1:
            empty[0].add_error("how", "Say both: what is taken out of a router must be put back.")
        return len(empty) != 1

    @property
    def hooks(self) -> dict[str, Any]:
        """As they are kept, after ``is_valid``."""
        found = zip(self.LABELS, self.forms, strict=True)
        return {moment.value: form.hook for moment, form in found if form.hook}


@dataclass(frozen=True)
class Out:
    """A deployment that is out of its router, ready for a page."""

    since: Any
    job: int
    sure: bool
    why: str
    meant: bool
    back_by: str
    """What the button runs; empty where nothing is set."""


def out_of_router(deployment: Deployment) -> Out | None:
    """What the page says of it; None where it is in its router, or nobody has taken it out."""
    mark = deployment.out_of_router
    if not mark:
        return None
    hook = hook_of(deployment.hooks, Moment.PUT_BACK)
    # A stop leaves it out until its next start; when it serves all the same, its users do not reach it.
    meant = mark.get("meant", False) and deployment.state not in (ServiceState.SERVING, ServiceState.NOT_ANSWERING)
    return Out(parse_datetime(mark["since"]), mark["job"], mark["sure"], mark.get("why", ""), meant, str(hook or ""))


def hooks_in_words(deployment: Deployment) -> list[str]:
    """What is run, in the order in which it is."""
    return [str(hook) for moment in Moment if (hook := hook_of(deployment.hooks, moment)) is not None]


@require_POST
@requires(Action.ASK)
def put_back(request: HttpRequest, pk: int) -> HttpResponse:
    """Run the put-back again, or say that it is back (``said``)."""
    deployment = get_object_or_404(Deployment, pk=pk)
    try:
        if "said" in request.POST:
            services.say_it_is_back(deployment, **asking(request))
            messages.success(request, f"{deployment} counts as back in its router.")
            return redirect("deployments:deployment", pk=pk)
        job = services.request_put_back(deployment, request_key=uuid4(), **asking(request))
    except services.Refused as refused:
        return render(request, "409.html", {"refused": refused}, status=409)
    return redirect("deployments:job", pk=job.pk)
