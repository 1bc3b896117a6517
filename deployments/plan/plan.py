"""The plan: what a job would do, from the facts, before anything is touched. PURE.

``Plan.data`` is what the page shows; ``Plan.hash`` covers ``binding``, the facts that an approval rests on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from deployments.decisions.verify import CardSeen, HolderSeen
from deployments.engines.base import Engine
from deployments.flags import NOT_KNOWN, compare, flags_of, settings_of
from deployments.plan.cards import (
    CARDS_VARIABLE,
    Card,
    cards_named,
    cards_seen,
    holders,
    labels_of,
    memory_of,
    names_of_files,
)
from deployments.plan.manager import Manager, ManagerKind, find_manager
from deployments.plan.serving import KnownLaunch, Serving, find_serving, port_owners
from hosts.probe.facts import HostFacts
from hosts.probe.frames import Unknown

VERSION = 1
LEAST_DISK_MIB = 64
HOME = "."


@dataclass(frozen=True)
class Recipe:
    """A revision, without its database row."""

    name: str
    argv: tuple[str, ...]
    command: str
    port: int
    workdir: str = ""
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, str]:
        """What the recipe is made of, to be compared."""
        return settings_of(self.argv, self.env, self.workdir)


@dataclass(frozen=True)
class PlanInput:
    """All that a plan is made of."""

    kind: str
    deployment: str
    host: str
    engine: Engine
    port: int
    cards: tuple[Card, ...]
    co_tenants: tuple[str, ...]
    launch: KnownLaunch | None
    new: Recipe | None
    proven: Recipe | None
    previous: str | None
    way_back: bool
    facts: HostFacts
    node_facts: HostFacts | None = None
    earlier: tuple[str, ...] = ()
    launches: Mapping[str, str] = field(default_factory=dict)
    """launch -> deployment, of the servers that the panel has started for others."""
    adopt: bool = True
    """May an engine on the port be this deployment's, though it was not launched by us?"""


@dataclass(frozen=True)
class Plan:
    """The plan as data for the page, with the serving tree for the steps that follow."""

    data: dict[str, Any]
    hash: str
    serving: Serving
    cards: tuple[CardSeen, ...]
    manager: Manager | None

    def tell_requests(self, running: int | Unknown) -> None:
        """Show how many requests the stop would cut off; no approval is bound to a number that never stands still."""
        self.data["requests"] = None if isinstance(running, Unknown) else running
        self.data["requests_unknown"] = running.reason if isinstance(running, Unknown) else ""


class CannotPlan(Exception):
    """A fact without which there is no plan could not be measured; the message says which and why."""


def paths_needed(engine: Engine, new: Recipe | None) -> list[str]:
    """Paths whose existence and room the plan asks about."""
    paths = [HOME]
    if new is not None:
        model = engine.model_path(new.argv)
        paths += [path for path in (model, new.argv[0] if new.argv[0].startswith("/") else None, new.workdir) if path]
    return paths


def make_plan(asked: PlanInput) -> Plan:
    """Put the plan together. Raises CannotPlan when it cannot be seen who serves."""
    facts = asked.facts
    serving = find_serving(
        facts,
        launch=asked.launch,
        port=asked.port,
        is_ours=asked.engine.recognises if asked.adopt else _nobody,
        earlier=asked.earlier,
    )
    if isinstance(serving, Unknown):
        raise CannotPlan(f"Who serves now could not be seen: {serving.reason}")
    if isinstance(facts.host, Unknown):
        raise CannotPlan(facts.host.reason)
    manager = _manager(asked, serving)
    cards = cards_seen(facts, asked.cards)
    ours = {(process.pid, process.start_time) for process in serving.processes}
    others = holders(
        asked.node_facts or facts,
        labels=labels_of(asked.cards),
        ours=ours,
        co_tenants=asked.co_tenants,
        launches=asked.launches,
    )
    warnings = [*_blocking(asked, serving, cards), *_managed(asked, manager), *_heeded(asked, others)]
    before = _settings_before(asked, serving)
    binding = _binding(asked, serving, others, warnings) | {"manager": str(manager or "")}
    data = {
        "version": VERSION,
        "sections": [_place(asked, facts, manager), _cards(cards, asked), _disk(asked)],
        "stops": [_described(process.pid, facts, serving) for process in serving.processes] if _stops(asked) else [],
        "untouched": [_stranger(holder) for holder in others] if not isinstance(others, Unknown) else [],
        "flags": compare(
            before,
            asked.new.settings if asked.new else None,
            asked.proven.settings if asked.proven else None,
        ),
        "flags_before": "Running" if serving.root else "Last start" if before else "",
        "launch": {"command": asked.new.command, "revision": asked.new.name} if asked.new else None,
        "warnings": warnings,
        "blocked": any(warning["blocks"] for warning in warnings),
        "way_back": _way_back(asked, serving),
        "requests": None,
        "requests_unknown": "",
        "binding": binding,
    }
    return Plan(data, hash_of(binding), serving, cards, manager)


def _manager(asked: PlanInput, serving: Serving) -> Manager | None:
    """What restarts the server. A shell above a server of our own launch only waits for it: the wrapper is ours."""
    manager = find_manager(asked.facts, serving)
    if isinstance(manager, Unknown):
        raise CannotPlan(f"What manages the server could not be seen: {manager.reason}")
    ours = asked.launch is not None and serving.root is not None and asked.launch.pid == serving.root.pid
    return None if manager is not None and manager.kind == ManagerKind.SHELL and ours else manager


def _binding(
    asked: PlanInput, serving: Serving, others: Sequence[HolderSeen] | Unknown, warnings: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The facts that an approval rests on."""
    return {
        "kind": asked.kind,
        "command": asked.new.command if asked.new else None,
        "cards": [card.uuid for card in asked.cards],
        "boot": "" if isinstance(asked.facts.host, Unknown) else asked.facts.host.boot_id,
        "serves": sorted(_bound(serving, asked.facts)),
        "strangers": sorted([h.pid, h.start_time] for h in others) if not isinstance(others, Unknown) else "unknown",
        "blocked": sorted(warning["text"] for warning in warnings if warning["blocks"]),
    }


def _nobody(command: str) -> bool:
    return False


def hash_of(binding: Mapping[str, Any]) -> str:
    """The hash an approval is bound to."""
    return hashlib.sha256(json.dumps(binding, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def what_changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Which of the facts that matter differ between two bindings, in words."""
    words = {
        "kind": "what is to be done",
        "command": "the command to launch",
        "cards": "the cards",
        "boot": "the host has booted meanwhile",
        "serves": "the server's processes are others than those of the plan",
        "manager": "what looks after the server",
        "strangers": "others hold the cards than those of the plan",
        "blocked": "what stands in the way",
    }
    return [text for key, text in words.items() if old.get(key) != new.get(key)]


def _stops(asked: PlanInput) -> bool:
    return asked.kind in ("restart", "stop")


def _bound(serving: Serving, facts: HostFacts) -> list[list[int]]:
    """The root, the card holders, and whoever belongs to the server without having come from it.

    Helpers of the tree come and go; but a process that only carries the launch's marker is one that a person has seen.
    """
    holding = set() if isinstance(facts.files, Unknown) else {holder.pid for holder in facts.files.holders}
    root = serving.root.pid if serving.root else 0
    tree = set() if isinstance(facts.processes, Unknown) else {p.pid for p in facts.processes.tree(root)}
    return [[p.pid, p.start_time] for p in serving.processes if p.pid == root or p.pid in holding or p.pid not in tree]


def _settings_before(asked: PlanInput, serving: Serving) -> dict[str, str] | None:
    """What serves is made of, or what was started last; None when it never was.

    As we sent it, if we did: a wrapper may have become another program since.
    """
    sent = asked.launch
    if serving.root is None:
        return settings_of(sent.argv, sent.env, sent.workdir) if sent is not None and sent.argv else None
    if sent is not None and sent.pid == serving.root.pid and sent.argv:
        return settings_of(sent.argv, sent.env, sent.workdir)
    detail = asked.facts.details.get(serving.root.pid)
    if detail is None or not detail.argv:
        return None
    flags = flags_of(detail.argv)
    unseen = asked.new.settings.keys() - flags_of(asked.new.argv).keys() if asked.new else set()
    return {**flags, **dict.fromkeys(sorted(unseen), NOT_KNOWN)}


# --- What stands in the way -----------------------------------------------------------------------------------------


def _blocking(asked: PlanInput, serving: Serving, cards: Sequence[CardSeen]) -> list[dict[str, Any]]:
    found = [
        _warning(
            f"{card.label} cannot be measured: {card.reason}",
            "Without a reading nobody can say that the card is free.",
            "Mend that on the host, then plan again.",
            blocks=True,
        )
        for card in cards
        if card.used_mib is None
    ]
    owners = port_owners(asked.facts, asked.port)
    foreign = [] if isinstance(owners, Unknown) else sorted(owners - serving.pids)
    if asked.new is not None and foreign:
        detail = asked.facts.details.get(foreign[0])
        found.append(
            _warning(
                f"Port {asked.port} belongs to another process: pid {foreign[0]} "
                f"({(detail.command if detail else '')[:120] or 'unknown command'}).",
                "It is not a server of this deployment's engine, so it is not stopped.",
                "Ask its owner to stop it, or give the deployment another port.",
                blocks=True,
            )
        )
    if asked.new is not None:
        found += _no_card(asked) + _missing(asked, asked.new) + _other_cards(asked, asked.new)
    if asked.kind == "start" and serving.processes:
        found.append(
            _warning(
                f"{asked.deployment} already serves (pid {serving.processes[0].pid}).",
                "A start never stops anything.",
                "Ask for a restart instead.",
                blocks=True,
            )
        )
    return found


def _no_card(asked: PlanInput) -> list[dict[str, Any]]:
    """A deployment without cards is for a machine without cards: elsewhere it could land on any, measured by nobody."""
    there = len(asked.facts.device_files.nodes)
    if asked.cards or (isinstance(asked.facts.gpus, Unknown) and not there):
        return []
    if not isinstance(asked.facts.gpus, Unknown):
        there = max(there, len(asked.facts.gpus.gpus))
    if not there:
        return []
    return [
        _warning(
            f"{asked.deployment} has no card, but {asked.host} has {there}.",
            "The server could take cards that nobody has measured, and that somebody else works on.",
            "Edit the deployment and tick the cards that it may use.",
            blocks=True,
        )
    ]


def _other_cards(asked: PlanInput, new: Recipe) -> list[dict[str, Any]]:
    """The server must not land on cards that the job has not looked at."""
    mark = f"{CARDS_VARIABLE}="
    values = [word.removeprefix(mark) for word in new.argv if word.startswith(mark)]  # behind an `env` in the command
    if CARDS_VARIABLE in new.env:
        values.append(new.env[CARDS_VARIABLE])
    for value in values:
        named = cards_named(asked.facts, value)
        if named and named <= {card.uuid for card in asked.cards}:
            continue
        return [
            _warning(
                f"{new.name} sets {CARDS_VARIABLE}={value}, which "
                + ("names cards that are not this deployment's." if named else "names no card that is known here."),
                "The job would free and measure other cards than the server then uses.",
                "Take the variable out of the revision (the panel sets it from the cards that are ticked), or tick "
                "those cards.",
                blocks=True,
            )
        ]
    return []


def _managed(asked: PlanInput, manager: Manager | None) -> list[dict[str, Any]]:
    """What restarts the server by itself has to stop it, or else what is killed comes back."""
    if manager is None or not _stops(asked):
        return []
    if manager.kind == ManagerKind.SCHEDULER:
        return [
            _warning(
                f"The server is a job of {manager.name} on {asked.host}.",
                "The scheduler has given it its cards, so it is never touched from here.",
                f"Stop it with {manager.name}'s own tools.",
                blocks=True,
            )
        ]
    if manager.kind == ManagerKind.SHELL:
        return [
            _warning(
                f"The {manager} waits for the server, and may start it again in a loop.",
                "It was not started by Relaunch, and the shell is not stopped.",
                "Look into that terminal first. What comes back is named before the launch.",
            )
        ]
    if not manager.stop_argv(seconds=0, sudo=False):
        return [
            _warning(
                f"{manager.name} looks after the server and starts it again when it ends.",
                "Relaunch does not know how to stop it through that.",
                f"Stop it with {manager.name}'s own tools, then plan a start.",
                blocks=True,
            )
        ]
    if asked.new is None:
        return []
    return [
        _warning(
            f"The server belongs to the {manager}, which is asked to stop it.",
            "The new one is started by Relaunch, beside that. When the host boots, both may start.",
            f"Disable the {manager} on the host if Relaunch is to look after the server from now on.",
        )
    ]


def _missing(asked: PlanInput, new: Recipe) -> list[dict[str, Any]]:
    found = []
    paths = asked.facts.paths
    if isinstance(paths, Unknown):
        return [_warning(paths.reason, "Paths on the host could not be looked at.", "Plan again.", blocks=True)]
    what = {
        asked.engine.model_path(new.argv): "The model",
        new.argv[0]: "The program",
        new.workdir: "The working directory",
    }
    for path, there in paths.items():
        if not there and path in what:
            found.append(
                _warning(
                    f"{what[path]} {path} is not there on {asked.host}.",
                    "The launch would fail.",
                    "Correct the path in a new revision, or mount or copy it on the host.",
                    blocks=True,
                )
            )
    space = asked.facts.disks.get(HOME)
    if space is not None and not isinstance(space, Unknown) and space.free < LEAST_DISK_MIB:
        found.append(
            _warning(
                f"Only {space.free} MiB are free on {space.mount} of {asked.host}.",
                "The launch needs room for its log.",
                f"Free some space; at least {LEAST_DISK_MIB} MiB are needed.",
                blocks=True,
            )
        )
    return found


def _heeded(asked: PlanInput, others: Sequence[HolderSeen] | Unknown) -> list[dict[str, Any]]:
    if isinstance(others, Unknown):
        return [
            _warning(
                f"Who else holds the cards is not known: {others.reason}",
                "",
                "Memory at its baseline still counts as free.",
            )
        ]
    if not others or asked.new is None:
        return []
    names = ", ".join(str(replace(holder, name=holder.name.split()[0])) for holder in others)
    neighbours = sorted({holder.deployment for holder in others if holder.deployment})
    return [
        _warning(
            f"Somebody else holds the cards: {names}.",
            "The job will not touch them: it waits before the launch until they are gone or somebody decides.",
            f"Stop {' and '.join(neighbours)} first." if neighbours else "Ask their owner first.",
        )
    ]


def _warning(text: str, why: str, todo: str, *, blocks: bool = False) -> dict[str, Any]:
    return {"text": text, "why": why, "todo": todo, "blocks": blocks}


# --- What the page shows --------------------------------------------------------------------------------------------


def _row(label: str, value: str, status: str = "info", detail: str = "") -> dict[str, str]:
    return {"label": label, "value": value, "status": status, "detail": detail}


def _place(asked: PlanInput, facts: HostFacts, manager: Manager | None) -> dict[str, Any]:
    name = "" if isinstance(facts.host, Unknown) else facts.host.hostname
    return {
        "title": "Where",
        "rows": [
            _row("Host", asked.host, detail=f"calls itself {name}" if name else ""),
            _row("Port", str(asked.port)),
            _row("Engine", asked.engine.label),
            *([_row("Looked after by", str(manager))] if manager is not None else []),
        ],
    }


def _cards(cards: Collection[CardSeen], asked: PlanInput) -> dict[str, Any]:
    known = {card.uuid: card.baseline_mib for card in asked.cards}
    rows = []
    for card in cards:
        baseline = known[card.uuid]
        limit = f"free at {card.limit_mib:,} MiB or less" + (
            "" if baseline is not None else " (baseline not learnt yet)"
        )
        if card.used_mib is None:
            rows.append(_row(card.label, "unknown", "unknown", card.reason))
        else:
            rows.append(_row(card.label, f"{card.used_mib:,} MiB in use", "info", limit))
    return {"title": "Cards", "rows": rows}


def _disk(asked: PlanInput) -> dict[str, Any]:
    rows = []
    for path, space in asked.facts.disks.items():
        label = "Home of the login" if path == HOME else path
        if isinstance(space, Unknown):
            rows.append(_row(label, "unknown", "unknown", space.reason))
        else:
            enough = "ok" if space.free >= LEAST_DISK_MIB else "not ok"
            rows.append(_row(label, f"{space.free:,} MiB free", enough, f"on {space.mount}"))
    return {"title": "Disk", "rows": rows}


def _described(pid: int, facts: HostFacts, serving: Serving) -> dict[str, Any]:
    process = next(process for process in serving.processes if process.pid == pid)
    detail = facts.details.get(pid)
    files = [] if isinstance(facts.files, Unknown) else [h.cards for h in facts.files.holders if h.pid == pid]
    gpus = [] if isinstance(facts.gpus, Unknown) else facts.gpus.gpus
    names = names_of_files(facts, {gpu.uuid: f"GPU {gpu.index}" for gpu in gpus if isinstance(gpu.index, int)})
    return {
        "pid": pid,
        "start": process.start_time,
        "name": process.comm,
        "command": detail.command if detail is not None else "",
        "user": "root" if process.uid == 0 else f"uid {process.uid}",
        "since": _since(process.start_time, facts),
        "gpus": [names[minor] for minor in sorted(files[0]) if minor in names] if files else [],
        "memory_mib": memory_of(facts, [pid]).get(pid),
    }


def _since(start_time: int, facts: HostFacts) -> str:
    """When a process started, by our clock, as ISO text."""
    if isinstance(facts.host, Unknown):
        return ""
    age = facts.host.uptime_seconds - start_time / facts.host.clock_ticks
    return (facts.measured_at - timedelta(seconds=age)).isoformat(timespec="seconds")


def _stranger(holder: HolderSeen) -> dict[str, Any]:
    return {
        "pid": holder.pid,
        "start": holder.start_time,
        "name": holder.name.split()[0] if holder.name else "",
        "command": holder.name,
        "user": holder.user,
        "since": "",
        "gpus": list(holder.cards),
        "memory_mib": None,
    }


def _way_back(asked: PlanInput, serving: Serving) -> dict[str, Any]:
    if asked.kind == "stop":
        return {"possible": False, "text": ""}
    if not serving.processes:
        return {"possible": False, "text": "Nothing serves now, so there is nothing to go back to."}
    if asked.previous is None:
        return {
            "possible": False,
            "text": "What serves now was not started by Relaunch, so its exact start is not known.",
        }
    if not asked.way_back:
        return {"possible": True, "text": f"Not wanted: a failure leaves {asked.deployment} down."}
    return {"possible": True, "text": f"If it fails, {asked.previous} is started again, with all checks."}
