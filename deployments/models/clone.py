"""CloneCheck: what differs on another host, looked at before a deployment is made there."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.db import models
from django.urls import reverse
from django.utils import timezone

from deployments.models.deployment import Deployment
from hosts.models import Host

LONGEST_CHECK = timedelta(minutes=2)
"""After this long without an end, a check counts as one whose worker has died."""


class CloneCheck(models.Model):
    """One look at the host that a deployment is to be cloned to. ``rows`` are what was compared (cloning/rows.py)."""

    deployment = models.ForeignKey(Deployment, models.CASCADE, related_name="clone_checks")
    revision = models.ForeignKey(
        "deployments.Revision", models.CASCADE, null=True, related_name="+", help_text="That was checked."
    )
    name = models.CharField(max_length=64, help_text="Of the deployment that is to be made.")
    host = models.ForeignKey(Host, models.CASCADE, related_name="+")
    gpu_uuids = models.JSONField(default=list)
    requested_at = models.DateTimeField(auto_now_add=True)
    requested_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    rows = models.JSONField(default=list)
    problem = models.TextField(blank=True, help_text="Why the host could not be looked at.")
    hint = models.TextField(blank=True)

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return f"{self.deployment} to {self.host}"

    def get_absolute_url(self) -> str:
        """Its page."""
        return reverse("deployments:clone_check", args=[self.pk])

    @property
    def has_moved(self) -> bool:
        """Would a restart of the deployment launch another revision by now than the one that was checked?"""
        return self.revision_id != self.deployment.revision_id

    @property
    def goes_on(self) -> bool:
        """The answer is still to come."""
        return self.finished_at is None and timezone.now() - self.requested_at < LONGEST_CHECK
