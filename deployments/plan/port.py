"""The port in one look: who has it, and whether a server could. PURE."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from deployments.decisions.port import Having, PortHolder, PortVerdict, judge
from deployments.plan.cards import NO_LAUNCHES
from deployments.plan.marks import launch_of
from deployments.plan.words import command_of, user_of
from hosts.probe.facts import HostFacts
from hosts.probe.frames import Unknown
from hosts.probe.listeners import Listener
from hosts.probe.port import PortSocket

HAVING = {having.value: having for having in Having}
DOCKER_PROXY = "docker-proxy"
"""Listens for a container, on a port that the container publishes."""
NOT_TRIED = Unknown("the host did not say whether it can be had.")


def port_verdict(facts: HostFacts, port: int, *, launches: Mapping[str, str] = NO_LAUNCHES) -> PortVerdict:
    """Free, not free, or not measured, in the network namespace that was looked at: the one a server would start in.

    ``launches``: launch -> deployment, of the servers that the panel has started for others.
    """
    listeners = facts.listeners
    trial = facts.ports.get(port, NOT_TRIED)
    listening = listeners if isinstance(listeners, Unknown) else _holders(facts, listeners.on_port(port), launches)
    found = () if isinstance(trial, Unknown) else tuple(one for one in trial.sockets if one.inode)
    return judge(port, listening, trial, _holders(facts, found, launches))


def passed_on_by(facts: HostFacts, port: int) -> int | None:
    """The pid of docker's own process that listens on ``port`` for a container; None where it is nobody's such."""
    if isinstance(facts.listeners, Unknown) or isinstance(facts.processes, Unknown) or isinstance(facts.files, Unknown):
        return None
    pids = [pid for listener in facts.listeners.on_port(port) for pid in facts.files.owners_of(listener.inode)]
    table = facts.processes.by_pid
    return next((pid for pid in pids if pid in table and table[pid].comm == DOCKER_PROXY), None)


def _holders(
    facts: HostFacts, sockets: Iterable[Listener | PortSocket], launches: Mapping[str, str]
) -> list[PortHolder]:
    return [holder for socket in sockets for holder in _of_socket(facts, socket, launches)]


def _of_socket(facts: HostFacts, socket: Listener | PortSocket, launches: Mapping[str, str]) -> Iterator[PortHolder]:
    """The processes that have it open: one a socket, the eldest, for its children have inherited it."""
    having = HAVING.get(socket.state, Having.CONNECTION) if isinstance(socket, PortSocket) else Having.LISTENS
    user = user_of(socket.uid)
    if isinstance(facts.files, Unknown) or isinstance(facts.processes, Unknown):
        yield PortHolder(having, socket.address, None, "", user)
        return
    table = facts.processes.by_pid
    owners = sorted((table[pid] for pid in facts.files.owners_of(socket.inode) if pid in table), key=lambda p: p.pid)
    if not owners:
        yield PortHolder(having, socket.address, None, "", user)
        return
    first = min(owners, key=lambda process: (process.start_time, process.pid))
    name = command_of(first, facts.details.get(first.pid))
    launch = launch_of(facts, launches).get(first.pid, "")
    yield PortHolder(having, socket.address, first.pid, name, user, launches.get(launch, ""))
