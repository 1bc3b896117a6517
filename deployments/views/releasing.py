"""Let go of a deployment, and tidy up on its host once more."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST

from controlpanel.access import Action, requires
from controlpanel.views.asking import asking
from deployments import services
from deployments.models import Deployment


@require_POST
@requires(Action.EDIT_DEPLOYMENT)
def release(request: HttpRequest, pk: int) -> HttpResponse:
    """Release a deployment, or tidy up again after that."""
    deployment = get_object_or_404(Deployment, pk=pk)
    try:
        if "again" in request.POST:
            services.tidy_up_again(deployment, **asking(request))
        else:
            services.release(deployment, typed_name=request.POST.get("typed_name", ""), **asking(request))
            messages.success(request, f"{deployment} is released. What runs, runs on.")
    except services.Refused as refused:
        return render(request, "409.html", {"refused": refused}, status=409)
    return redirect("deployments:deployment", pk=pk)
