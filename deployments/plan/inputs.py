"""All that a plan is made of: the facts of one look, and what was asked for. PURE."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deployments.engines.base import Engine
from deployments.flags import settings_of
from deployments.plan.cards import Card, Claim
from deployments.plan.container_change import ContainerTold
from deployments.plan.fitting import ToFit
from deployments.plan.flagcheck import NOT_CHECKED, FlagCheck
from deployments.plan.manager_answers import NOTHING_TOLD, Told
from deployments.plan.serving import KnownLaunch, Serving
from deployments.plan.sharing import Rules
from deployments.plan.unit_change import UnitTold
from deployments.plan.ways import AUTO, Way
from deployments.traffic.hook import Hook
from hosts.probe.facts import HostFacts
from hosts.probe.frames import Unknown

HOME = "."
"""The home of the login, as the probe is asked for it."""
SHARED_MEMORY = "/dev/shm"
LEAST_SHARED_MIB = 1024
"""Of free shared memory for a server over several cards; docker gives a container 64 MiB by itself."""
LEAST_DISK_MIB = 64
"""Room that a launch's log needs at least."""


@dataclass(frozen=True)
class Recipe:
    """A revision, without its database row."""

    name: str
    argv: tuple[str, ...]
    command: str
    port: int
    workdir: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    container: Mapping[str, Any] = field(default_factory=dict)
    """Of a revision that is a docker run: its tool, image and options."""
    engine_versions: str = ""
    """Those that it is known to be good with; empty: any."""

    @property
    def settings(self) -> dict[str, str]:
        """What the recipe is made of, to be compared."""
        return settings_of(self.argv, self.env, self.workdir, self.container)


@dataclass(frozen=True)
class Leaving:
    """A server that is gone before anything is launched, and whose it is."""

    deployment: str
    serving: Serving


@dataclass(frozen=True)
class PlanInput:
    """All that a plan is made of."""

    kind: str
    deployment: str
    host: str
    engine: Engine
    port: int
    cards: tuple[Card, ...]
    rules: Rules
    launch: KnownLaunch | None
    new: Recipe | None
    proven: Recipe | None
    previous: str | None
    way_back: bool
    facts: HostFacts
    node_facts: HostFacts | None = None
    machine: str = ""
    """The machine that has the cards, when that is the node of a container."""
    used_alone: frozenset[str] = frozenset()
    """Uuids of the cards that a server of exactly this revision used, and no others, when it was adopted here."""
    earlier: tuple[str, ...] = ()
    launches: Mapping[str, str] = field(default_factory=dict)
    """launch -> deployment, of the servers that the panel has started for others."""
    claims: tuple[Claim, ...] = ()
    """Servers of other deployments that are to use its cards, should they live."""
    told: Told = NOTHING_TOLD
    """What the server's manager says by its own tools."""
    secrets: Mapping[str, int] = field(default_factory=dict)
    """What the server is given beside its command: name -> version."""
    secrets_lost: tuple[str, str] | None = None
    """Why the panel cannot open them, and what to do."""
    secrets_odd: tuple[str, ...] = ()
    """Those whose values docker compose cannot be given."""
    engine_version: str | Unknown | None = None
    """The one that is installed; None: nobody asked, for any is good."""
    flags: FlagCheck = NOT_CHECKED
    """What the engine on the host makes of the flags of what is to be launched."""
    to_fit: ToFit | None = None
    """What was read of the model that is to be launched; None: nothing is, or by an engine whose needs nobody knows."""
    started_by: Way = AUTO
    """How the deployment says that its server is started."""
    starter: UnitTold | ContainerTold | Unknown | None = None
    """What the unit or container would start, by which the deployment is started; None: not asked."""
    closed: tuple[str, ...] | Unknown = ()
    """Paths that the user who runs the server may not read, where that is not the login."""
    login: str = "root"
    """Of the panel on the host."""
    hooks: tuple[Hook, ...] = ()
    """How its router is told before the drain and after the check; both or none."""
    router_key: bool = False
    """The key that the router asks for is set."""
    leaving: Leaving | None = None
    """The server of another deployment that the same job stops first, so that this one can start on its cards."""
    adopt: bool = True
    """May an engine on the port be this deployment's, though it was not launched by us?"""

    stop_seconds: float = math.inf
    """How long the job waits for a manager that was asked to stop the server, before it ends as failed."""

    proven_engine: str = ""
    """The version with which the revision to be launched was proven here; empty where that is not known."""
    took: tuple[float, ...] = ()
    """Seconds from the start to ready of its last starts, newest first."""

    newer: str = ""
    """The newest revision of the profile, where another one is launched."""

    behind_port: str = ""
    """The container for which docker listens on the port, as docker calls it; where it was asked."""

    @property
    def version(self) -> str:
        """Of the engine on the host, by whoever could tell it; empty where nobody could."""
        if isinstance(self.engine_version, str):
            return self.engine_version
        return self.flags.catalogue.version if self.flags.catalogue is not None else ""

    @property
    def stops(self) -> bool:
        """Does the job stop what serves?"""
        return self.kind in ("restart", "stop", "replace")
