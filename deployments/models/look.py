"""ServerLook: one look for servers that run on a host."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.db import models
from django.utils import timezone

LONGEST_LOOK = timedelta(minutes=2)
"""After this long without an end, a look counts as one whose worker has died."""


class ServerLook(models.Model):
    """One look for servers on a host, made by a worker. The newest that has ended is the one that counts."""

    host = models.ForeignKey("hosts.Host", models.CASCADE, related_name="server_looks")
    requested_at = models.DateTimeField(auto_now_add=True)
    requested_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    servers = models.JSONField(default=list, help_text="Each as discovery/found.py writes it: no secret in the open.")
    problem = models.TextField(blank=True, help_text="Why nothing could be seen.")
    hint = models.TextField(blank=True)

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return f"look for servers on {self.host}"

    @property
    def goes_on(self) -> bool:
        """Somebody has asked, and the answer is still to come."""
        return self.finished_at is None and timezone.now() - self.requested_at < LONGEST_LOOK
