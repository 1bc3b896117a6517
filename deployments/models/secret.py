"""Secret: what a server is given that nobody may read."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils import timezone

from controlpanel import sealing
from deployments.models.deployment import Deployment


class Secret(models.Model):
    """One version of a secret of a deployment, sealed. Immutable: a new value is a new row.

    It belongs to the deployment and not to its profile: a profile is an exact recipe that is compared, copied and shown
    to everybody, and serves on several hosts, each of which may have a key of its own.

    One that was replaced or removed is kept, out of use, for as long as a server lives that was started with it:
    what this server says is still masked, and it is still asked with the key that it knows.
    """

    deployment = models.ForeignKey(Deployment, models.CASCADE, related_name="secrets")
    name = models.CharField(max_length=64, help_text="Of the environment variable, or “API key”.")
    sealed = models.TextField(help_text="Opened only by the key file in the panel's data directory.")
    set_at = models.DateTimeField(default=timezone.now)
    set_by_name = models.CharField(max_length=150)
    set_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    retired_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["name", "pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["deployment", "name"], condition=models.Q(retired_at=None), name="secret_name_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} of {self.deployment}"

    @property
    def owner(self) -> str:
        """What it is sealed for: a row that is copied elsewhere does not open."""
        return f"{self.deployment_id} {self.name}"

    def put(self, value: str) -> None:
        """Seal ``value`` into this row, which is not saved yet."""
        self.sealed = sealing.seal(value, owner=self.owner)

    def open(self) -> str:
        """The value. Raises CannotUnseal."""
        return sealing.unseal(self.sealed, owner=self.owner)
