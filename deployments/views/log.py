"""A job's log: pieces of it for its viewer, where a text is said in it, and the whole of it as a file."""

from __future__ import annotations

import re

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_GET

from controlpanel.access import Action, requires
from controlpanel.views.streaming import streamed
from deployments import logreading
from deployments.loglines import ESCAPES
from deployments.logreading import Piece
from deployments.models import Job, LogChunk

LONGEST_TEXT = 200


@require_GET
@requires(Action.LOOK)
def piece(request: HttpRequest, pk: int) -> HttpResponse:
    """Some chunks ``before`` or ``after`` a chunk, ``around`` one, around a ``line``, or the end; of one ``step``."""
    found = _piece(request, get_object_or_404(Job, pk=pk))
    items = [logreading.item(chunk) for chunk in found.chunks]
    return JsonResponse({"items": items, "older": found.older, "newer": found.newer})


def _piece(request: HttpRequest, job: Job) -> Piece:
    step = request.GET.get("step", "")
    for name, read in (("before", logreading.before), ("after", logreading.after), ("around", logreading.around)):
        if name in request.GET:
            return read(job, _number(request.GET[name]), step=step)
    if "line" in request.GET:
        return logreading.around(job, logreading.chunk_of_line(job, _number(request.GET["line"])), step=step)
    return logreading.end(job, step=step)


@require_GET
@requires(Action.LOOK)
def find(request: HttpRequest, pk: int) -> HttpResponse:
    """The newest lines that say ``text``: [[chunk, number in it], ...]."""
    job = get_object_or_404(Job, pk=pk)
    text = request.GET.get("text", "")[:LONGEST_TEXT]
    found = logreading.find(job, text, step=request.GET.get("step", "")) if text else logreading.Matches([], more=False)
    return JsonResponse({"lines": found.lines, "more": found.more})


def _number(text: str) -> int:
    """A place in a log; what is none stands before its beginning."""
    return int(text) if text.isdecimal() and text.isascii() and len(text) < 10 else 0


@require_GET
@requires(Action.LOOK)
def log_text(request: HttpRequest, pk: int) -> HttpResponseBase:
    """The whole log of a job as it is stored; ``?colors=no`` leaves the terminal's colours out."""
    job = get_object_or_404(Job, pk=pk)
    plain = request.GET.get("colors") == "no"
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", f"job-{job.pk}-{job.kind}-{job.deployment_name}")
    chunks = LogChunk.objects.filter(job=job).order_by("seq").only("text")
    return streamed(
        request, chunks, write=lambda chunk: ESCAPES.sub("", chunk.text) if plain else chunk.text,
        name=f"{name}.txt", content_type="text/plain",
    )  # fmt: skip
