"""The page of one job and its parts, and the two things a person can do to it: answer and cancel."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_POST

from controlpanel.access import Action, may, requires
from controlpanel.forms import PLAIN_NUMBER
from controlpanel.views.asking import asking
from deployments import logreading, services
from deployments.lifecycle import StepName
from deployments.models import Gate, Job
from deployments.views import board
from deployments.views.coming import coming
from deployments.views.gatecard import gate_card, why_is_missing
from deployments.views.outcome import outcome
from deployments.views.words import job_word

PARTS = ("header", "gate", "steps", "outcome")


@require_GET
@requires(Action.LOOK)
def strip(request: HttpRequest) -> HttpResponse:
    """The line on top of every page, fetched again when something changed."""
    return render(request, "deployments/_strip.html", {"strip": board.strip()})


@require_GET
@requires(Action.LOOK)
def job(request: HttpRequest, pk: int) -> HttpResponse:
    """The whole page."""
    return _page(request, _job(pk))


@require_GET
@requires(Action.LOOK)
def part(request: HttpRequest, pk: int, part: str) -> HttpResponse:
    """One part of the page, fetched again when the job's version has risen."""
    if part not in PARTS:
        raise Http404
    found = _job(pk)
    return render(request, f"deployments/_job_{part}.html", _context(request, found))


@require_POST
@requires(Action.LOOK)
def answer(request: HttpRequest, pk: int, gate_pk: int) -> HttpResponse:
    """Give a waiting job its answer; who may choose what is the service's to say."""
    found = _job(pk)
    gate = get_object_or_404(Gate.objects.select_related("job__deployment"), pk=gate_pk, job=found)
    given = {key: request.POST.get(key, "") for key in ("choice", "comment", "plan_hash")}
    try:
        _check_name(request, gate, choice=given["choice"])
        services.answer_gate(gate, **given, **asking(request))
    except services.Refused as refused:
        typed = {**given, **_typed_name(request, gate, given["choice"]), "why_is_missing": why_is_missing(gate, given)}
        return _page(request, _job(pk), refused=refused, typed=typed, status=409)
    return redirect("deployments:job", pk=pk)


@require_POST
@requires(Action.APPROVE)
def approve_when_idle(request: HttpRequest, pk: int, gate_pk: int) -> HttpResponse:
    """Approve the plan for a moment without requests."""
    found = _job(pk)
    gate = get_object_or_404(Gate.objects.select_related("job__deployment"), pk=gate_pk, job=found)
    typed: dict[str, Any] = {key: request.POST.get(key, "").strip() for key in ("begins", "ends", "plan_hash")}
    try:
        _check_name(request, gate, choice="approve")
        begins, ends = (_hours(typed[key]) for key in ("begins", "ends"))
        services.approve_when_idle(gate, begins=begins, ends=ends, plan_hash=typed["plan_hash"], **asking(request))
    except services.Refused as refused:
        typed = {**typed, **_typed_name(request, gate, "approve"), "later": True}
        return _page(request, _job(pk), refused=refused, typed=typed, status=409)
    return redirect("deployments:job", pk=pk)


def _hours(text: str) -> int:
    if not PLAIN_NUMBER.fullmatch(text):
        raise services.Refused(f"“{text[:20]}” is no number of hours.", hint="Write whole hours from now, as in 8.")
    return int(text)


def _check_name(request: HttpRequest, gate: Gate, *, choice: str) -> None:
    """On production what stops or kills something needs the deployment's name, typed."""
    deployment = gate.job.guarded
    if deployment is not None and _typed_name(request, gate, choice)["name_is_wrong"]:
        raise services.Refused(
            f"{deployment.name} is a production deployment.", hint=f"Type its name, {deployment.name}, to confirm."
        )


def _typed_name(request: HttpRequest, gate: Gate, choice: str) -> dict[str, Any]:
    """What was typed as the deployment's name, and whether this choice needs another."""
    option: dict[str, Any] = next((option for option in gate.choices if option["key"] == choice), {})
    typed, guarded = request.POST.get("typed_name", "").strip(), gate.job.guarded
    needed = guarded is not None and (choice == "approve" or bool(option.get("danger")))
    return {"typed_name": typed, "name_is_wrong": needed and guarded is not None and typed != guarded.name}


@require_POST
@requires(Action.LOOK)
def cancel(request: HttpRequest, pk: int) -> HttpResponse:
    """Ask the job to stop where it is."""
    found = _job(pk)
    if not _may_cancel(request):
        raise PermissionDenied("This needs a role that may ask for jobs or approve them.")
    try:
        services.cancel_job(found, **asking(request))
    except services.Refused as refused:
        return _page(request, _job(pk), refused=refused, status=409)
    messages.success(request, f"Asked to cancel the {found.kind} of {found.deployment_name}.")
    return redirect("deployments:job", pk=pk)


def _job(pk: int) -> Job:
    jobs = Job.objects.select_related("deployment", "replaces", "revision__profile", "previous_revision__profile")
    return get_object_or_404(jobs.prefetch_related("steps", "gates"), pk=pk)


def _page(request: HttpRequest, job: Job, *, status: int = 200, **more: Any) -> HttpResponse:
    log = {
        "log_begins_after": logreading.tail_begins_after(job),
        "log_end": logreading.end(job).chunks,  # for a browser without JavaScript
        "log_steps": [*dict.fromkeys(step.name for step in job.steps.all())],
    }
    return render(request, "deployments/job.html", _context(request, job) | log | more, status=status)


def _context(request: HttpRequest, job: Job) -> dict[str, Any]:
    card = gate_card(job, user=request.user)
    if card is not None:
        job = _job(job.pk)  # the question may be newer than the row that was read, which holds its plan
    ends_at_its_question = card is not None and card.can_discard
    return {
        "job": job,
        "word": job_word(job),
        "card": card,
        "coming": coming(job) if card is None else None,
        "answered": [gate for gate in job.gates.all() if gate.answered_at],
        "steps": job.steps.prefetch_related("checks", "effects", "gates"),
        "goes_back": any(step.way_back and step.name == StepName.LAUNCH for step in job.steps.all()),
        "may_cancel": _may_cancel(request) and _can_be_cancelled(job) and not ends_at_its_question,
        "gpus": list(dict.fromkeys(gpu for one in job.subjects if one.place for gpu in one.place.gpus)),
        **outcome(job),
    }


def _can_be_cancelled(job: Job) -> bool:
    return job.is_active and not job.cancel_requested_by


def _may_cancel(request: HttpRequest) -> bool:
    return may(request.user, Action.ASK) or may(request.user, Action.APPROVE)
