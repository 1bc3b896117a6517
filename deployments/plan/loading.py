"""A server that nobody here has started and that still loads: it holds the cards, and nothing listens yet. PURE.

It is known by its command line, which names the engine and the deployment's port, and by the cards that it or a process
below it has open.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from deployments.plan.cards import names_of_files
from deployments.plan.manager import PASSED_ON, SHELLS, ancestors
from deployments.plan.marks import launch_of
from deployments.plan.serving import Serving, alive
from hosts.probe.facts import HostFacts
from hosts.probe.frames import Unknown
from hosts.probe.processes import Process

Loads = Callable[[Sequence[str]], bool]
"""Is this the command of a server of the deployment's engine on its port?"""


def find_loading(
    facts: HostFacts, labels: Mapping[str, str], *, loads: Loads, others: Collection[str]
) -> Serving | None:
    """``labels``: uuid -> words, of the deployment's cards. ``others``: launches of other deployments, never it."""
    if isinstance(facts.processes, Unknown):
        return None
    logs = launch_of(facts, others)
    for chain in _chains(facts, labels):
        if any(logs.get(process.pid) in others for process in chain):
            continue
        found = [process for process in chain if _is_it(facts, process, loads)]
        if found:  # the outermost: its workers may have the same command
            tree = alive(facts.processes.tree(found[-1].pid))
            return Serving(found[-1], tree, "holds its cards, and nothing of it listens here")
    return None


def unasked(facts: HostFacts, labels: Mapping[str, str]) -> frozenset[int]:
    """The pids whose command lines are needed to find it, and were not told."""
    return frozenset(process.pid for chain in _chains(facts, labels) for process in chain) - facts.details.keys()


def _chains(facts: HostFacts, labels: Mapping[str, str]) -> Iterator[tuple[Process, ...]]:
    """Whoever has one of the cards open, each with its parent, grandparent and so on."""
    if isinstance(facts.files, Unknown) or isinstance(facts.processes, Unknown):
        return
    minors = names_of_files(facts, labels).keys()
    for holder in facts.files.holders:
        process = facts.processes.by_pid.get(holder.pid)
        if process is not None and not process.is_dead_zombie and holder.cards & minors:
            yield (process, *ancestors(facts.processes, process))


def _is_it(facts: HostFacts, process: Process, loads: Loads) -> bool:
    """A shell or another wrapper may have the same words in its own command."""
    detail = facts.details.get(process.pid)
    wraps = process.comm in SHELLS or process.comm in PASSED_ON
    return detail is not None and not wraps and loads(detail.argv)
