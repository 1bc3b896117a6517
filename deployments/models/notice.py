"""NoticeAddress: where somebody is told. Notice: one thing that somebody is told there, once."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from controlpanel import sealing
from deployments.models.deployment import Deployment


class NoticeAddress(models.Model):
    """A chat or mail address of one person, sealed: it holds tokens and passwords."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="notice_addresses")
    name = models.CharField(max_length=64)
    service = models.CharField(max_length=64, help_text="What kind of address it is, in words.")
    sealed = models.TextField(help_text="Opened only by the key file in the panel's data directory.")
    deployment = models.ForeignKey(
        Deployment, models.CASCADE, null=True, blank=True, related_name="+", help_text="Empty: all of them."
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name", "pk"]
        constraints = [models.UniqueConstraint(fields=["user", "name"], name="notice_name_once")]

    def __str__(self) -> str:
        return self.name

    @property
    def owner(self) -> str:
        """What it is sealed for: a row that is copied to somebody else does not open."""
        return f"notice {self.user_id} {self.name}"

    def put(self, url: str) -> None:
        """Seal the address into this row, which is not saved yet. Raises CannotUnseal."""
        self.sealed = sealing.seal(url, owner=self.owner)

    def open(self) -> str:
        """The address. Raises CannotUnseal."""
        return sealing.unseal(self.sealed, owner=self.owner)


class Notice(models.Model):
    """Sent once; tried again for a while where the service does not take it. Without ``due_at`` nothing more is due."""

    address = models.ForeignKey(NoticeAddress, models.CASCADE, related_name="notices")
    key = models.CharField(max_length=100, help_text="Of the thing: no address is told of it twice.")
    title = models.CharField(max_length=200)
    text = models.TextField(blank=True)
    path = models.CharField(max_length=200, help_text="Of the page that shows it.")
    made_at = models.DateTimeField(auto_now_add=True)
    due_at = models.DateTimeField(null=True)
    tries = models.PositiveSmallIntegerField(default=0)
    sent_at = models.DateTimeField(null=True)
    problem = models.CharField(max_length=300, blank=True)

    class Meta:
        ordering = ["-pk"]
        constraints = [models.UniqueConstraint(fields=["address", "key"], name="notice_key_once")]
        indexes = [models.Index(fields=["due_at"], name="notice_due")]

    def __str__(self) -> str:
        return f"{self.title} to {self.address}"
