"""What the overview, the list of deployments and the strip on top show, read in a fixed number of queries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any

from django.db.models import Exists, OuterRef, Prefetch, Q, QuerySet, Subquery
from django.utils import timezone

from deployments.compared import comparable, differing, found_settings, in_words
from deployments.engines.registry import ENGINES
from deployments.flags import FlagRow
from deployments.known import known_card
from deployments.lifecycle import (
    ACTIVE,
    DOWN,
    LEAVE_THE_SERVER,
    LIVE_LAUNCH,
    GateKind,
    JobState,
    LaunchState,
    ServiceState,
)
from deployments.models import Deployment, Gate, Job, Launch, Placement, Revision
from deployments.views.whose import Users, users_of_cards, whose
from deployments.views.words import (
    Word,
    change_words,
    changes_server,
    deployment_word,
    job_word,
    waits_for_idle,
    was_left,
)
from hosts.models import Gpu, Host

BAD_ENDS = (JobState.FAILED, JobState.ERRORED, JobState.EXPIRED)
BAD_SERVICE = (ServiceState.CRASHED, ServiceState.NOT_ANSWERING)
RECENT = timedelta(days=1)  # after that a failure is history, not news, for the strip


@dataclass(frozen=True)
class Row:
    """A deployment with everything its line on a page says."""

    deployment: Deployment
    placement: Placement | None
    gpus: list[Gpu]
    active: Job | None
    last: Job | None
    changed: Job | None
    """The last ended job that did something to its server, whether it was its own or one that replaced it."""
    launch: Launch | None
    was_launched: bool
    users: Users

    @property
    def word(self) -> Word:
        """Its state, ready for the page."""
        word = deployment_word(self.deployment, active=self.active, is_new=self.is_new)
        if word.value == ServiceState.STOPPED and self.launch is not None and self.launch.state == LaunchState.STARTING:
            return Word("service", ServiceState.NOT_ANSWERING, "Not ready yet")
        return word

    @property
    def is_new(self) -> bool:
        """It was never launched, and no server is known to be there."""
        if self.was_launched or self.found:
            return False
        return self.deployment.state == ServiceState.STOPPED or self.deployment.is_unseen

    @property
    def is_down(self) -> bool:
        """There is nothing to restart or to stop: it was stopped, or never launched."""
        return self.deployment.state == ServiceState.STOPPED or self.is_new

    @property
    def cards(self) -> list[tuple[Gpu, str]]:
        """Its cards, each with whose memory that is where it is not its own."""
        return [(gpu, whose(gpu, self.deployment, self.users, runs=not self._is_not_there)) for gpu in self.gpus]

    @property
    def _is_not_there(self) -> bool:
        return self.launch is None and (self.is_down or self.deployment.state in DOWN)

    @property
    def last_change(self) -> Job | None:
        """What was last done to its server, or is being done."""
        return self.active if self.active is not None and changes_server(self.active) else self.changed

    @property
    def last_change_words(self) -> str:
        """What that was, seen from this deployment."""
        return change_words(self.last_change, self.deployment) if self.last_change is not None else ""

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
    def is_at_work(self) -> bool:
        """A job is under way, which does not just wait for a person."""
        return self.active is not None and self.active.state != JobState.WAITING

    @property
    def waits(self) -> str:
        """For what the job waits, in words; empty: for a person."""
        return job_word(self.active).text if self.active and waits_for_idle(self.active) else ""

    @property
    def failed(self) -> Job | None:
        """The last job when it ended badly and nothing is under way. One that replaced it is told of the other."""
        own = self.last is not None and self.last.deployment_id == self.deployment.pk
        return self.last if self.last and own and not self.active and _is_bad_end(self.last) else None


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
    ended = Job.objects.exclude(state__in=ACTIVE)
    last = _newest(ended, keys)
    changed = _newest(ended.filter(touched=True).exclude(kind__in=LEAVE_THE_SERVER), keys)
    past = _with_ends().defer("plan", "traceback").in_bulk({*last.values(), *changed.values()})
    users = users_of_cards()
    live = Launch.objects.filter(deployment__in=keys, state__in=LIVE_LAUNCH).select_related("revision__profile")
    launches = {launch.deployment_id: launch for launch in live}
    launched = set(Deployment.objects.filter(Exists(_launches_of()), pk__in=keys).values_list("pk", flat=True))
    return [
        Row(
            deployment=each,
            placement=next(iter(each.placements.all()), None),
            gpus=_gpus(each, cards),
            active=active.get(each.pk),
            last=past.get(last.get(each.pk, 0)),
            changed=past.get(changed.get(each.pk, 0)),
            launch=launches.get(each.pk),
            was_launched=each.pk in launched,
            users=users,
        )
        for each in found
    ]


def _launches_of() -> QuerySet[Launch]:
    return Launch.objects.filter(deployment=OuterRef("pk"))


def _gpus(deployment: Deployment, cards: dict[tuple[int, str], Gpu]) -> list[Gpu]:
    wanted = [(placement.host_id, uuid) for placement in deployment.placements.all() for uuid in placement.gpu_uuids]
    return sorted((cards[key] for key in wanted if key in cards), key=lambda gpu: gpu.index)


def _cards() -> dict[tuple[int, str], Gpu]:
    return {(gpu.host_id, gpu.uuid): gpu for gpu in Gpu.objects.select_related("host")}


def jobs_now() -> QuerySet[Job]:
    """The jobs that are at work, wait, or have lost contact."""
    gates = Gate.objects.defer("evidence")  # of every page's strip nobody reads it
    return (
        Job.objects.filter(state__in=ACTIVE)
        .defer("plan", "traceback")
        .prefetch_related("steps", Prefetch("gates", gates))
    )


def _newest(jobs: QuerySet[Job], deployments: Iterable[int] | None = None) -> dict[int, int]:
    """The key of the newest of ``jobs`` of each deployment, its own or one that replaced it. None: of all of them.

    Found by index, for each deployment, and not by reading the history.
    """
    newest = jobs.order_by("-pk").values("pk")
    found = Deployment.objects.order_by() if deployments is None else Deployment.objects.filter(pk__in=deployments)
    found = found.annotate(
        own=Subquery(newest.filter(deployment=OuterRef("pk"))[:1]),
        replaced_by=Subquery(newest.filter(replaces=OuterRef("pk"))[:1]),
    )
    both = found.values_list("pk", "own", "replaced_by")
    return {pk: max(own or 0, replaced_by or 0) for pk, own, replaced_by in both if own or replaced_by}


def _with_ends() -> QuerySet[Job]:
    return Job.objects.select_related("deployment", "replaces").prefetch_related("gates")


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
    if not gpu.is_known_now:
        return SpareCard(gpu, "unknown", 0)
    assert gpu.used_mib is not None
    above = gpu.used_mib - (gpu.baseline_mib or 0)
    return SpareCard(gpu, "free" if gpu.used_mib <= known_card(gpu).limit_mib else "held", above)


def open_gates() -> QuerySet[Gate]:
    """The questions that wait for a person, oldest first; not those that wait for a moment."""
    found = Gate.objects.filter(answered_at=None, job__state=JobState.WAITING).exclude(kind=GateKind.WHEN_IDLE)
    return found.select_related("job__deployment", "job__replaces", "step")


def troubled_hosts() -> QuerySet[Host]:
    """Hosts that cannot be reached, or whose cards cannot be read."""
    return (Host.objects.filter(reach=Host.Reach.UNREACHABLE) | Host.objects.exclude(gpu_problem="")).distinct()


def news(now: list[Job] | None = None) -> list[Job]:
    """The last jobs of deployments that ended badly within a day, where nothing is under way (``now``) since.

    A replacement counts as long as it is the last job of both of its deployments.
    """
    now = list(jobs_now()) if now is None else now
    busy = {key for job in now for key in (job.deployment_id, job.replaces_id)}
    last = _newest(Job.objects.exclude(state__in=ACTIVE))
    recent = _with_ends().filter(pk__in=last.values(), state__in=BAD_ENDS, ended_at__gt=timezone.now() - RECENT)
    return [
        job
        for job in recent
        if _is_bad_end(job) and all(last[one.pk] == job.pk and one.pk not in busy for one in job.subjects)
    ]


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
