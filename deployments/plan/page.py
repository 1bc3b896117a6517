"""The rows of a plan as its page shows them. PURE."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from datetime import timedelta
from typing import Any

from deployments.catalogue.finding import ERROR
from deployments.decisions.usable import CardUsable, Usability
from deployments.decisions.verify import CardSeen, HolderSeen
from deployments.plan.cards import memory_of, names_of_files
from deployments.plan.flagcheck import FlagCheck
from deployments.plan.inputs import HOME, LEAST_DISK_MIB, LEAST_SHARED_MIB, SHARED_MEMORY, PlanInput
from deployments.plan.manager import Manager
from deployments.plan.serving import Serving, port_owners
from deployments.plan.start import LINGER
from deployments.plan.words import user_of
from deployments.traffic.hook import Hook, How
from hosts.probe.facts import HostFacts
from hosts.probe.frames import Unknown
from hosts.probe.processes import CLOCK_TICKS


def _row(label: str, value: str, status: str = "info", detail: str = "") -> dict[str, str]:
    return {"label": label, "value": value, "status": status, "detail": detail}


def place(asked: PlanInput, facts: HostFacts, manager: Manager | None, serving: Serving) -> dict[str, Any]:
    """Where it runs, and what looks after it."""
    name = "" if isinstance(facts.host, Unknown) else facts.host.hostname
    return {
        "title": "Where",
        "rows": [
            _row("Host", asked.host, detail=f"calls itself {name}" if name else ""),
            _port(asked, serving),
            _engine(asked),
            *_flags(asked.flags),
            *([_row("Looked after by", str(manager), detail=_habits(manager))] if manager is not None else []),
        ],
    }


def _port(asked: PlanInput, serving: Serving) -> dict[str, str]:
    """Of a launch also whether it can have it."""
    owners = port_owners(asked.facts, asked.port)
    if asked.new is None:
        return _row("Port", str(asked.port))
    if isinstance(owners, Unknown):
        return _row("Port", str(asked.port), "unknown", owners.reason)
    leaving = asked.leaving.serving.pids if asked.leaving is not None else frozenset()
    if owners - serving.pids - leaving:
        return _row("Port", str(asked.port), "not ok", "another process has it")
    return _row("Port", str(asked.port), "ok", "free once what serves now is stopped" if owners else "nobody listens")


def _engine(asked: PlanInput) -> dict[str, str]:
    """With its version on the host, where that is known."""
    proven = f"{asked.new.name} was proven with {asked.proven_engine}" if asked.new and asked.proven_engine else ""
    return _row("Engine", f"{asked.engine.label} {asked.version}".rstrip(), detail=proven)


def launched(asked: PlanInput) -> dict[str, Any] | None:
    """What is launched, and by which names it is given secrets."""
    if asked.new is None:
        return None
    told = {"command": asked.new.command, "revision": asked.new.name, "given": sorted(asked.secrets)}
    return {**told, "newer": asked.newer} if asked.newer else told


def _flags(checked: FlagCheck) -> list[dict[str, str]]:
    """Whether the flags were checked, and against what; nothing where there is nothing to check."""
    if checked.catalogue is None:
        return [_row("Flags", "not checked", "unknown", checked.reason)] if checked.reason else []
    wrong = [finding for finding in checked.grave if finding.level == ERROR]
    value = f"{len(wrong)} wrong" if wrong else "look at the warnings" if checked.grave else "known"
    status = "not ok" if wrong else "info" if checked.grave else "ok"
    return [_row("Flags", value, status, f"checked against {checked.against}")]


def _habits(manager: Manager) -> str:
    """When it starts the server again, as far as it says so."""
    told = manager.told
    boot = {True: "starts it at boot", False: "does not start it at boot", None: ""}[told.at_boot]
    return ", ".join(filter(None, (f"restarts it: {told.restart}" if told.restart else "", boot, told.command)))


def cards_table(cards: Collection[CardSeen], asked: PlanInput) -> dict[str, Any]:
    """Each card with its memory and its limit."""
    known = {card.uuid: card.baseline_mib for card in asked.cards}
    rows = []
    for card in cards:
        baseline = known[card.uuid]
        limit = f"free at {card.limit_mib:,} MiB or less" + (
            "" if baseline is not None else " (baseline not learnt yet)"
        )
        if card.used_mib is None:
            rows.append(_row(card.label, "unknown", "unknown", card.reason))
        elif card.shared:
            rows.append(_row(card.label, f"{card.used_mib:,} MiB in use", "info", _shared(card, asked)))
        else:
            rows.append(_row(card.label, f"{card.used_mib:,} MiB in use", "info", limit))
    return {"title": "Cards", "rows": rows}


def _shared(card: CardSeen, asked: PlanInput) -> str:
    free = "how much is free is not known" if card.free_mib is None else f"{card.free_mib:,} MiB free now"
    if asked.new is None:
        return f"shared with others; {free}"
    need = "an unknown amount" if card.need_mib is None else f"{card.need_mib:,} MiB"
    return f"shared with others; {free}, the launch needs {need}"


def usable_table(cards: Collection[CardUsable]) -> list[dict[str, Any]]:
    """Whether each card can be used at all, with what was not seen; no table without a card."""
    status = {Usability.USABLE: "ok", Usability.NOT_USABLE: "not ok", Usability.UNKNOWN: "unknown"}
    rows = [
        _row(card.label, card.value, status[card.value], " ".join((*(r.text for r in card.reasons), *card.notes)))
        for card in cards
    ]
    return [{"title": "Can the cards be used", "rows": rows}] if rows else []


def disk(asked: PlanInput) -> dict[str, Any]:
    """Room on the file systems that the launch needs."""
    rows = []
    for path, space in asked.facts.disks.items():
        if path.startswith(LINGER):
            continue
        label = {HOME: "Home of the login", SHARED_MEMORY: "Shared memory"}.get(path, path)
        if isinstance(space, Unknown):
            rows.append(_row(label, "unknown", "unknown", space.reason))
        else:
            least = LEAST_SHARED_MIB if path == SHARED_MEMORY and len(asked.cards) > 1 else LEAST_DISK_MIB
            enough = "ok" if space.free >= least else "not ok"
            rows.append(_row(label, f"{space.free:,} MiB free", enough, f"on {space.mount}"))
    return {"title": "Disk and shared memory", "rows": rows}


def router_table(asked: PlanInput, serving: Serving) -> list[dict[str, Any]]:
    """How its router is told, in the order in which it is; no table where it is not."""
    rows: list[tuple[str, Hook, str, bool]] = []
    for hook, when in zip(
        asked.hooks, ("Before the drain, taken out by", "After the check, put back by"), strict=False
    ):
        runs = asked.new is not None if rows else asked.stops and bool(serving.processes)
        where = f"run on {asked.host}" if hook.how == How.COMMAND else "sent from the panel's machine"
        if rows:
            where += ", if it was taken out"
        rows.append((when, hook, where, runs))
    shown = [_row(when, str(hook), detail=where) for when, hook, where, runs in rows if runs]
    return [{"title": "Its router", "rows": shown}] if shown else []


def described(pid: int, facts: HostFacts, serving: Serving) -> dict[str, Any]:
    """One process of the server."""
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
        "user": facts.owners.get(pid) or user_of(process.uid),
        "since": since_of(process.start_time, facts),
        "gpus": [names[minor] for minor in sorted(files[0]) if minor in names] if files else [],
        "memory_mib": memory_of(facts, [pid]).get(pid),
        "no_card": _holds_no_card(pid, facts),
    }


def _holds_no_card(pid: int, facts: HostFacts) -> bool:
    """The driver's list does not name it and it has no card's file open, and both were read as a whole."""
    if isinstance(facts.apps, Unknown) or isinstance(facts.files, Unknown) or facts.files.partial:
        return False
    return pid not in {app.pid for app in facts.apps.apps} | {holder.pid for holder in facts.files.holders}


def since_of(start_time: int, facts: HostFacts) -> str:
    """When a process started, by our clock, as ISO text."""
    if isinstance(facts.host, Unknown):
        return ""
    age = facts.host.uptime_seconds - start_time / CLOCK_TICKS
    return (facts.measured_at - timedelta(seconds=age)).isoformat(timespec="seconds")


def co_tenant(holder: HolderSeen, facts: HostFacts) -> dict[str, Any]:
    """One process that may share the cards, by its deployment or by its user and program. It is left alone."""
    known = {
        "inner": holder.inner,
        "deployment": holder.deployment,
    }
    return stranger(holder, facts) | known


def stranger(holder: HolderSeen, facts: HostFacts) -> dict[str, Any]:
    """One process that is left alone."""
    return {
        "pid": holder.pid,
        "start": holder.start_time,
        "name": holder.program,
        "command": holder.name,
        "user": holder.user,
        "since": since_of(holder.start_time, facts),
        "gpus": list(holder.cards),
        "memory_mib": memory_of(facts, [holder.pid]).get(holder.pid),
    }


def way_back(asked: PlanInput, serving: Serving, manager: Manager | None) -> dict[str, Any]:
    """Whether a failure is undone, in a sentence."""
    if asked.kind == "stop":
        return {"possible": False, "text": ""}
    if not serving.processes:
        return {"possible": False, "text": "Nothing serves now, so there is nothing to go back to."}
    if asked.previous is None and manager is not None and (argv := manager.start_argv(sudo=False)):
        text = f"Relaunch did not start what serves now, the {manager} did. To go back, run: {shlex.join(argv)}"
        return {"possible": False, "text": text}
    if asked.previous is None:
        return {
            "possible": False,
            "text": "What serves now was not started by Relaunch, so its exact start is not known.",
        }
    if not asked.way_back:
        return {
            "possible": True,
            "text": f"Not by itself: after a failure the job asks whether to start {asked.previous} again.",
        }
    same = asked.new is not None and asked.previous == asked.new.name
    again = (
        f"the same revision ({asked.previous}) is launched once more" if same else f"{asked.previous} is started again"
    )
    return {"possible": True, "text": f"If it fails, {again}, with all checks."}
