"""StandingApproval: an approval that is given before it is needed, for little, and for a time."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings
from django.contrib.auth.models import User
from django.db import models
from django.db.models import Q
from django.utils import timezone

from controlpanel.access import Action, may
from deployments.lifecycle import ENDED, ServiceState, StandingKind, choices
from deployments.models.deployment import Deployment, Placement
from hosts.models import Gpu, Host


class StandingApproval(models.Model):
    """What an approver has allowed beforehand: starts after a crash, restarts on named cards, or a plan for tonight.

    It counts from ``given_at`` until it has run out or somebody has ended it. Each use is a gate that it has answered
    (``gates``), bound to the plan of that job like any other approval.
    """

    kind = models.CharField(max_length=16, choices=choices(StandingKind))
    deployment = models.ForeignKey(
        Deployment, models.CASCADE, null=True, related_name="standing", help_text="Empty for cards of a host."
    )
    job = models.ForeignKey(
        "deployments.Job", models.CASCADE, null=True, related_name="later", help_text="Whose plan waits for an hour."
    )
    plan_hash = models.CharField(max_length=64, blank=True, help_text="Of that plan.")
    host = models.ForeignKey(Host, models.CASCADE, null=True, related_name="+", help_text="Of the cards it is for.")
    gpu_uuids = models.JSONField(default=list, help_text="The cards it is for.")
    per_hour = models.PositiveSmallIntegerField(null=True, help_text="Starts after a crash that it allows an hour.")
    holder = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, null=True, related_name="+", help_text="Whose restarts it is for."
    )
    holder_name = models.CharField(max_length=150, blank=True)
    reason = models.TextField(blank=True)

    asked_at = models.DateTimeField(auto_now_add=True)
    hours = models.PositiveSmallIntegerField(default=0, help_text="For how long it was asked for.")
    given_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    given_by_name = models.CharField(max_length=150, blank=True)
    given_at = models.DateTimeField(null=True)
    begins_at = models.DateTimeField(null=True, help_text="Empty: as soon as it is given.")
    expires_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True, help_text="When it was revoked, declined or replaced.")
    ended_by_name = models.CharField(max_length=150, blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["deployment"],
                condition=Q(kind=StandingKind.AFTER_CRASH.value, ended_at=None),
                name="one_standing_approval_after_a_crash",
            )
        ]

    def __str__(self) -> str:
        return f"standing approval {self.pk}"

    @classmethod
    def current(cls) -> models.QuerySet[StandingApproval]:
        """Those that stand and those that wait for an approver."""
        return cls.objects.filter(Q(expires_at=None) | Q(expires_at__gt=timezone.now()), ended_at=None).order_by("pk")

    @classmethod
    def in_force(cls, kind: StandingKind | None = None) -> models.QuerySet[StandingApproval]:
        """Those that were given, have neither run out nor been ended, and whose job or deployment is still there."""
        found = cls.objects.filter(given_at__isnull=False, ended_at=None, expires_at__gt=timezone.now())
        found = found.exclude(job__state__in=ENDED).exclude(deployment__state=ServiceState.RELEASED)
        return found if kind is None else found.filter(kind=kind)

    @classmethod
    def asked_for(cls) -> models.QuerySet[StandingApproval]:
        """Those that wait for an approver, oldest first."""
        return cls.objects.filter(given_at=None, ended_at=None).order_by("pk")

    def why_not(self) -> str:
        """Why it approves nothing now; empty when it does. Who has lost the role meanwhile approves nothing more."""
        if self.given_at is None or self.expires_at is None:
            return "nobody has given it"
        if self.ended_at is not None:
            return f"{self.ended_by_name} has revoked it"
        if timezone.now() >= self.expires_at:
            return "it has run out"
        if not may(self.given_by, Action.APPROVE):
            return f"{self.given_by_name}, who gave it, may not approve any more"
        return ""

    @property
    def has_begun(self) -> bool:
        """Its time has come."""
        return self.begins_at is None or timezone.now() >= self.begins_at

    @property
    def since(self) -> datetime:
        """When it was given, else asked for."""
        return self.given_at or self.asked_at

    @classmethod
    def lease_for(cls, person: User | None, deployment: Deployment) -> StandingApproval | None:
        """The tuning lease by which ``person`` starts and restarts ``deployment`` without a further question.

        One that they have given to themselves counts only where the policy lets who asks approve. People depend on a
        production deployment: for that each plan is asked about.
        """
        if person is None or deployment.production or not may(person, Action.ASK):
            return None
        for lease in cls.in_force(StandingKind.TUNING).filter(holder=person):
            to_oneself = lease.given_by_id == person.pk and not deployment.requester_may_approve
            place = deployment.place
            if place is not None and lease.covers(place) and not to_oneself and not lease.why_not():
                return lease
        return None

    def covers(self, placement: Placement) -> bool:
        """Are all cards of a placement, and it has some, among those of this lease?"""
        own = set(placement.gpu_uuids)
        return placement.host_id == self.host_id and bool(own) and own <= set(self.gpu_uuids)

    @property
    def covered(self) -> list[Deployment]:
        """The deployments that this lease is about. People depend on a production one: it never is."""
        there = Placement.objects.filter(host=self.host, deployment__production=False).select_related("deployment")
        return [each.deployment for each in there if self.covers(each)]

    @property
    def cards(self) -> str:
        """Its cards in words."""
        known = Gpu.objects.filter(host=self.host, uuid__in=self.gpu_uuids).order_by("index")
        return ", ".join(f"GPU {gpu.index}" for gpu in known)
