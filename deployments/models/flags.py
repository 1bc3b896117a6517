"""FlagCatalogue: which flags an engine that is installed on a host has."""

from __future__ import annotations

from datetime import timedelta
from functools import cached_property

from django.db import models
from django.utils import timezone

from deployments.catalogue.model import BadAnswer, Catalogue, flags_from

LONGEST_READING = timedelta(minutes=2)
"""After this long without an end, a reading counts as one whose worker has died."""


class FlagCatalogue(models.Model):
    """The flags of one installation of an engine on a host, and the last reading of them.

    ``key`` stands for the program as a command names it, with all that decides where its files are. A newer version
    found there takes the place of the older one.
    """

    host = models.ForeignKey("hosts.Host", models.CASCADE, related_name="flag_catalogues")
    engine = models.CharField(max_length=32)
    key = models.CharField(max_length=64)
    program = models.TextField(help_text="The program as a command names it.")
    how = models.JSONField(default=dict, help_text="How to find it on the host.")

    version = models.CharField(max_length=40, blank=True)
    interpreter = models.CharField(max_length=300, blank=True)
    package = models.CharField(max_length=300, blank=True)
    stamp = models.CharField(max_length=64, blank=True, help_text="Changes with the files that tell the flags.")
    source = models.CharField(max_length=8, blank=True, help_text="source or help; empty when never read.")
    gaps = models.JSONField(default=list, help_text="What of the source could not be followed.")
    flags = models.JSONField(default=list)
    read_at = models.DateTimeField(null=True, help_text="When it was last seen to be so.")

    requested_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    problem = models.TextField(blank=True, help_text="Why the last reading gave nothing.")
    hint = models.TextField(blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["host", "engine", "key"], name="flags_once_per_program")]

    def __str__(self) -> str:
        return f"flags of {self.program} on {self.host}"

    @property
    def is_being_read(self) -> bool:
        """Somebody has asked, and the answer is still to come."""
        asked = self.requested_at
        return asked is not None and self.finished_at is None and timezone.now() - asked < LONGEST_READING

    @cached_property
    def catalogue(self) -> Catalogue | None:
        """The flags; None when they were never read."""
        try:
            flags = flags_from(self.flags)
        except BadAnswer:
            return None
        return Catalogue(
            engine=self.engine,
            version=self.version,
            interpreter=self.interpreter,
            source="source" if self.source == "source" else "help",
            flags=flags,
            gaps=tuple(self.gaps),
            stamp=self.stamp,
            package=self.package,
        )
