"""How the new server will be started, and what it keeps of how the old one was: user and limits. PURE.

Root keeps all of it. Any other login starts servers as itself, and raises no limit above its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from deployments.engines.base import Engine
from deployments.plan.container_change import ContainerTold, container_change
from deployments.plan.container_run import Run
from deployments.plan.inputs import PlanInput, Recipe
from deployments.plan.manager import Manager, ManagerKind, ancestors, is_wrapper
from deployments.plan.passing import by_settings, variables_of
from deployments.plan.serving import KnownLaunch, Serving
from deployments.plan.unit_change import CannotChange, Change, UnitTold, Wanted, change_for, is_script
from deployments.plan.ways import AUTO, NAMED, By, Way, unit_of
from hosts.probe.frames import Unknown
from hosts.probe.processes import Limit, Process, ProcessTable

if TYPE_CHECKING:
    from deployments.models import Revision

SYSTEMD_RUN = ("systemd-run",)
LINGER = "/var/lib/systemd/linger/"
"""A file of a login's name there: its own systemd runs on without a session of it (loginctl(1))."""
CONTAINERS = (By.CONTAINER, By.COMPOSE, By.RUN)
LIMITS = {"Max open files": "open files", "Max locked memory": "locked memory"}


@dataclass(frozen=True)
class Kept:
    """What the new server keeps of how the old one runs; None and empty: the login's own."""

    uid: int | None = None
    gid: int | None = None
    name: str = ""
    """Of the user, where it was asked for."""
    limits: Mapping[str, Limit] | None = None

    @property
    def as_data(self) -> dict[str, Any]:
        """For the launch step, which reads it from the plan."""
        limits = {name: f"{limit.soft} {limit.hard}" for name, limit in (self.limits or {}).items()}
        return {"uid": self.uid, "gid": self.gid, "limits": limits}


NOTHING_KEPT = Kept()


@dataclass(frozen=True)
class Start:
    """``why`` this way, as a sentence; ``tool``: how systemctl or docker is called on this host, ``runner``:
    systemd-run."""

    way: Way
    why: str
    runner: tuple[str, ...] = ()
    tool: tuple[str, ...] = ()
    kept: Kept = NOTHING_KEPT
    container: str = ""
    """The one that is there, by its name."""
    writes: Change | None = None
    """What is written on the host first."""
    gives: str = ""
    """The directory there in which a service of compose finds its secrets."""
    blocked: str = ""
    """Why that way cannot be taken, as a sentence."""
    as_served: bool = False
    """A script or image makes the flags, and what it has started now is just what is to be launched."""

    def goes_through(self, manager: Manager) -> bool:
        """Is it the very one that looks after the old server?"""
        if manager.kind == ManagerKind.CONTAINER:
            return self.way.by in CONTAINERS and self.container == manager.told.name
        return manager.kind == ManagerKind.UNIT and self.way == Way(By.UNIT, manager.name)

    @property
    def as_data(self) -> dict[str, Any]:
        """For the launch step, and what is written for the page. It is bound to an approval."""
        writes = self.writes and {"path": self.writes.path, "text": self.writes.shown, "hash": hash_of(self.writes)}
        return {
            "way": str(self.way),
            "runner": list(self.runner),
            "tool": list(self.tool),
            "container": self.container,
            "kept": self.kept.as_data,
            "writes": writes,
            **({"as_served": True} if self.as_served else {}),
            **({"gives": self.gives} if self.gives else {}),
        }


def hash_of(change: Change) -> str:
    """By which the text that was approved is known again; secrets are masked where it is shown."""
    return hashlib.sha256(f"{change.path}\n{change.shown}".encode()).hexdigest()


def choose_start(asked: PlanInput, manager: Manager | None, serving: Serving) -> Start:
    """The way that the deployment is told to use; by itself, as what serves now was started."""
    told = asked.started_by
    if asked.new is not None and asked.new.container:
        return _by_run(asked, asked.new)
    if told.by == By.AUTO:
        found = _as_before(asked, manager, serving)
        return _through(asked, serving, *found) if found is not None else _by_us(asked, serving)
    why = "The deployment says so."
    if told.by in NAMED:
        return _through(asked, serving, told, _tool(told, manager), why)
    if told.by == By.TRANSIENT:
        start = _by_us(asked, serving)
        return replace(start, why=why) if start.runner else Start(told, why, blocked=start.why)
    return Start(told, why, kept=kept_of(asked, serving))


def _by_run(asked: PlanInput, new: Recipe) -> Start:
    run = run_of(asked.deployment, new)
    start = Start(run.way, f"{new.name} is a {run.tool} run.", tool=(run.tool,), container=_container_of(asked))
    return replace(start, blocked=asked.starter.reason) if isinstance(asked.starter, Unknown) else start


def run_of(deployment: str, new: Recipe) -> Run:
    """The container that it makes."""
    return Run(new.container, new.argv, new.env, new.workdir, deployment)


def start_again(asked: PlanInput, serving: Serving) -> Start:
    """As we would start what serves once more, where it goes for another deployment and comes back after a failure."""
    return _by_us(asked, serving)


def _by_us(asked: PlanInput, serving: Serving) -> Start:
    runner, kept = _systemd_run(asked), kept_of(asked, serving)
    if isinstance(runner, str):
        return Start(Way(By.WRAPPER), runner, kept=kept)
    why = "It gets a unit and a control group of its own, so that all of it can be ended at once."
    return Start(Way(By.TRANSIENT), why, runner, kept=kept)


def _as_before(asked: PlanInput, manager: Manager | None, serving: Serving) -> tuple[Way, tuple[str, ...], str] | None:
    """What has started the server that runs, or the last one that was launched, with its tool and why; None: we."""
    if manager is None or is_made_for(asked.launch, manager):
        last = asked.launch.started_by if asked.launch is not None and serving.root is None else AUTO
        there = last.by in NAMED and last.by != By.RUN
        return (last, _tool(last, None), "The last one was started by it.") if there else None
    if manager.kind == ManagerKind.CONTAINER and manager.tool:
        told = asked.starter
        way = told.way if isinstance(told, ContainerTold) else Way(By.CONTAINER, manager.name)
        return way, (manager.tool,), "It has started the server that runs."
    if manager.kind == ManagerKind.UNIT and _is_all_of(asked, serving):
        way = Way(By.UNIT, manager.name)
        return way, _tool(way, manager), "It has started the server that runs."
    return None


def _is_all_of(asked: PlanInput, serving: Serving) -> bool:
    """Is the server what the unit itself starts, and not something started by that?"""
    told, root, table = asked.starter, serving.root, asked.facts.processes
    if not isinstance(told, UnitTold) or root is None or isinstance(table, Unknown):
        return told is None
    return starts_itself(told, root, table)


def starts_itself(told: UnitTold, root: Process, table: ProcessTable) -> bool:
    """Is the server's process the unit's own, or only wrapped by that?"""
    main = told.shown.get("MainPID", "")
    above = {str(process.pid) for process in ancestors(table, root) if is_wrapper(process.comm)}
    return main in {str(root.pid), *above}


def _tool(way: Way, manager: Manager | None) -> tuple[str, ...]:
    """How its tool is called; without a manager that was found, as the system's own."""
    if manager is not None and manager.name == way.name:
        return tuple(manager.tool_words)
    return ("systemctl",) if way.by == By.UNIT else ("docker",)


def _through(asked: PlanInput, serving: Serving, way: Way, tool: tuple[str, ...], why: str) -> Start:
    """By a unit or container that is there, with what has to be written first."""
    start = Start(way, why, tool=tool, container=_container_of(asked))
    if isinstance(asked.starter, Unknown):
        return replace(start, blocked=asked.starter.reason)
    if asked.starter is None or asked.new is None:
        return start
    if isinstance(asked.starter, UnitTold) and asked.starter.output_unread:
        return replace(start, blocked=asked.starter.output_unread)
    try:
        asks = wanted(asked.new, engine=asked.engine, secrets=asked.secrets)
        return replace(start, writes=what_to_write(asked.starter, asks), gives=_gives(asked, asked.starter))
    except CannotChange as problem:
        if _serves_just_that(asked, serving, asked.new):
            return replace(start, as_served=True)
        return replace(start, blocked=str(problem))


def _serves_just_that(asked: PlanInput, serving: Serving, new: Recipe) -> bool:
    """Has the unit or container that is to start it started this very command already, by a script of its own?

    Its environment and directory are then those of the script, so the recipe must leave both to it.
    """
    detail = asked.facts.details.get(serving.root.pid) if serving.root is not None else None
    if detail is None or detail.argv != new.argv or new.env or new.workdir:
        return False
    told = asked.starter
    if isinstance(told, UnitTold):
        by_script = not isinstance(told.file, Unknown) and is_script(told.file.words[:1])
        return by_script and told.shown.get("NeedDaemonReload") != "yes" and _is_all_of(asked, serving)
    return isinstance(told, ContainerTold) and told.way.by == By.CONTAINER and told.is_up


def _container_of(asked: PlanInput) -> str:
    return asked.starter.name if isinstance(asked.starter, ContainerTold) else ""


def what_to_write(told: UnitTold | ContainerTold, wanted: Wanted) -> Change | None:
    """None when it starts exactly that already. Raises CannotChange."""
    if isinstance(told, UnitTold):
        return change_for(told, wanted)
    compose = told.way.by == By.COMPOSE
    # Any other is given none (start_page.py).
    return container_change(told, wanted if compose else replace(wanted, variables=(), settings=False), compose=compose)


def wanted(new: Recipe | Revision, *, engine: Engine, secrets: Collection[str]) -> Wanted:
    """What is to run, with the secrets of these names."""
    given, settings = variables_of(engine, secrets), by_settings(engine, secrets)
    return Wanted(tuple(new.argv), new.env, new.workdir, given, settings)


def _gives(asked: PlanInput, told: UnitTold | ContainerTold) -> str:
    """A service of compose: where its secrets are put."""
    return told.secrets_directory if asked.secrets and isinstance(told, ContainerTold) else ""


def _systemd_run(asked: PlanInput) -> tuple[str, ...] | str:
    """How a unit is made on this host, or a sentence on why none can be."""
    facts = asked.facts
    if isinstance(facts.host, Unknown) or isinstance(facts.processes, Unknown):
        return "What process 1 of the host is could not be seen."
    init = facts.processes.by_pid.get(1)
    if init is None or init.comm != "systemd":
        return f"Process 1 of {asked.host} is not systemd."
    if facts.host.uid == 0:
        return SYSTEMD_RUN
    lingers = not isinstance(facts.paths, Unknown) and facts.paths.get(LINGER + asked.login)
    if not lingers:
        return f"The login {asked.login} is not root, and its own systemd ends with its last session (no linger)."
    return ("env", f"XDG_RUNTIME_DIR=/run/user/{facts.host.uid}", *SYSTEMD_RUN, "--user")


def kept_of(asked: PlanInput, serving: Serving) -> Kept:
    """Nothing where nothing serves: the login's own user and limits then."""
    facts = asked.facts
    detail = facts.details.get(serving.root.pid) if serving.root is not None else None
    if detail is None or serving.root is None or isinstance(facts.host, Unknown):
        return Kept()
    other = facts.host.uid == 0 and serving.root.uid not in (None, 0)
    limits = {words: detail.limits[name] for name, words in LIMITS.items() if name in detail.limits}
    name = facts.owners.get(serving.root.pid, "")
    if not other or detail.gid is None:
        return Kept(limits=limits)
    return Kept(serving.root.uid, detail.gid, name, limits)


def is_made_for(launch: KnownLaunch | None, manager: Manager) -> bool:
    """Is it the unit that we have made for this launch, and for nothing else?"""
    if launch is None or launch.started_by.by != By.TRANSIENT:
        return False
    return manager.kind == ManagerKind.UNIT and manager.name == unit_of(launch.launch_id)


def is_started_by(launch: KnownLaunch | None, manager: Manager) -> bool:
    """Was this launch's server started through it, by our order?"""
    if launch is None or manager.kind != ManagerKind.UNIT:
        return False
    return is_made_for(launch, manager) or launch.started_by == Way(By.UNIT, manager.name)
