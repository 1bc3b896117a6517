"""Job: one run of steps on a deployment, with its claims, steps, checks, effects and gates.

Every change of a job's state is one conditional UPDATE: zero rows changed means somebody else was first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import models, transaction
from django.db.models import Exists, F, OuterRef, Q
from django.db.models.expressions import CombinedExpression
from django.db.models.functions import Now
from django.urls import reverse

from deployments.lifecycle import (
    ACTIVE,
    AT_ITS_PLAN,
    CLAIMABLE,
    CheckStatus,
    JobKind,
    JobState,
    StepState,
    choices,
)
from deployments.models.deployment import Deployment

LEASE = timedelta(seconds=30)


@dataclass(frozen=True)
class Claim:
    """The right to work on a job: valid while the row still carries this owner and fence."""

    job_id: int
    owner: str
    fence: int


class Job(models.Model):
    """One run of steps on a deployment, from the click to its end."""

    deployment = models.ForeignKey(Deployment, models.SET_NULL, null=True, related_name="jobs")
    replaces = models.ForeignKey(
        Deployment, models.SET_NULL, null=True, related_name="replacements",
        help_text="Of a replacement: the deployment that is stopped so that this one can start on its cards.",
    )  # fmt: skip
    deployment_name = models.CharField(max_length=64)
    host_name = models.CharField(max_length=64)
    kind = models.CharField(max_length=12, choices=choices(JobKind))
    state = models.CharField(max_length=12, choices=choices(JobState), default=JobState.QUEUED.value)
    summary = models.TextField(blank=True, help_text="Why it waits, failed or is unknown; how it ended.")
    hint = models.TextField(blank=True, help_text="What a person can do now.")
    traceback = models.TextField(blank=True)
    diagnosis = models.JSONField(null=True, help_text="{cause, fix, line, log_seq, memory}")

    requested_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    requested_by_name = models.CharField(max_length=150)
    approved_by_name = models.CharField(max_length=150, blank=True)
    reason = models.TextField(blank=True)
    request_key = models.UUIDField(null=True, help_text="From the form: the same click twice is one job.")

    standing = models.ForeignKey(
        "deployments.StandingApproval", models.SET_NULL, null=True, related_name="jobs",
        help_text="Under which the panel itself has asked for it; empty where a person has.",
    )  # fmt: skip

    revision = models.ForeignKey("deployments.Revision", models.PROTECT, null=True, related_name="+")
    previous_revision = models.ForeignKey("deployments.Revision", models.PROTECT, null=True, related_name="+")
    way_back = models.BooleanField(default=True, help_text="If it fails, start again what was serving.")
    plan = models.JSONField(null=True)

    owner = models.CharField(max_length=64, blank=True)
    lease_until = models.DateTimeField(null=True)
    fence = models.PositiveBigIntegerField(default=0)
    ring_at = models.DateTimeField(null=True, help_text="When the sweeper rings again.")
    contact_lost_at = models.DateTimeField(null=True)
    cancel_requested_by = models.CharField(max_length=150, blank=True)
    touched = models.BooleanField(default=False, help_text="An effect on the host was intended.")
    version = models.PositiveIntegerField(default=0, help_text="Rises when the job's page should be drawn anew.")

    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["deployment"],
                condition=Q(state__in=[state.value for state in ACTIVE]),
                name="one_active_job_per_deployment",
            ),
            models.UniqueConstraint(fields=["requested_by", "request_key"], name="one_job_per_click"),
        ]
        indexes = [
            models.Index(fields=["state", "ring_at"]),
            # The history is read by one of these from its newest job on; by a time it is found where to begin.
            models.Index(fields=["deployment_name", "id"], name="job_of_deployment"),
            models.Index(fields=["host_name", "id"], name="job_of_host"),
            models.Index(fields=["kind", "id"], name="job_of_kind"),
            models.Index(fields=["state", "id"], name="job_of_state"),
            models.Index(fields=["requested_by_name", "id"], name="job_requested_by"),
            models.Index(fields=["approved_by_name", "id"], name="job_approved_by"),
            models.Index(fields=["created_at"], name="job_created_at"),
        ]

    def __str__(self) -> str:
        return f"job {self.pk}: {self.kind} {self.deployment_name}"

    def get_absolute_url(self) -> str:
        """The address of its page."""
        return reverse("deployments:job", args=[self.pk])

    @property
    def is_active(self) -> bool:
        """It is at work, waits for a person, or has lost contact."""
        return self.state in ACTIVE

    @property
    def subjects(self) -> list[Deployment]:
        """The deployments that it changes, the one that is stopped first; without those that are deleted."""
        return [one for one in (self.replaces, self.deployment) if one is not None]

    @property
    def guarded(self) -> Deployment | None:
        """The production deployment whose name an approver types, if one of them is one."""
        return next((one for one in self.subjects if one.production), None)

    @property
    def open_gate(self) -> Gate | None:
        """The question that waits for a person, if there is one."""
        return self.gates.filter(answered_at=None).order_by("-id").first()

    @classmethod
    def at_work(cls) -> models.QuerySet[Job]:
        """The active jobs that say themselves how their deployments are: all but those that only wait at their plan.

        An approval makes such a one queued before a worker takes it, and the plan is then looked at anew.
        """
        plans = Gate.objects.filter(job=OuterRef("pk"), answered_at=None, kind__in=AT_ITS_PLAN)
        waits = Q(Exists(plans), state=JobState.WAITING, touched=False)
        return cls.objects.filter(state__in=ACTIVE).exclude(waits)

    @classmethod
    def none_at_work(cls, deployment: str = "pk") -> Q:
        """A condition of rows whose ``deployment`` no job is at work on, its own or one that replaces it."""
        busy = cls.at_work().order_by()
        own = Exists(busy.filter(deployment=OuterRef(deployment)))
        return ~Q(own) & ~Q(Exists(busy.filter(replaces=OuterRef(deployment))))

    @classmethod
    def claim(cls, job_id: int, *, owner: str) -> Claim | None:
        """Take the job if nobody has it; None means "not ours", whatever the reason.

        The fence comes from the deployment, so that it rises over all of its jobs. The rows are locked in the order
        that each worker keeps (``held``), or a worker whose lease has just lapsed and its successor would wait for
        each other.
        """
        free = Q(lease_until=None) | Q(lease_until__lt=Now())
        with transaction.atomic():
            taken = cls.objects.filter(free, pk=job_id, state__in=CLAIMABLE, deployment__isnull=False).update(
                owner=owner,
                lease_until=Now() + LEASE,
                state=JobState.RUNNING,
                started_at=models.functions.Coalesce(F("started_at"), Now()),
                ring_at=None,
            )
            if not taken:
                return None
            keys = cls.objects.filter(pk=job_id).values_list("deployment_id", "replaces_id").get()
            fence = _next_fence([key for key in keys if key is not None])
            cls.objects.filter(pk=job_id).update(fence=fence)
        return Claim(job_id, owner, fence)

    @classmethod
    def held(cls, claim: Claim) -> models.QuerySet[Job]:
        """The row while it is still ours. Any write by a worker goes through this filter.

        It comes first in each transaction: the job's row is locked, then those of its deployments by their key
        (``Deployment.locked_together``). Everybody keeps to this order, or two would wait for each other.
        """
        return cls.objects.filter(
            pk=claim.job_id, owner=claim.owner, fence=claim.fence, state__in=CLAIMABLE, lease_until__gt=Now()
        )

    @staticmethod
    def lease_from_now() -> CombinedExpression:
        """The end of a lease that begins now, by the database's clock."""
        return Now() + LEASE

    @classmethod
    def renew(cls, claim: Claim) -> bool:
        """Keep the lease for another 30 s by the database's clock; False means it is lost."""
        return bool(cls.held(claim).update(lease_until=cls.lease_from_now()))

    @classmethod
    def leave(cls, claim: Claim, *, state: JobState, **fields: Any) -> bool:
        """Let go of the job in ``state``; False means that it was not ours any more."""
        ended = {"ended_at": Now()} if state not in ACTIVE else {}
        return bool(
            cls.held(claim).update(state=state, owner="", lease_until=None, version=F("version") + 1, **ended, **fields)
        )

    @classmethod
    def end_untouched(
        cls,
        job_id: int,
        *,
        state: JobState,
        summary: str,
        hint: str = "",
        cancelled_by: str = "",
        among: Sequence[JobState] = (JobState.QUEUED, JobState.WAITING),
    ) -> bool:
        """End a job that has touched nothing and that nobody works on. False: a worker must end it (``ask_to_end``)."""
        idle = cls.objects.filter(pk=job_id, touched=False, lease_until=None, state__in=among)
        ended = idle.update(
            state=state,
            summary=summary,
            hint=hint,
            cancel_requested_by=cancelled_by,
            ended_at=Now(),
            version=F("version") + 1,
        )
        if ended:
            cls.let_go(job_id)
        return bool(ended)

    @classmethod
    def ask_to_end(cls, job_id: int, *, by: str) -> bool:
        """Have a worker end the job safely, as a cancel by ``by``. False when it has ended already."""
        asked = cls.objects.filter(pk=job_id, state__in=ACTIVE).update(cancel_requested_by=by, version=F("version") + 1)
        cls.objects.filter(pk=job_id, state=JobState.WAITING).update(state=JobState.QUEUED, ring_at=Now())
        return bool(asked)

    @staticmethod
    def let_go(job_id: int) -> None:
        """Skip what was not done and free its cards and port; belongs into the transaction that ends the job."""
        open_steps = JobStep.objects.filter(job_id=job_id, state__in=(StepState.PENDING, StepState.RUNNING))
        open_steps.update(state=StepState.SKIPPED)
        CardClaim.objects.filter(job_id=job_id).delete()
        PortClaim.objects.filter(job_id=job_id).delete()


def _next_fence(deployments: Sequence[int]) -> int:
    """A number above all that these deployments have had, which is theirs from now on; in a transaction."""
    for key in sorted(deployments):  # locked in the order of Deployment.locked_together
        Deployment.objects.filter(pk=key).update(fence=F("fence") + 1)
    rows = Deployment.objects.filter(pk__in=deployments)
    fence = max(rows.values_list("fence", flat=True))
    if len(deployments) > 1:
        rows.update(fence=fence)
    return fence


class JobStep(models.Model):
    """One step of a job. Steps of the way back are appended as a second round."""

    job = models.ForeignKey(Job, models.CASCADE, related_name="steps")
    position = models.PositiveSmallIntegerField()
    name = models.CharField(max_length=16)
    way_back = models.BooleanField(default=False)
    state = models.CharField(max_length=8, choices=choices(StepState), default=StepState.PENDING.value)
    summary = models.TextField(blank=True)
    data = models.JSONField(default=dict, help_text="What the step must remember to be run again.")
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["job_id", "position"]
        constraints = [models.UniqueConstraint(fields=["job", "position"], name="step_position_once")]

    def __str__(self) -> str:
        return f"{self.name} of job {self.job_id}"


class Check(models.Model):
    """One measured fact with its limit."""

    step = models.ForeignKey(JobStep, models.CASCADE, related_name="checks")
    key = models.CharField(max_length=64)
    label = models.CharField(max_length=120)
    status = models.CharField(max_length=8, choices=choices(CheckStatus))
    value = models.CharField(max_length=200, blank=True)
    limit = models.CharField(max_length=200, blank=True)
    detail = models.TextField(blank=True)
    source = models.CharField(max_length=64, blank=True)
    measured_at = models.DateTimeField()

    class Meta:
        ordering = ["step_id", "id"]
        constraints = [models.UniqueConstraint(fields=["step", "key"], name="check_key_once")]

    def __str__(self) -> str:
        return f"{self.label}: {self.status}"


class Effect(models.Model):
    """One act on a host: the intent is written before it, the result after it."""

    job = models.ForeignKey(Job, models.CASCADE, related_name="effects")
    step = models.ForeignKey(JobStep, models.CASCADE, related_name="effects")
    fence = models.PositiveBigIntegerField()
    kind = models.CharField(max_length=40)
    command = models.TextField(blank=True, help_text="What was sent, secrets masked.")
    target = models.JSONField(default=dict)
    intended_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=200, blank=True)
    result = models.JSONField(null=True)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.kind} of job {self.job_id}"


class Gate(models.Model):
    """A point at which a job waits for a person. No worker waits with it."""

    job = models.ForeignKey(Job, models.CASCADE, related_name="gates")
    step = models.ForeignKey(JobStep, models.CASCADE, related_name="gates")
    kind = models.CharField(max_length=24)
    title = models.CharField(max_length=200)
    text = models.TextField(blank=True)
    evidence = models.JSONField(default=list, help_text="Sentences and tables that the answer rests on.")
    choices = models.JSONField(
        help_text="[{key, label, action, danger, needs_reason, detail}]; the first is recommended."
    )
    plan_hash = models.CharField(max_length=64, blank=True)
    opened_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True)
    answered_at = models.DateTimeField(null=True)
    answered_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    answered_by_name = models.CharField(max_length=150, blank=True)
    standing = models.ForeignKey(
        "deployments.StandingApproval", models.SET_NULL, null=True, related_name="gates",
        help_text="The one that has answered it; empty where a person has.",
    )  # fmt: skip
    answer = models.CharField(max_length=32, blank=True)
    comment = models.TextField(blank=True)
    used_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["job"], condition=Q(answered_at=None), name="one_open_gate_per_job")
        ]
        indexes = [models.Index(fields=["opened_at"], name="gate_opened_at")]

    def __str__(self) -> str:
        return f"{self.title} (job {self.job_id})"

    @classmethod
    def close_all(cls, job_id: int) -> None:
        """Close what nobody has answered, also what has expired: the job has ended."""
        cls.objects.filter(job_id=job_id, answered_at=None).update(answered_at=Now(), answer="ended")

    def close(self, *, answer: str, by: User | None = None, comment: str = "") -> bool:
        """Answer it, unless somebody has or it has expired; an ``expired`` answer is for what has."""
        still_open = Gate.objects.filter(pk=self.pk, answered_at=None)
        if answer != "expired":
            still_open = still_open.exclude(expires_at__lt=Now())
        who = {"answered_by": by, "answered_by_name": by.get_username() if by is not None else ""}
        return bool(still_open.update(answered_at=Now(), answer=answer, comment=comment, **who))


class CardClaim(models.Model):
    """An active job's hold on one card of one machine: two jobs can never go for the same card."""

    job = models.ForeignKey(Job, models.CASCADE, related_name="card_claims")
    machine = models.ForeignKey("hosts.Host", models.PROTECT, related_name="+")
    gpu_uuid = models.CharField(max_length=96)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["machine", "gpu_uuid"], name="card_claimed_once")]

    def __str__(self) -> str:
        return f"{self.gpu_uuid} for job {self.job_id}"


class PortClaim(models.Model):
    """An active job's hold on one port of one host."""

    job = models.ForeignKey(Job, models.CASCADE, related_name="port_claims")
    host = models.ForeignKey("hosts.Host", models.PROTECT, related_name="+")
    port = models.PositiveIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["host", "port"], name="port_claimed_once")]

    def __str__(self) -> str:
        return f"port {self.port} for job {self.job_id}"
