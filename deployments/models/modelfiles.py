"""ModelOnHost: what decides about memory in a model's files, as they were read on a host."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from functools import cached_property
from typing import Any

from django.db import models
from django.utils import timezone

from deployments.fit.files import ModelFiles
from deployments.fit.stored import files_from
from hosts.models import Host

LONGEST_READING = timedelta(minutes=2)
"""After this long without an end, a reading counts as one whose worker has died."""


def key_of(path: str, workdir: str) -> str:
    """The same for the same place; a relative path counts from the directory."""
    place = path if path.startswith(("/", "~")) else f"{workdir}\0{path}"
    return hashlib.sha256(place.encode()).hexdigest()


class ModelOnHost(models.Model):
    """One model of a host by its path, and the last reading of its files. What was known before stays when a reading
    finds nothing.
    """

    host = models.ForeignKey("hosts.Host", models.CASCADE, related_name="models_read")
    key = models.CharField(max_length=64)
    path = models.TextField()
    workdir = models.TextField(blank=True)

    files = models.JSONField(default=dict, help_text="As of fit/stored.py; empty when never read.")
    read_at = models.DateTimeField(null=True)

    requested_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    problem = models.TextField(blank=True, help_text="Why the last reading gave nothing.")
    hint = models.TextField(blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["host", "key"], name="model_once_per_path")]

    def __str__(self) -> str:
        return f"{self.path} on {self.host}"

    @classmethod
    def at(cls, host: Host, path: str, workdir: str) -> ModelOnHost | None:
        """What is stored of a model on a host; None when nobody has asked for it yet."""
        return cls.objects.filter(host=host, key=key_of(path, workdir)).first()

    @property
    def is_being_read(self) -> bool:
        """Somebody has asked, and the answer is still to come."""
        asked = self.requested_at
        return asked is not None and self.finished_at is None and timezone.now() - asked < LONGEST_READING

    @cached_property
    def found(self) -> ModelFiles | None:
        """What was read; None when nothing ever was."""
        data: dict[str, Any] = self.files
        return files_from(data) if data else None
