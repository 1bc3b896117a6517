"""Where that is mended which a plan warns of: a link for who may do it."""

from __future__ import annotations

from dataclasses import dataclass

from django.urls import reverse

from controlpanel.access import Permissions
from deployments.models import Job
from deployments.plan.warnings import Cure


@dataclass(frozen=True)
class CurePage:
    """The page, and what the link to it says."""

    url: str
    label: str
    icon: str


def cure_page(job: Job, cure: str, may: Permissions, *, of: str = "") -> CurePage | None:
    """Where the reader does what a warning of ``job``'s plan says; None where no page helps, or not this reader.

    ``of``: the name of the deployment that a replacement stops, where the warning is about that one.
    """
    deployment, revision, whose = job.deployment, job.revision, ""
    if of:
        deployment = next((one for one in job.subjects if one.name == of), None)
        revision, whose = deployment.revision if deployment is not None else None, f" of {of}"
    if deployment is None:
        return None
    match cure:
        case Cure.FLAGS if revision is not None and may["edit_profile"]:
            url = reverse("deployments:revise", args=[revision.profile_id])
            query = f"?from={revision.number}&plan={deployment.pk}"
            return CurePage(url + query, f"Edit the flags{whose}…", "pencil")
        case Cure.SETTINGS if may["edit_deployment"]:
            url = reverse("deployments:deployment_edit", args=[deployment.pk])
            return CurePage(url, f"Edit {deployment}…", "pencil")
        case Cure.SECRETS if may["set_secret"]:
            return CurePage(reverse("deployments:secrets", args=[deployment.pk]), f"Secrets of {deployment}…", "key")
        case Cure.RESTART if may["ask"]:
            url = reverse("deployments:plan_restart", args=[deployment.pk])
            return CurePage(url, "Plan a restart…", "rotate-clockwise")
        case Cure.START if may["ask"]:
            url = reverse("deployments:plan_start", args=[deployment.pk])
            return CurePage(url, f"Plan a start of {deployment}…", "player-play")
        case Cure.HOST if deployment.place is not None:
            host = deployment.place.host
            return CurePage(reverse("hosts:host", args=[host.pk]), f"Look at {host}", "server-2")
    return None
