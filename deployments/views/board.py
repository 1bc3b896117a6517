"""What the overview, the list of deployments and the strip on top show, read in a fixed number of queries."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any

from django.db.models import OuterRef, Q, QuerySet, Subquery
from django.utils import timezone

from deployments.compared import comparable, differing, found_settings, in_words
from deployments.engines.registry import ENGINES
from deployments.flags import FlagRow
from deployments.lifecycle import ACTIVE, LIVE_LAUNCH, JobState, ServiceState, StandingKind
from deployments.models import Deployment, Gate, Job, Launch, Placement, Revision
from deployments.views.words import Word, deployment_word, job_word, waits_for_idle, was_left
from hosts.models import Gpu, Host

BAD_ENDS = (JobState.FAILED, JobState.ERRORED, JobState.EXPIRED)
BAD_SERVICE = (ServiceState.CRASHED, ServiceState.NOT_ANSWERING)
FREE_MARGIN_MIB = 64  # what an idle card may show above its baseline
RECENT = timedelta(days=1)  # after that a failure is history, not news, for the strip


@dataclass(frozen=True)
class Row:
    """A deployment with everything its line on a page says."""

    deployment: Deployment
    placement: Placement | None
    gpus: list[Gpu]
    active: Job | None
    last: Job | None
    launch: Launch | None

    @property
    def word(self) -> Word:
        """Its state, ready for the page."""
        return deployment_word(self.deployment, active=self.active)

    @property
    def running(self) -> Revision | None:
        """The revision that serves now, when the panel started it."""
        return self.launch.revision if self.launch else None

    @property
    def found(self) -> dict[str, Any]:
        """What serves though the panel did not start it; empty when there is no such server, or it is not known."""
        found: dict[str, Any] = {} if self.launch else self.deployment.found
        return found if found.get("argv") else {}

    @property
    def not_applied(self) -> bool:
        """A restart would launch something else than what serves."""
        if self.running is not None:
            return self.running.pk != self.deployment.revision_id
        return bool(self.pending)

    @property
    def not_proven(self) -> bool:
        """What serves is not what was proven."""
        if self.running is not None:
            return self.deployment.proven_revision_id not in (None, self.running.pk)
        return bool(self.unproven)

    @cached_property
    def pending(self) -> tuple[FlagRow, ...]:
        """The settings that a restart would change."""
        return self._against(self.deployment.revision)

    @cached_property
    def unproven(self) -> tuple[FlagRow, ...]:
        """The settings in which what serves differs from what was proven."""
        return self._against(self.deployment.proven_revision)

    def _against(self, other: Revision | None) -> tuple[FlagRow, ...]:
        engine = ENGINES.get(self.deployment.profile.engine)
        aliases = engine.aliases if engine else {}
        if other is None or (self.running is None and not self.found):
            return ()
        if self.running is not None:
            return differing(self.running.settings, other.settings, aliases=aliases)
        return differing(found_settings(self.found["argv"]), comparable(other.settings), aliases=aliases)

    @property
    def pending_words(self) -> str:
        """What a restart would change, in a few words."""
        return in_words(self.pending, other="after a restart")

    @property
    def unproven_words(self) -> str:
        """How it differs from what was proven, in a few words."""
        return in_words(self.unproven, other="proven")

    @property
    def job(self) -> Job | None:
        """The job under way, else the last one."""
        return self.active or self.last

    @property
    def waits(self) -> str:
        """For what the job waits, in words; empty: for a person."""
        return job_word(self.active).text if self.active and waits_for_idle(self.active) else ""

    @property
    def failed(self) -> Job | None:
        """The last job when it ended badly and nothing is under way."""
        return self.last if self.last and not self.active and _is_bad_end(self.last) else None


@dataclass(frozen=True)
class SpareCard:
    """A card that no deployment uses. ``state`` is free, held or unknown."""

    gpu: Gpu
    state: str
    above_mib: int


def _is_bad_end(job: Job) -> bool:
    return job.state in BAD_ENDS and not was_left(job)


def rows(deployments: QuerySet[Deployment] | None = None) -> list[Row]:
    """The deployments with their places, cards, jobs and live launches."""
    found = list(
        (Deployment.objects.all() if deployments is None else deployments)
        .select_related("profile", "revision__profile", "proven_revision__profile", "owner")
        .prefetch_related("placements__host__via")
    )
    keys = [deployment.pk for deployment in found]
    cards = _cards()
    now = list(jobs_now().filter(Q(deployment__in=keys) | Q(replaces__in=keys)))
    active = {key: job for job in now for key in (job.deployment_id, job.replaces_id)}
    last = {job.deployment_id: job for job in last_jobs().filter(deployment__in=keys)}
    live = Launch.objects.filter(deployment__in=keys, state__in=LIVE_LAUNCH).select_related("revision__profile")
    launches = {launch.deployment_id: launch for launch in live}
    return [
        _row(deployment, cards, active.get(deployment.pk), last.get(deployment.pk), launches.get(deployment.pk))
        for deployment in found
    ]


def _row(
    deployment: Deployment,
    cards: dict[tuple[int, str], Gpu],
    active: Job | None,
    last: Job | None,
    launch: Launch | None,
) -> Row:
    placement = next(iter(deployment.placements.all()), None)
    wanted = [(placement.host_id, uuid) for placement in deployment.placements.all() for uuid in placement.gpu_uuids]
    gpus = sorted((cards[key] for key in wanted if key in cards), key=lambda gpu: gpu.index)
    return Row(deployment, placement, gpus, active, last, launch)


def _cards() -> dict[tuple[int, str], Gpu]:
    return {(gpu.host_id, gpu.uuid): gpu for gpu in Gpu.objects.select_related("host")}


def jobs_now() -> QuerySet[Job]:
    """The jobs that are at work, wait, or have lost contact."""
    return Job.objects.filter(state__in=ACTIVE).prefetch_related("steps", "gates")


def last_jobs() -> QuerySet[Job]:
    """The newest ended job of each deployment, found by index and not by reading the history."""
    ended = Job.objects.filter(deployment=OuterRef("pk")).exclude(state__in=ACTIVE).order_by("-pk")
    newest = Deployment.objects.order_by().annotate(last=Subquery(ended.values("pk")[:1]))
    found = Job.objects.filter(pk__in=newest.values("last"))
    return found.select_related("deployment", "replaces").prefetch_related("gates")


def spare_cards() -> list[SpareCard]:
    """The cards that no deployment uses, once each even when a node and its container both show them."""
    places = Placement.objects.exclude(deployment__state=ServiceState.RELEASED)
    taken = {uuid for uuids in places.values_list("gpu_uuids", flat=True) for uuid in uuids}
    seen: dict[str, Gpu] = {}
    for gpu in Gpu.objects.filter(present=True).exclude(uuid__in=taken).select_related("host__via"):
        if gpu.uuid not in seen or gpu.host.transport != Host.TransportKind.PCT:
            seen[gpu.uuid] = gpu
    return [_spare(gpu) for gpu in sorted(seen.values(), key=lambda gpu: (gpu.host.name, gpu.index))]


def _spare(gpu: Gpu) -> SpareCard:
    if gpu.used_mib is None:
        return SpareCard(gpu, "unknown", 0)
    above = gpu.used_mib - (gpu.baseline_mib or 0)
    return SpareCard(gpu, "free" if above <= FREE_MARGIN_MIB else "held", above)


def open_gates() -> QuerySet[Gate]:
    """The questions that wait for a person, oldest first; not those that wait for a moment."""
    found = Gate.objects.filter(answered_at=None, job__state=JobState.WAITING).exclude(kind=StandingKind.WHEN_IDLE)
    return found.select_related("job__deployment", "job__replaces", "step")


def troubled_hosts() -> QuerySet[Host]:
    """Hosts that cannot be reached, or whose cards cannot be read."""
    return (Host.objects.filter(reach=Host.Reach.UNREACHABLE) | Host.objects.exclude(gpu_problem="")).distinct()


def news(now: list[Job] | None = None) -> list[Job]:
    """The last jobs of deployments that ended badly within a day, where nothing is under way (``now``) since."""
    now = list(jobs_now()) if now is None else now
    busy = {key for job in now for key in (job.deployment_id, job.replaces_id)}
    recent = last_jobs().filter(state__in=BAD_ENDS, ended_at__gt=timezone.now() - RECENT)
    return [job for job in recent if job.deployment_id not in busy and _is_bad_end(job)]


@dataclass(frozen=True)
class Strip:
    """The line on top of every page: the most urgent job, and how many more there are."""

    job: Job | None
    word: Word | None
    more: int


def strip() -> Strip:
    """What waits for a person outranks a failure of the last day, that one lost contact, and that one progress."""
    now = list(jobs_now())
    rank = {JobState.WAITING: 0, JobState.UNKNOWN: 2, JobState.RUNNING: 3, JobState.QUEUED: 4}
    jobs = sorted([*news(now), *now], key=lambda job: 3 if waits_for_idle(job) else rank.get(JobState(job.state), 1))
    if not jobs:
        return Strip(None, None, 0)
    return Strip(jobs[0], job_word(jobs[0]), len(jobs) - 1)
