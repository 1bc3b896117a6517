"""A job's whole log as a file."""

from __future__ import annotations

import re

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_GET

from controlpanel.access import Action, requires
from controlpanel.views.streaming import streamed
from deployments.models import Job, LogChunk

ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")


@require_GET
@requires(Action.LOOK)
def log_text(request: HttpRequest, pk: int) -> HttpResponseBase:
    """The whole log of a job as text; ``?colors=no`` leaves the terminal's colours out."""
    job = get_object_or_404(Job, pk=pk)
    plain = request.GET.get("colors") == "no"
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", f"job-{job.pk}-{job.kind}-{job.deployment_name}")
    chunks = LogChunk.objects.filter(job=job).order_by("seq")
    return streamed(
        request, chunks, write=lambda chunk: _text(chunk, plain=plain), name=f"{name}.txt", content_type="text/plain"
    )


def _text(chunk: LogChunk, *, plain: bool) -> str:
    text = ESCAPES.sub("", chunk.text) if plain else chunk.text
    if chunk.source == LogChunk.Source.PANEL:
        text = "".join(f"[relaunch] {line}\n" for line in text.splitlines())
    if chunk.dropped and not text:
        return f"[relaunch] {chunk.dropped} bytes of the server's log were dropped here\n"
    return text
