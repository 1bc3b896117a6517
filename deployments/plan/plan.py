"""The plan: what a job would do, from the facts, before anything is touched. PURE.

``Plan.data`` is what the page shows; ``Plan.hash`` covers ``binding``, the facts that an approval rests on
(binding.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from deployments.decisions.verify import CardSeen
from deployments.engines.base import Engine
from deployments.flags import NOT_KNOWN, compare, flags_of, settings_of
from deployments.plan.binding import binding_of, hash_of
from deployments.plan.cards import Held, cards_seen, deployment_of, holders, labels_of, with_claims
from deployments.plan.fit_page import fit_table, fit_warnings, model_table
from deployments.plan.fitting import Fit
from deployments.plan.foreseen import busy, duration_table, foreseen
from deployments.plan.health import cards_usable
from deployments.plan.inputs import HOME, SHARED_MEMORY, PlanInput, Recipe
from deployments.plan.loading import find_loading
from deployments.plan.manager import Manager, ManagerKind, beside, find_manager, launch_waited_for
from deployments.plan.manager_warnings import managed_warnings
from deployments.plan.marks import launch_of
from deployments.plan.page import (
    cards_table,
    co_tenant,
    described,
    disk,
    launched,
    place,
    router_table,
    stranger,
    usable_table,
    way_back,
)
from deployments.plan.preflight import preflight_warnings
from deployments.plan.rooms import rooms_of
from deployments.plan.serving import NOTHING, KnownLaunch, Serving, find_serving
from deployments.plan.sharing import Planned
from deployments.plan.start import Start, choose_start, is_made_for, is_started_by, start_again
from deployments.plan.start_page import start_table, start_warnings
from deployments.plan.warnings import warnings_of
from hosts.probe.facts import HostFacts
from hosts.probe.frames import Unknown
from hosts.probe.processes import Process

VERSION = 1


@dataclass(frozen=True)
class Plan:
    """The plan as data for the page, with the serving tree for the steps that follow."""

    data: dict[str, Any]
    hash: str
    serving: Serving
    cards: tuple[CardSeen, ...]
    manager: Manager | None
    beside: tuple[Process, ...] = ()
    """Who would be ended with the server, because its manager ends its whole unit or container."""
    start: Start | None = None
    """How the new server will be started; None where none is."""
    newest: int = 0
    """The start time of the youngest process at the time of the look: who starts later was not there."""
    pid_namespace: str = ""
    """In which the numbers of the processes hold."""
    busy: dict[str, Any] | None = None
    """The warning for a stop while requests run."""

    def tell_requests(self, running: int | Unknown, waiting: int | None = None) -> None:
        """Show how many requests the stop would cut off; no approval is bound to a number that never stands still.

        ``waiting``: taken in and not begun; None where the engine does not say.
        """
        self.data["requests"] = None if isinstance(running, Unknown) else running
        self.data["waiting"] = waiting
        if self.busy is not None and not isinstance(running, Unknown) and running + (waiting or 0):
            self.data["warnings"] = [*self.data["warnings"], self.busy]
        self.data["requests_unknown"] = running.reason if isinstance(running, Unknown) else ""


class CannotPlan(Exception):
    """A fact without which there is no plan could not be measured; the message says which and why."""


def paths_needed(engine: Engine, new: Recipe | None) -> list[str]:
    """Paths whose existence and room the plan asks about."""
    paths = [HOME]
    if new is not None and not new.container:
        paths.append(SHARED_MEMORY)
    if new is not None:
        paths += [path for path in (*_of_the_command(engine, new), new.workdir) if path]
    return paths


def _of_the_command(engine: Engine, new: Recipe) -> tuple[str | None, ...]:
    """Model and program, where they are the host's: those in a container are not."""
    if new.container:
        return ()
    return engine.model_path(new.argv), new.argv[0] if new.argv[0].startswith("/") else None


def make_plan(asked: PlanInput) -> Plan:
    """Put the plan together. Raises CannotPlan when it cannot be seen who serves."""
    facts = asked.facts
    serving = _serving(asked)
    if isinstance(facts.host, Unknown):
        raise CannotPlan(facts.host.reason)
    manager = _manager(asked, serving)
    own = manager is not None and is_made_for(asked.launch, manager)
    if own:  # all of it is the server's, whoever has left its tree
        serving = replace(serving, processes=(*serving.processes, *beside(facts, serving, manager)))
    gone = (*serving.processes, *(asked.leaving.serving.processes if asked.leaving else ()))
    ours = {(process.pid, process.start_time) for process in gone}
    seen_from = asked.node_facts or facts
    labels = labels_of(asked.cards)
    others = holders(seen_from, labels=labels, ours=ours, rules=asked.rules, launches=asked.launches)
    if isinstance(others, Held):  # numbers are those of the host itself, which for a container is not its node
        others = with_claims(others, facts, asked.claims)
    held = others if isinstance(others, Held) else Held(())
    co_tenants = [co_tenant(holder, seen_from) for holder in held.co_tenants]
    cards = cards_seen(facts, asked.cards, shared=Planned(tuple(co_tenants)).shared(labels))
    usable = cards_usable(
        facts, asked.node_facts or facts, asked.cards, host=asked.host, machine=asked.machine or asked.host
    )
    start = choose_start(asked, manager, serving) if asked.new is not None else None
    also = beside(facts, serving, manager) if asked.stops and not own else ()
    stays = own or (start is not None and manager is not None and start.goes_through(manager))
    managed = managed_warnings(asked, manager, also, stays=stays)
    if start is not None:
        managed += [*preflight_warnings(asked, start), *start_warnings(asked, serving, start)]
    fit = _fit(asked, serving, others, seen_from)
    fitting = fit_warnings(fit, name=asked.new.name) if asked.new is not None else []
    warnings = warnings_of(asked, serving, cards=cards, usable=usable, managed=managed, fitting=fitting, others=others)
    warnings += foreseen(asked, fit.rooms if fit is not None else None)
    before = _settings_before(asked, serving)
    binding = binding_of(asked, serving, manager, others, warnings, also, start)
    data = {
        "version": VERSION,
        "sections": [
            place(asked, facts, manager, serving),
            cards_table(cards, asked),
            *usable_table(usable),
            disk(asked),
            *router_table(asked, serving),
            *start_table(start),
            *model_table(asked.to_fit),
            *duration_table(asked),
        ],
        "stops": [described(process.pid, facts, serving) for process in serving.processes] if asked.stops else [],
        "untouched": [stranger(holder, seen_from) for holder in held.strangers],
        "co_tenants": co_tenants,
        "flags": compare(
            before,
            asked.new.settings if asked.new else None,
            asked.proven.settings if asked.proven else None,
        ),
        "flags_before": "Running" if serving.root else "Last start" if before else "",
        "launch": launched(asked),
        "fit": fit_table(fit),
        "start": start and start.as_data,
        "warnings": warnings,
        "blocked": any(warning["blocks"] for warning in warnings),
        "way_back": way_back(asked, serving, manager),
        **({"back": start_again(asked, serving).as_data} if asked.kind == "replace" else {}),
        "requests": None,
        "waiting": None,
        "requests_unknown": "",
        "binding": binding,
        "newest": _newest(facts),
    }
    return Plan(
        data,
        hash_of(binding),
        serving,
        cards,
        manager,
        also,
        start,
        _newest(facts),
        facts.host.pid_namespace,
        busy(asked, serving),
    )


def _fit(asked: PlanInput, serving: Serving, others: Held | Unknown, seen_from: HostFacts) -> Fit | None:
    """None where nothing is launched, or by an engine whose needs nobody knows."""
    if asked.new is None or asked.to_fit is None:
        return None
    if asked.leaving is not None:  # what it holds now is free by then, as of a server of one's own
        before = replace(asked, kind="restart", deployment=asked.leaving.deployment)
        rooms = rooms_of(before, asked.leaving.serving, others, seen_from)
    else:
        rooms = rooms_of(asked, serving, others, seen_from)
    gpus = asked.facts.gpus
    there = None if isinstance(gpus, Unknown) else len(gpus.gpus)
    return Fit(asked.engine, asked.new.argv, asked.to_fit, rooms, there)


def _serving(asked: PlanInput) -> Serving:
    """What was launched or listens, else what still loads for it."""
    found = find_serving(
        asked.facts,
        launch=asked.launch,
        port=asked.port,
        is_ours=asked.engine.recognises if asked.adopt else _nobody,
        earlier=asked.earlier,
    )
    if isinstance(found, Unknown):
        raise CannotPlan(f"Who serves now could not be seen: {found.reason}")
    if found.root is not None and not found.is_launched and _is_others(asked, found.root):
        return NOTHING  # on its port another deployment's server listens, which the plan names
    if found.processes or not asked.adopt:
        return found

    def loads(argv: Sequence[str]) -> bool:
        return asked.engine.recognises(" ".join(argv)) and asked.engine.port(argv) == asked.port

    return find_loading(asked.facts, labels_of(asked.cards), loads=loads, others=asked.launches) or found


def _is_others(asked: PlanInput, root: Process) -> bool:
    if isinstance(asked.facts.processes, Unknown):
        return False
    logs = launch_of(asked.facts, asked.launches)
    return bool(deployment_of(root, asked.facts.processes, logs, asked.launches))


def _manager(asked: PlanInput, serving: Serving) -> Manager | None:
    """What restarts the server. Nobody restarts one of our own launch: the shell above it is our wrapper, and the unit
    around it is that of the login, or of the panel itself, unless it is the one by which we have started it. Nor does
    the wrapper of another panel's launch, or of one of ours that was let go and taken back."""
    manager = find_manager(asked.facts, serving)
    if isinstance(manager, Unknown):
        raise CannotPlan(f"What manages the server could not be seen: {manager.reason}")
    if manager is None:
        return None
    launched = serving.is_launched and asked.launch is not None and not asked.launch.adopted
    ours = launched and manager.kind in (ManagerKind.SHELL, ManagerKind.PARENT, ManagerKind.UNIT)
    if ours and not is_started_by(asked.launch, manager):
        return None
    if manager.kind == ManagerKind.SHELL and launch_waited_for(asked.told.command):
        return None
    return replace(manager, told=asked.told)


def _newest(facts: HostFacts) -> int:
    """Not by the machine's uptime: a container may be told its own, while start times are the kernel's."""
    table = {} if isinstance(facts.processes, Unknown) else facts.processes.by_pid
    return max((process.start_time for process in table.values()), default=0)


def _nobody(command: str) -> bool:
    return False


def _settings_sent(sent: KnownLaunch | None) -> dict[str, str] | None:
    if sent is None or not (sent.argv or sent.container):
        return None
    return settings_of(sent.argv, sent.env, sent.workdir, sent.container)


def _settings_before(asked: PlanInput, serving: Serving) -> dict[str, str] | None:
    """What serves is made of, or what was started last; None when it never was.

    As we sent it, if we did: a wrapper may have become another program since.
    """
    sent = asked.launch
    if serving.root is None:
        return _settings_sent(sent)
    if serving.is_launched and (found := _settings_sent(sent)) is not None:
        return found
    detail = asked.facts.details.get(serving.root.pid)
    if detail is None or not detail.argv:
        return None
    flags = flags_of(detail.argv)
    unseen = asked.new.settings.keys() - flags_of(asked.new.argv).keys() if asked.new else set()
    return {**flags, **dict.fromkeys(sorted(unseen), NOT_KNOWN)}
