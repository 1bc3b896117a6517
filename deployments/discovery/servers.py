"""Which servers run on a machine, from its processes, ports and cards. PURE."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from deployments.discovery.found import HeldCard
from deployments.engines.base import Engine
from deployments.engines.registry import recognise
from deployments.plan.cards import MINORS, memory_on, names_of_files
from deployments.plan.manager import PASSED_ON, SHELLS, TERMINALS
from deployments.plan.marks import marks
from deployments.plan.serving import Serving, alive, find_serving
from hosts.probe.facts import HostFacts
from hosts.probe.frames import Unknown
from hosts.probe.processes import Process

STARTERS = frozenset({*PASSED_ON, *SHELLS, *TERMINALS, "docker", "podman", "nerdctl", "ssh", "systemd-run"})
"""Programs that have the server's command in their own."""


@dataclass(frozen=True)
class Candidate:
    """A server of ``engine`` on ``port``. ``listens``: or does it only hold cards, for all that can be seen?"""

    engine: Engine
    serving: Serving
    root: Process
    port: int
    listens: bool


def recognised(argvs: Mapping[int, Sequence[str]]) -> dict[int, Engine]:
    """The processes whose command is that of an engine's server, by pid."""
    found = {pid: recognise(" ".join(argv)) for pid, argv in argvs.items()}
    return {pid: engine for pid, engine in found.items() if engine is not None}


def candidates(
    facts: HostFacts,
    known: Mapping[int, Engine],
    argvs: Mapping[int, Sequence[str]],
    *,
    only_port: int | None = None,
) -> list[Candidate]:
    """Each server once: those that listen on the port of their command, then those that only hold a card.

    ``only_port``: who listens there, whatever the command says of it.
    """
    found: list[Candidate] = []
    wanted = {(only_port or engine.port(argvs[pid]), engine.key): engine for pid, engine in known.items()}
    for (port, _), engine in sorted(wanted.items(), key=lambda item: item[0]):
        serving = find_serving(facts, launch=None, port=port, is_ours=engine.recognises)
        if isinstance(serving, Serving) and serving.root is not None and serving.root.pid in known:
            found.append(Candidate(engine, serving, serving.root, port, listens=True))
    covered = {pid for candidate in found for pid in candidate.serving.pids}
    return found if only_port is not None else [*found, *_holding(facts, known, argvs, covered)]


def _holding(
    facts: HostFacts, known: Mapping[int, Engine], argvs: Mapping[int, Sequence[str]], covered: set[int]
) -> Iterable[Candidate]:
    """The outermost of each tree that holds a card, and of which nothing was found to listen here."""
    if isinstance(facts.processes, Unknown) or isinstance(facts.files, Unknown):
        return
    table = facts.processes
    holding = {holder.pid for holder in facts.files.holders if holder.cards}
    for pid in sorted(known, key=lambda pid: table.by_pid[pid].start_time if pid in table.by_pid else 0):
        process = table.by_pid.get(pid)
        if process is None or pid in covered or process.is_dead_zombie or _only_starts(process):
            continue
        tree = alive(table.tree(pid))
        pids = {each.pid for each in tree}
        if not pids & holding or pids & covered:
            continue
        covered |= pids
        engine = known[pid]
        yield Candidate(engine, Serving(process, tree, "holds cards"), process, engine.port(argvs[pid]), listens=False)


def _only_starts(process: Process) -> bool:
    return process.comm.partition(":")[0] in STARTERS


def cards_of(facts: HostFacts, serving: Serving) -> tuple[HeldCard, ...]:
    """The cards that its processes hold, in the order of their numbers: by the driver's list, else by their files.

    A process that was not told which cards to use opens the files of all, so the driver's list counts first.
    """
    if isinstance(facts.gpus, Unknown):
        return ()
    labels = {gpu.uuid: f"GPU {gpu.index}" for gpu in facts.gpus.gpus}
    used = {uuid: memory_on(facts, serving.pids, uuid) for uuid in labels}
    listed = {uuid for uuid, mib in used.items() if mib is not None}
    held = listed or _by_files(facts, serving, labels)
    return tuple(HeldCard(uuid, label, used[uuid]) for uuid, label in labels.items() if uuid in held)


def _by_files(facts: HostFacts, serving: Serving, labels: Mapping[str, str]) -> set[str]:
    if isinstance(facts.files, Unknown):
        return set()
    minors = {m for holder in facts.files.holders if holder.pid in serving.pids for m in holder.cards if m in MINORS}
    return {uuid for uuid, label in labels.items() if minors & names_of_files(facts, {uuid: label}).keys()}


def launch_of(facts: HostFacts, serving: Serving) -> str:
    """The launch whose mark its root carries, of whichever panel; empty for none."""
    root = serving.root.pid if serving.root is not None else -1
    return next((mark.launch for mark in marks(facts) if mark.pid == root), "")


def started_at(facts: HostFacts, process: Process) -> str:
    """ISO time. The youngest process is the look's own; a machine's uptime is another in a container."""
    youngest = 0 if isinstance(facts.processes, Unknown) else max(p.start_time for p in facts.processes.by_pid.values())
    age = timedelta(seconds=max(0, youngest - process.start_time) / 100)
    return (facts.measured_at - age).isoformat()


def inner_pid(facts: HostFacts, process: Process) -> int:
    """Its number in its own process namespace, where it is in a container of this machine; else 0."""
    detail = facts.details.get(process.pid)
    return detail.pids[-1] if detail is not None and len(detail.pids) > 1 else 0
