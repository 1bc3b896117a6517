"""The facts that an approval rests on, and how two plans differ in them. PURE.

``BINDS`` is the one table of what binds. What is not in it (uptime, requests, a neighbour's few MiB, disk, what the
engine needs) may change between the approval and its use.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deployments.plan.cards import Held
from deployments.plan.inputs import PlanInput
from deployments.plan.manager import Manager
from deployments.plan.serving import Serving
from deployments.plan.start import Start
from hosts.probe.facts import HostFacts
from hosts.probe.frames import Unknown
from hosts.probe.processes import Process

Data = Mapping[str, Any]
"""Of a plan, as its page shows it."""


@dataclass(frozen=True)
class Fact:
    """``label``: of its row; ``changed``: what is said when two plans differ in it; ``shown``: its value in words, from
    a plan's data and that of the plan beside it; ``rows``: the part of the data that has a row for each process that it
    is about."""

    label: str
    changed: str
    shown: Callable[[Data, Data], str]
    rows: str = ""


def _bound_text(name: str, none: str = "none") -> Callable[[Data, Data], str]:
    return lambda data, _: _text(data["binding"].get(name)) or none


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(filter(None, map(_text, value)))
    return "" if value is None else str(value)


def _of_rows(rows: str, name: str, none: str = "nobody") -> Callable[[Data, Data], str]:
    """Who stands in this plan and not in the other; by number alone where the plan does not describe them."""

    def shown(data: Data, other: Data) -> str:
        bound, beside = ([*plan["binding"].get(name, ())] for plan in (data, other))
        if isinstance(data["binding"].get(name), str):
            return "could not be seen"
        own = [who for who in bound if who not in beside]
        again = {pid for pid, _ in own} & {who[0] for who in beside}  # a number that another process has now
        known = {(row["pid"], row["start"]): row for row in data.get(rows, ())}
        found = [_who(pid, known.get((pid, start)), dated=pid in again) for pid, start in own]
        if len(own) < len(bound):
            found.append(f"{len(bound) - len(own)} in both plans")
        return ", ".join(found) or none

    return shown


def _who(pid: int, row: Data | None, *, dated: bool) -> str:
    if row is None:
        return f"pid {pid}"
    return _named(row) + (f" since {row['since'].replace('T', ' ').replace('+00:00', ' UTC')}" if dated else "")


def _named(row: Data) -> str:
    facts = [f"pid {row['pid']}", row["user"], f"on {', '.join(row['gpus'])}" if row["gpus"] else ""]
    return f"{row['name']} ({', '.join(filter(None, facts))})"


def _start(data: Data, _: Data) -> str:
    start = data["binding"].get("start")
    if not start:
        return "nothing is started"
    writes = start.get("writes")
    return start["way"] + (f", after {writes['path']} is written" if writes else "")


def _command(data: Data, _: Data) -> str:
    return (data.get("launch") or {}).get("command") or "nothing is launched"


def _newer(data: Data, _: Data) -> str:
    return str((data.get("launch") or {}).get("newer") or "none")


def _router(data: Data, _: Data) -> str:
    told: list[Any] = list(data["binding"].get("router") or ())
    hooks = [
        hook for entry in told for hook in (entry if isinstance(entry, list) else [entry])
    ]  # a replacement has two
    return ", ".join(hook.get("command") or f"{hook.get('method')} {hook.get('url')}" for hook in hooks) or "not told"


def _secrets(data: Data, _: Data) -> str:
    return ", ".join(f"{name} (version {version})" for name, version in data["binding"].get("secrets") or ()) or "none"


BINDS: dict[str, Fact] = {
    "kind": Fact("What is done", "what is to be done", _bound_text("kind")),
    "replaces": Fact("Who is replaced", "who is replaced by whom", _bound_text("replaces")),
    "command": Fact("Command", "the command to launch", _command),
    "outdated": Fact("Newer revision", "the profile has a newer revision than the one that is launched", _newer),
    "cards": Fact("Cards", "the cards", _bound_text("cards")),
    "boot": Fact("Boot of the host", "the host has booted meanwhile", _bound_text("boot", "not known")),
    "serves": Fact(
        "What serves",
        "the server's processes are others than those of the plan",
        _of_rows("stops", "serves", "nothing"),
    ),
    "manager": Fact("Looked after by", "what looks after the server", _bound_text("manager", "nobody")),
    "beside": Fact(
        "In its unit or container",
        "others run in the server's unit or container than those of the plan",
        _of_rows("beside", "beside"),
    ),
    "strangers": Fact(
        "Others on the cards",
        "others hold the cards than those of the plan",
        _of_rows("untouched", "strangers"),
        "untouched",
    ),
    "co_tenants": Fact(
        "Co-tenants",
        "the co-tenants of the cards are others than those of the plan",
        _of_rows("co_tenants", "co_tenants"),
        "co_tenants",
    ),
    "secrets": Fact("Secrets", "the secrets that the server is given", _secrets),
    "blocked": Fact("In the way", "what stands in the way", _bound_text("blocked", "nothing")),
    "start": Fact("Way of the start", "how the server is started", _start),
    "router": Fact("Its router", "how its router is told", _router),
}


def binding_of(
    asked: PlanInput,
    serving: Serving,
    manager: Manager | None,
    others: Held | Unknown,
    warnings: Sequence[Data],
    also: Sequence[Process],
    start: Start | None,
) -> dict[str, Any]:
    """The facts of a plan that an approval rests on. ``also``: who would be ended with the server."""
    return {
        "kind": asked.kind,
        "command": asked.new.command if asked.new else None,
        **({"outdated": True} if asked.newer else {}),
        "cards": [card.uuid for card in asked.cards],
        "manager": str(manager or ""),
        "beside": sorted([process.pid, process.start_time] for process in also),
        "boot": "" if isinstance(asked.facts.host, Unknown) else asked.facts.host.boot_id,
        "serves": sorted(_bound(serving, asked.facts)),
        "strangers": sorted([h.pid, h.start_time] for h in others.strangers) if isinstance(others, Held) else "unknown",
        "co_tenants": sorted([h.pid, h.start_time] for h in others.co_tenants) if isinstance(others, Held) else [],
        **({"secrets": sorted([name, version] for name, version in asked.secrets.items())} if asked.secrets else {}),
        **({"router": [hook.as_data for hook in asked.hooks]} if asked.hooks else {}),
        "blocked": sorted(warning["text"] for warning in warnings if warning["blocks"]),
        "start": start and start.as_data,
    }


def _bound(serving: Serving, facts: HostFacts) -> list[list[int]]:
    """The root, the card holders, and whoever belongs to the server without having come from it.

    Helpers of the tree come and go; but a process that only carries the launch's marker is one that a person has seen.
    """
    holding = set() if isinstance(facts.files, Unknown) else {holder.pid for holder in facts.files.holders}
    root = serving.root.pid if serving.root else 0
    tree = set() if isinstance(facts.processes, Unknown) else {p.pid for p in facts.processes.tree(root)}
    return [[p.pid, p.start_time] for p in serving.processes if p.pid == root or p.pid in holding or p.pid not in tree]


def hash_of(binding: Data) -> str:
    """The hash an approval is bound to."""
    return hashlib.sha256(json.dumps(binding, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _differing(old: Data, new: Data) -> list[Fact]:
    before, now = old.get("binding", {}), new.get("binding", {})
    return [fact for name, fact in BINDS.items() if before.get(name) != now.get(name)]


def what_changed(old: Data, new: Data) -> list[str]:
    """Which of the facts that bind differ between the data of two plans, in words."""
    return [fact.changed + (_who_differs(old, new, fact.rows) if fact.rows else "") for fact in _differing(old, new)]


def differences(old: Data, new: Data) -> list[list[str]]:
    """The same as rows: the fact, what it was in the old plan, what it is in the new one."""
    if not old.get("binding"):
        return []
    return [[fact.label, fact.shown(old, new), fact.shown(new, old)] for fact in _differing(old, new)]


def _who_differs(old: Data, new: Data, rows: str) -> str:
    """Who has come and who has gone between two plans."""
    before, now = ({(row["pid"], row["start"]): row for row in data.get(rows, ())} for data in (old, new))
    found = [f"{_named(row)} has come" for who, row in now.items() if who not in before]
    found += [f"{_named(row)} has gone" for who, row in before.items() if who not in now]
    return f" ({', '.join(found)})" if found else ""


def who_left(approved_hash: str, old: Data, new: Data) -> list[dict[str, Any]] | None:
    """Rows of the foreign holders of the approved plan that hold its cards no more; None when more than that differs.

    ``old``, ``new``: the data of two plans; secrets in the old one may be masked, so only the hash tells what was
    approved.
    """
    before, now = (data.get("binding", {}).get("strangers") for data in (old, new))
    if not isinstance(before, list) or not isinstance(now, list) or any(who not in before for who in now):
        return None
    if hash_of({**new["binding"], "strangers": before}) != approved_hash:
        return None
    return [row for row in old["untouched"] if [row["pid"], row["start"]] not in now]
