"""Between jobs: who else serves on a deployment's port, or holds its cards. PURE.

A loop that nobody knows may start the old server again long after its stop. It is told on the deployment's page; nobody
is signalled for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deployments.decisions.verify import HolderSeen
from deployments.plan.cards import NO_SHARING, Held, holders
from deployments.plan.marks import launch_of, marks
from deployments.plan.port import passed_on_by
from deployments.plan.serving import port_owners
from deployments.plan.sharing import Rules
from deployments.plan.words import command_of, user_of
from hosts.probe.facts import HostFacts
from hosts.probe.frames import Unknown
from hosts.probe.processes import Process


@dataclass(frozen=True)
class Ours:
    """A deployment as its host sees it. ``labels``: uuid -> words, of its cards; ``pid``: of a launch that lives."""

    port: int
    labels: Mapping[str, str]
    launch: str = ""
    pid: int | None = None
    rules: Rules = NO_SHARING


@dataclass(frozen=True)
class Intruders:
    """A sentence each; empty where nobody was seen, also where this login may not see who it is."""

    port: str = ""
    cards: str = ""


NOBODY = Intruders()


def intruders(facts: HostFacts, ours: Ours, *, others: Mapping[str, str]) -> Intruders:
    """``others``: launch -> deployment, of the servers that the panel has started for others."""
    if isinstance(facts.processes, Unknown):
        return NOBODY
    own = _own(facts, ours)
    pids = {process.pid for process in own}
    return Intruders(_on_port(facts, ours, pids, others), _on_cards(facts, ours, own, others))


def _own(facts: HostFacts, ours: Ours) -> set[Process]:
    if ours.pid is None or isinstance(facts.processes, Unknown):
        return set()
    roots = [ours.pid, *(mark.pid for mark in marks(facts) if mark.counts and mark.launch == ours.launch)]
    return {process for pid in roots for process in facts.processes.tree(pid)}


def _on_port(facts: HostFacts, ours: Ours, own: set[int], others: Mapping[str, str]) -> str:
    owners = port_owners(facts, ours.port)
    if isinstance(owners, Unknown) or isinstance(facts.processes, Unknown) or owners & own:
        return ""
    found = [facts.processes.by_pid[pid] for pid in sorted(owners) if pid in facts.processes.by_pid]
    if not found or passed_on_by(facts, ours.port) is not None:  # the container may be ours
        return ""
    first = min(found, key=lambda process: (process.start_time, process.pid))
    name, user = command_of(first, facts.details.get(first.pid)), user_of(first.uid)
    deployment = others.get(launch_of(facts, others).get(first.pid, ""), "")
    who = HolderSeen(first.pid, first.start_time, name, user, (), deployment)
    return f"Another server serves on its port {ours.port}: {who}."


def _on_cards(facts: HostFacts, ours: Ours, own: set[Process], others: Mapping[str, str]) -> str:
    alive = {(process.pid, process.start_time) for process in own}
    held = holders(facts, labels=ours.labels, ours=alive, rules=ours.rules, launches=others)
    if not isinstance(held, Held) or not held.strangers:
        return ""
    names = [f"{holder} holds {', '.join(holder.cards)}" for holder in held.strangers]
    return f"Somebody else is on its cards: {'; '.join(names)}."
