"""Profile: a named launch recipe. Revision: one immutable version of it."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models

from deployments.commandline import Command, on_one_line
from deployments.flags import settings_of


class Profile(models.Model):
    """A named launch recipe. Its content is in its revisions; the newest is what an edit starts from."""

    name = models.CharField(max_length=64, unique=True)
    engine = models.CharField(max_length=32)
    description = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def newest(self) -> Revision:
        """The revision with the highest number. A profile is never without one (services.create_profile)."""
        return self.revisions.order_by("-number")[0]


class Revision(models.Model):
    """An immutable, numbered version of a profile: exactly how the server is started."""

    profile = models.ForeignKey(Profile, models.PROTECT, related_name="revisions")
    number = models.PositiveIntegerField()
    argv = models.JSONField(help_text="The command as a list of words, never put together from text.")
    env = models.JSONField(default=dict, help_text="Environment variables added to the login's own.")
    workdir = models.CharField(max_length=500, blank=True)
    container = models.JSONField(
        default=dict, blank=True, help_text="Empty, or the tool, image and options of the container around the command."
    )
    port = models.PositiveIntegerField(help_text="The port the server listens on.")
    ready_pattern = models.CharField(max_length=200, blank=True, help_text="Text in the log that says: ready.")
    engine_versions = models.CharField(
        max_length=200, blank=True, help_text="Versions of the engine that it is known to be good with; empty: any."
    )
    notes = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")

    class Meta:
        ordering = ["profile_id", "-number"]
        constraints = [models.UniqueConstraint(fields=["profile", "number"], name="revision_number_once")]

    def __str__(self) -> str:
        return f"{self.profile.name} r{self.number}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Insert only: a change makes a new revision."""
        if not self._state.adding:
            raise TypeError(f"{self} is immutable: a change makes a new revision")
        super().save(*args, **kwargs)

    @property
    def command(self) -> Command:
        """What it starts, without its row."""
        return Command(self.argv, self.env, self.workdir, self.container)

    @property
    def command_line(self) -> str:
        """The command as one would type it, environment first."""
        return on_one_line(self.command)

    @property
    def settings(self) -> dict[str, str]:
        """All that it is made of by name, to be compared."""
        return settings_of(self.argv, self.env, self.workdir, self.container)
