"""Keeps the state of each deployment true between jobs: serving, not answering, crashed, unknown."""

from __future__ import annotations

import threading
import time

from django.utils import timezone

from controlpanel.live import hints
from deployments.lifecycle import LaunchState, ServiceState
from deployments.models import Deployment, Launch
from deployments.plan.serving import port_owners
from hosts.models import Host
from hosts.probe.facts import HostFacts
from hosts.probe.frames import Unknown

REFRESH_SECONDS = 2.0


class DeploymentWatcher:
    """Looks at the launches that serve on a host. What a job is at work on is left to the job."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked_at = 0.0
        self._serving: dict[int, list[Launch]] = {}

    def ports(self, host: Host) -> list[int]:
        """The ports of the launches that serve there."""
        return [launch.deployment.port for launch in self._on(host)]

    def _on(self, host: Host) -> list[Launch]:
        """Launches that serve, by host; asked from the database every two seconds at most."""
        with self._lock:
            if time.monotonic() - self._asked_at > REFRESH_SECONDS:
                self._serving = {}
                rows = Launch.objects.filter(state=LaunchState.SERVING).select_related("deployment")
                for row in rows:
                    if row.host_id is not None:
                        self._serving.setdefault(row.host_id, []).append(row)
                self._asked_at = time.monotonic()
            return list(self._serving.get(host.pk, []))

    def saw(self, host: Host, facts: HostFacts) -> None:
        """Compare what was seen with what should serve."""
        for launch in self._on(host):
            if launch.deployment.active_job is None:
                self._judge(launch, facts)

    def lost(self, host: Host, reason: str) -> None:
        """Unreachable means unknown: users may still be served."""
        for launch in self._on(host):
            _set(launch, ServiceState.UNKNOWN, f"{host} cannot be read: {reason}")

    def _judge(self, launch: Launch, facts: HostFacts) -> None:
        if isinstance(facts.host, Unknown) or isinstance(facts.processes, Unknown):
            return
        process = facts.processes.by_pid.get(launch.pid or -1)
        same_boot = facts.host.boot_id == launch.boot_id
        alive = same_boot and process is not None and process.start_time == launch.start_time
        if not alive or process is None or process.is_dead_zombie:
            why = "the host has booted" if not same_boot else "its process is gone"
            if Launch.objects.filter(pk=launch.pk, state=LaunchState.SERVING).update(
                state=LaunchState.ENDED, ended_at=timezone.now(), end_reason=f"found ended: {why}"
            ):
                _set(launch, ServiceState.CRASHED, f"It ended outside a job: {why}.")
            return
        owners = port_owners(facts, launch.deployment.port)
        if owners == frozenset():
            _set(launch, ServiceState.NOT_ANSWERING, f"Nobody listens on port {launch.deployment.port}.")
        elif not isinstance(owners, Unknown):
            _set(launch, ServiceState.SERVING, "")


def _set(launch: Launch, state: ServiceState, detail: str) -> None:
    changed = Deployment.objects.filter(pk=launch.deployment_id).exclude(state=state)
    if changed.update(state=state, state_since=timezone.now(), state_detail=detail):
        hints.hint("overview")
