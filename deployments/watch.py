"""Keeps the state of each deployment true between jobs: serving, not answering, crashed, unknown."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import transaction
from django.db.models import Exists, F, Q, QuerySet
from django.utils import timezone

from controlpanel.live import hints
from deployments import after_crash
from deployments.engines.registry import ENGINES
from deployments.finding import Finder, forget
from deployments.known import known_card
from deployments.lifecycle import ACTIVE, JobState, LaunchState, ServiceState
from deployments.models import Deployment, Job, Launch, Placement
from deployments.onlooker import Onlooker, Wanted
from deployments.plan.cards import labels_of
from deployments.plan.intruders import NOBODY, Intruders, Ours
from deployments.plan.sharing import Rules
from hosts.models import Gpu, Host
from hosts.probe.facts import HostFacts
from hosts.probe.frames import Unknown
from hosts.probe.processes import HostIdentity, ProcessTable

REFRESH_SECONDS = 2.0
RUNS = (LaunchState.STARTING, LaunchState.SERVING, LaunchState.UNKNOWN)
"""A launch whose job was cancelled or gave up while it started, or out of contact, may serve all the same."""


@dataclass(frozen=True)
class Watched:
    """A deployment on a host, with its launch that serves, if we made one."""

    deployment: Deployment
    launch: Launch | None
    wanted: Wanted
    """Who else is there is asked with this."""
    has_job: bool
    """A job waits at its plan: nothing is started beside it."""
    port_is_taken: bool
    """Another deployment's launch serves on its port, which is then none of its own affairs."""


class DeploymentWatcher:
    """Looks at the deployments of a host. What a job is at work on is left to the job.

    One that only waits at its plan is not at work: whoever approves it must see what has become of the server.
    """

    def __init__(self, finder: Finder | None = None) -> None:
        """``finder``: looks at servers that the panel did not start; without one they stay unknown."""
        self._finder = finder
        self._lock = threading.Lock()
        self._asked_at = 0.0
        self._by_host: dict[int, list[Watched]] = {}
        self._onlooker = Onlooker()

    def ports(self, host: Host) -> list[int]:
        """The ports of the deployments there."""
        return [watched.deployment.port for watched in self._on(host)]

    def _on(self, host: Host) -> list[Watched]:
        """What is watched on a host; asked from the database every two seconds at most."""
        with self._lock:
            if time.monotonic() - self._asked_at > REFRESH_SECONDS:
                self._by_host = _watched()
                self._asked_at = time.monotonic()
            return list(self._by_host.get(host.pk, []))

    def saw(self, host: Host, facts: HostFacts) -> None:
        """Compare what was seen with what should serve."""
        if isinstance(facts.host, Unknown) or isinstance(facts.processes, Unknown):
            return
        if isinstance(facts.listeners, Unknown):
            return
        all_here = self._on(host)
        others = self._onlooker.intruders(host, facts, [watched.wanted for watched in all_here])
        for watched in all_here:
            sockets = [listener.inode for listener in facts.listeners.on_port(watched.deployment.port)]
            found = others.get(watched.deployment.pk, NOBODY)
            if watched.launch is not None:
                forget(watched.deployment, host)
                _judge(watched.launch, host, facts.host, facts.processes, found, listens=bool(sockets))
            elif sockets and not watched.port_is_taken:
                key = f"{facts.host.boot_id} {sorted(sockets)}"
                if self._finder is not None:
                    self._finder.consider(watched.deployment, host, key)
                _judge_stranger(watched.deployment, host, found, key=key)
            else:
                forget(watched.deployment, host)
                _judge_without_launch(watched.deployment, host, found)
                if not watched.has_job:
                    after_crash.consider(watched.deployment, host)

    def lost(self, host: Host, reason: str) -> None:
        """Unreachable means unknown: users may still be served."""
        for watched in self._on(host):
            _set(watched.deployment, host, ServiceState.UNKNOWN, f"{host} cannot be read: {reason}")


def _watched() -> dict[int, list[Watched]]:
    """Deployments that no job is at work on, by host."""
    serving = {
        launch.deployment_id: launch
        for launch in Launch.objects.filter(state__in=RUNS).exclude(pid=None).select_related("deployment")
    }
    ports: dict[tuple[int, int], set[int]] = {}
    for other in serving.values():
        if other.host_id is not None:
            ports.setdefault((other.host_id, other.deployment.port), set()).add(other.deployment_id)
    found: dict[int, list[Watched]] = {}
    idle = Placement.objects.exclude(deployment__in=_deployments_of(Job.at_work()))
    idle = idle.exclude(deployment__state=ServiceState.RELEASED).select_related("deployment__profile")
    placements = list(idle.prefetch_related("deployment__shares_with"))
    asked_for = _deployments_of(Job.objects.filter(state__in=ACTIVE))
    those = Gpu.objects.filter(host__in={placement.host_id for placement in placements})
    cards = {(gpu.host_id, gpu.uuid): gpu for gpu in those}
    for placement in placements:
        launch = serving.get(placement.deployment_id)
        gpus = [cards[key] for uuid in placement.gpu_uuids if (key := (placement.host_id, uuid)) in cards]
        here = ports.get((placement.host_id, placement.deployment.port), set())
        taken = bool(here - {placement.deployment_id})
        wanted = _wanted(placement.deployment, launch, gpus)
        watched = Watched(placement.deployment, launch, wanted, placement.deployment_id in asked_for, taken)
        found.setdefault(placement.host_id, []).append(watched)
    return found


def _deployments_of(jobs: QuerySet[Job]) -> set[int]:
    pairs = jobs.order_by().values_list("deployment_id", "replaces_id")
    return {key for pair in pairs for key in pair if key is not None}


def _wanted(deployment: Deployment, launch: Launch | None, gpus: Sequence[Gpu]) -> Wanted:
    cards = tuple(known_card(gpu, deployment) for gpu in gpus)
    partners = frozenset(partner.name for partner in deployment.shares_with.all())
    ours = Ours(
        deployment.port,
        labels_of(cards),
        str(launch.pk) if launch is not None else "",
        launch.pid if launch is not None else None,
        Rules(partners, tuple(deployment.co_tenants)),
    )
    return Wanted(deployment.pk, ours, cards)


def _judge(
    launch: Launch, host: Host, identity: HostIdentity, table: ProcessTable, others: Intruders, *, listens: bool
) -> None:
    process = table.by_pid.get(launch.pid or -1)
    same_boot = identity.boot_id == launch.boot_id
    alive = same_boot and process is not None and process.start_time == launch.start_time
    if not alive or process is None or process.is_dead_zombie:
        if same_boot and _is_older(table, launch):
            return
        if same_boot and process is None and table.hides_others:
            why = "other users' processes are hidden from the panel's login there (/proc is mounted with hidepid)"
            _set(launch.deployment, host, ServiceState.UNKNOWN, f"Whether it runs cannot be seen on {host}: {why}.")
            return
        why = "the host has booted" if not same_boot else "its process is gone"
        serving = Launch.objects.filter(_held(host), pk=launch.pk, state__in=RUNS)
        ended = {"state": LaunchState.ENDED, "ended_at": timezone.now(), "end_reason": f"found ended: {why}"}
        with transaction.atomic():  # never the one without the other: it would pass for a stop
            Deployment.locked(launch.deployment_id)  # before its launch, as everybody does
            # Of one that was unknown nobody can say that it ended by itself: its job may have told it to.
            crashed = launch.state != LaunchState.UNKNOWN
            if serving.filter(Job.none_at_work("deployment")).update(**ended, crashed=crashed):
                state = ServiceState.CRASHED if crashed else ServiceState.STOPPED
                _set(launch.deployment, host, state, f"It ended outside a job: {why}.")
    elif others.port:
        _set(launch.deployment, host, ServiceState.NOT_ANSWERING, others.port)
    elif listens:
        _set(launch.deployment, host, ServiceState.SERVING, others.cards)
    else:
        _set(launch.deployment, host, ServiceState.NOT_ANSWERING, f"Nobody listens on port {launch.deployment.port}.")


def _is_older(table: ProcessTable, launch: Launch) -> bool:
    """Whether the table was read before the launch began, and came late: the probe's own shell is in it, and as young
    as the look. Not by the uptime, which is another in a container.
    """
    youngest = max((process.start_time for process in table.by_pid.values()), default=0)
    return youngest < (launch.start_time or 0)


def _judge_stranger(deployment: Deployment, host: Host, others: Intruders, *, key: str) -> None:
    """Somebody else has started what listens there: it serves when it is known to be a server of the engine."""
    found = deployment.found if deployment.found.get("key") == key else {}
    known = found.get("engine") == deployment.profile.engine
    detail = f"Something that Relaunch did not start listens on port {deployment.port}."
    if known:
        label = ENGINES[deployment.profile.engine].label
        detail = f"A server ({label}) that Relaunch did not start, pid {found['pid']}."
    if others.port:
        detail = f"{others.port} Relaunch did not start it for {deployment}."
    _set(deployment, host, ServiceState.SERVING if known else ServiceState.UNKNOWN, detail)


def _judge_without_launch(deployment: Deployment, host: Host, others: Intruders) -> None:
    if deployment.state == ServiceState.CRASHED:
        return
    # It may have been unknown in between: how the last server ended is still so, unless a job has been at work since.
    newest = deployment.launches.order_by("-intended_at").first() if deployment.state != ServiceState.STOPPED else None
    if newest is not None and newest.crashed and not after_crash.was_at_work_since(deployment, newest):
        _set(deployment, host, ServiceState.CRASHED, f"It ended outside a job ({newest.end_reason}).")
    else:
        _set(deployment, host, ServiceState.STOPPED, others.cards)


def _set(deployment: Deployment, host: Host, state: ServiceState, detail: str) -> None:
    """Write the state when it has changed, and only while no job is at work and the host is this monitor's."""
    if (deployment.state, deployment.state_detail) == (state, detail):
        return  # as it was two seconds ago at most; another write in between is seen then
    rows = Deployment.objects.filter(_held(host), pk=deployment.pk).exclude(state=state, state_detail=detail)
    with transaction.atomic():
        Deployment.locked(deployment.pk)  # a job that is claimed meanwhile writes after this, not before it
        if not rows.filter(Job.none_at_work()).update(state=state, state_since=timezone.now(), state_detail=detail):
            return
        transaction.on_commit(lambda: _tell_whoever_approves(deployment), robust=True)
    hints.hint("overview")


def _tell_whoever_approves(deployment: Deployment) -> None:
    """The page of a plan that waits says how the server is now. Apart from the state: a job's row is locked first."""
    waiting = Job.objects.filter(Q(deployment=deployment) | Q(replaces=deployment), state=JobState.WAITING)
    for key in waiting.values_list("pk", flat=True):
        Job.objects.filter(pk=key).update(version=F("version") + 1)
        hints.hint(f"job:{key}")


def _held(host: Host) -> Exists:
    """The condition of every write: a monitor that was frozen must not write old states over newer ones."""
    return Exists(Host.held(host.pk, host.monitor_owner))
