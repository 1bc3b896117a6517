"""What was done (AuditEntry), and how people get in (OneTimeLink, FailedSignIn)."""

import json
from typing import Any, NoReturn

from django.conf import settings
from django.db import models


class AppendOnly(Exception):
    """Somebody tried to change or remove what is only ever added to."""


class AuditQuerySet(models.QuerySet["AuditEntry"]):
    def update(self, **_: Any) -> NoReturn:
        raise AppendOnly("audit entries are never changed")

    def delete(self) -> NoReturn:
        raise AppendOnly("audit entries are never removed")

    def bulk_create(self, *_: Any, **__: Any) -> NoReturn:
        raise AppendOnly("audit entries are written one by one, by controlpanel.audit.record")


class AuditEntry(models.Model):
    """One thing that a person or the panel did; `hash` covers it and, through `previous_hash`, all before
    it.
    """

    number = models.PositiveBigIntegerField(unique=True)
    at = models.DateTimeField(db_index=True)
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    actor_name = models.CharField(max_length=150, db_index=True)
    address = models.CharField(max_length=64, blank=True)
    action = models.CharField(max_length=64, db_index=True)
    target_type = models.CharField(max_length=64, blank=True)
    target_id = models.CharField(max_length=64, blank=True)
    target_name = models.CharField(max_length=200, blank=True)
    # The exact text that was hashed: a JSON column would give numbers back in another shape.
    detail_json = models.TextField(default="{}")
    previous_hash = models.CharField(max_length=64)
    hash = models.CharField(max_length=64, unique=True)

    objects = AuditQuerySet.as_manager()

    class Meta:
        ordering = ["-number"]
        indexes = [models.Index(fields=["target_type", "target_id"], name="audit_target")]

    def __str__(self) -> str:
        return f"{self.number}: {self.actor_name} {self.action} {self.target_name}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise AppendOnly("audit entries are never changed")
        super().save(*args, **kwargs)

    def delete(self, *_: Any, **__: Any) -> NoReturn:
        raise AppendOnly("audit entries are never removed")

    @property
    def detail(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads(self.detail_json)
        return loaded


class AuditHead(models.Model):
    """The end of the chain: one row, written first by each new entry, which makes the chain linear."""

    length = models.PositiveBigIntegerField(default=0)
    hash = models.CharField(max_length=64)

    def __str__(self) -> str:
        return f"{self.length} entries"


class OneTimeLink(models.Model):
    """A way in that works once. Only the hash of its token is kept."""

    class Purpose(models.TextChoices):
        SIGN_IN = "sign_in", "first administrator, or sign in"
        PASSWORD = "password", "choose a password"

    token_hash = models.CharField(max_length=64, unique=True)
    purpose = models.CharField(max_length=16, choices=Purpose.choices)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, blank=True)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.purpose} link {self.pk}"


class FailedSignIn(models.Model):
    """A wrong password, kept for as long as it counts against more tries."""

    user_name = models.CharField(max_length=150)
    address = models.CharField(max_length=64)
    at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return f"{self.user_name} from {self.address}"
