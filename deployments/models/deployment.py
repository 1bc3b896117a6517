"""Deployment: a service with its place, its recipe and its policy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.urls import reverse
from django.utils.functional import cached_property

from deployments.decisions.stop_ladder import Rung
from deployments.decisions.verify import TOLERANCE_MIB
from deployments.lifecycle import ACTIVE, LIVE_LAUNCH, LaunchState, ServiceState, choices
from hosts.models import Gpu, Host

if TYPE_CHECKING:
    from deployments.models.job import Job
    from deployments.models.launch import Launch


SECONDS = [MaxValueValidator(86_400)]


class Deployment(models.Model):
    """A service that people use: where it runs, with which revision, and how far a job may go by itself.

    Times are in seconds; their defaults are the house defaults.
    """

    name = models.CharField(max_length=64, unique=True)
    profile = models.ForeignKey("deployments.Profile", models.PROTECT, related_name="deployments")
    revision = models.ForeignKey(
        "deployments.Revision", models.PROTECT, related_name="+", help_text="What a restart launches."
    )
    proven_revision = models.ForeignKey(
        "deployments.Revision", models.SET_NULL, null=True, blank=True, related_name="+"
    )
    proven_launch = models.ForeignKey(
        "deployments.Launch", models.SET_NULL, null=True, blank=True, editable=False, related_name="+",
        help_text="The launch that was marked as proven: what the engine made of the flags then.",
    )  # fmt: skip
    proven_with = models.JSONField(
        default=dict, editable=False, help_text="What that launch ran with: engine, image, model, cards; who, when."
    )
    port = models.PositiveIntegerField()
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    production = models.BooleanField(default=False)

    requester_may_approve = models.BooleanField(default=False)
    clean_start_by_itself = models.BooleanField(
        default=True, help_text="A start on cards that are measured clean needs no approver."
    )
    crash_starts_per_hour = models.PositiveSmallIntegerField(
        default=0, validators=[MaxValueValidator(60)],
        help_text="How often the same revision is started again after a crash or a boot; 0: it is left down.",
    )  # fmt: skip
    kill_own_by_itself = models.BooleanField(
        default=True,
        help_text="After the time-out, SIGKILL this deployment's own recorded processes without asking.",
    )
    kill_from_node_by_itself = models.BooleanField(
        default=False,
        help_text="In a container, when that did not help: SIGKILL the same processes from the node without asking.",
    )
    shares_with = models.ManyToManyField(
        "self", blank=True, help_text="Deployments that may hold the same cards. Both ways: each then allows the other."
    )
    co_tenants = models.JSONField(
        default=list, blank=True, help_text="Strangers that may hold the same cards, as user:program."
    )
    shared_need_mib = models.PositiveIntegerField(
        null=True, blank=True, validators=[MaxValueValidator(10_000_000)],
        help_text="MiB that the server needs on a card that it shares, where no launch has measured it yet.",
    )  # fmt: skip
    tolerance_mib = models.PositiveIntegerField(
        default=TOLERANCE_MIB, validators=[MaxValueValidator(4096)],
        help_text="MiB above its baseline with which a card still counts as free.",
    )  # fmt: skip
    drain_seconds = models.PositiveIntegerField(default=60, validators=SECONDS)
    term_seconds = models.PositiveIntegerField(default=20, validators=SECONDS)
    kill_seconds = models.PositiveIntegerField(default=10, validators=SECONDS)
    memory_seconds = models.PositiveIntegerField(default=30, validators=SECONDS)
    stuck_seconds = models.PositiveIntegerField(default=120, validators=SECONDS)
    port_seconds = models.PositiveIntegerField(default=10, validators=SECONDS)
    ready_seconds = models.PositiveIntegerField(
        null=True, blank=True, validators=SECONDS, help_text="Empty: what the last starts took decides."
    )
    approval_minutes = models.PositiveIntegerField(
        default=30, validators=[MinValueValidator(1), MaxValueValidator(10_080)]
    )
    started_by = models.CharField(
        max_length=260, blank=True, help_text="The way its server is started (plan/ways.py); empty: as what serves now."
    )

    state = models.CharField(max_length=16, choices=choices(ServiceState), default=ServiceState.UNKNOWN.value)
    state_since = models.DateTimeField(null=True, blank=True)
    state_detail = models.TextField(blank=True)
    found = models.JSONField(
        default=dict,
        editable=False,
        help_text="Of a server on its port that the panel did not start: identity, argv, and what the engine tells.",
    )
    cloned_from = models.ForeignKey(
        "self", models.SET_NULL, null=True, blank=True, editable=False, related_name="clones",
        help_text="The deployment that it was cloned from, with the history until then.",
    )  # fmt: skip
    released = models.JSONField(
        default=dict,
        editable=False,
        help_text="Of a release: by whom and when, what was taken from the host, what stays there and why.",
    )
    hooks = models.JSONField(
        default=dict, editable=False, help_text="How its router is told: moment -> hook (traffic/hook.py)."
    )
    out_of_router = models.JSONField(
        default=dict,
        editable=False,
        help_text="Since when and by which job it is out of its router; is that sure, is it meant to stay so?",
    )
    fence = models.PositiveBigIntegerField(
        default=0, help_text="Rises with each claim of a job; the host refuses a lower one."
    )

    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def plan_url(self) -> str:
        """The address of the form that brings it up: a start when no server of it can be there, else a restart."""
        kind = "start" if self.state == ServiceState.STOPPED or self.is_unseen else "restart"
        return reverse(f"deployments:plan_{kind}", args=[self.pk])

    @property
    def shown_state(self) -> str:
        """Its state, for a page: unknown while its host is out of reach, also where a job has said how it was."""
        out_of_reach = any(each.host.reach == Host.Reach.UNREACHABLE for each in self.placements.all())
        if out_of_reach and self.state != ServiceState.RELEASED:
            return ServiceState.UNKNOWN
        return self.state

    @property
    def is_unseen(self) -> bool:
        """Neither a job nor a monitor has said anything of it yet: it was just made."""
        return self.state == ServiceState.UNKNOWN and self.state_since is None

    @classmethod
    def locked(cls, pk: int) -> Deployment:
        """The row as it is now, held until the transaction ends (also on SQLite, which has no SELECT FOR UPDATE)."""
        cls.objects.filter(pk=pk).update(fence=models.F("fence"))
        return cls.objects.get(pk=pk)

    @classmethod
    def locked_together(cls, pks: Iterable[int]) -> list[Deployment]:
        """As ``locked``, for several: by their key, so that two who need the same ones never wait for each other."""
        return [cls.locked(pk) for pk in sorted(set(pks))]

    @cached_property
    def placement(self) -> Placement:
        """Where it runs, as it was when first asked for. One place today; the schema allows several.

        One that was released has none where its host was removed since: ``place`` for whoever may meet such a one.
        """
        assert self.place is not None
        return self.place

    @cached_property
    def place(self) -> Placement | None:
        """The same; None where there is none any more."""
        return self.placements.select_related("host", "host__via").order_by("rank").first()

    @cached_property
    def partners(self) -> tuple[str, ...]:
        """Names of the deployments that may hold the same cards, as they were when first asked for."""
        return tuple(self.shares_with.order_by("name").values_list("name", flat=True))

    @property
    def kill_reach(self) -> Rung:
        """The highest rung that a stop may climb without asking."""
        if not self.kill_own_by_itself:
            return Rung.TERM
        return Rung.NODE_KILL if self.kill_from_node_by_itself else Rung.KILL

    @property
    def live_launch(self) -> Launch | None:
        """The launch that serves or may serve, if we made one."""
        return self.launches.filter(state__in=LIVE_LAUNCH).first()

    @property
    def newest_launch(self) -> Launch | None:
        """The last launch that was sent. Processes of it may be left even when it counts as ended."""
        return self.launches.exclude(state=LaunchState.ABANDONED).order_by("-intended_at").first()

    @property
    def active_job(self) -> Job | None:
        """The job that is at work or waits for a person, if there is one."""
        return self.jobs.filter(state__in=ACTIVE).first() or self.replacements.filter(state__in=ACTIVE).first()


class Placement(models.Model):
    """One part of a deployment: a host, its cards by uuid, and its rank."""

    deployment = models.ForeignKey(Deployment, models.CASCADE, related_name="placements")
    host = models.ForeignKey(Host, models.PROTECT, related_name="placements")
    rank = models.PositiveSmallIntegerField(default=0)
    gpu_uuids = models.JSONField(default=list)

    class Meta:
        ordering = ["deployment_id", "rank"]
        constraints = [models.UniqueConstraint(fields=["deployment", "rank"], name="placement_rank_once")]

    def __str__(self) -> str:
        return f"{self.deployment} on {self.host}"

    @property
    def gpus(self) -> list[Gpu]:
        """The rows of its cards, in index order."""
        return list(Gpu.objects.filter(host=self.host, uuid__in=self.gpu_uuids).order_by("index"))

    @property
    def cards(self) -> list[dict[str, str]]:
        """Its cards in words, to be kept: uuid, label, name. One that the host has lost keeps only its uuid."""
        known = {gpu.uuid: gpu for gpu in self.gpus}
        lost = [uuid for uuid in self.gpu_uuids if uuid not in known]
        found = [{"uuid": gpu.uuid, "label": f"GPU {gpu.index}", "name": gpu.name} for gpu in known.values()]
        return found + [{"uuid": uuid, "label": uuid, "name": ""} for uuid in lost]
