"""Which processes carry the mark of one of our launches: its log as their output, or its id in their environment. PURE.

Anybody can put our variable into an environment, and make a file whose path looks like that of a launch's log. What the
panel has launched runs as its login, and a stranger does not become that; nor root, whose word we cannot doubt; nor the
user of the server's own recorded process, if that is another. So a mark counts for a process of these users only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hosts.probe.facts import HostFacts
from hosts.probe.frames import Unknown

ROOT = 0


@dataclass(frozen=True)
class Mark:
    """Process ``pid`` says that it is of ``launch``. ``counts``: is it to be believed? None: its user is not known."""

    pid: int
    launch: str
    counts: bool | None


def marks(facts: HostFacts, *, server: int | None = None) -> Iterator[Mark]:
    """By environment and by log, of processes that are in the table. ``server``: the user of the recorded server."""
    for pid, launch in _by_environment(facts):
        yield Mark(pid, launch, _counts(facts, pid, server))
    yield from _logs(facts, server)


def launch_of(facts: HostFacts, launches: Collection[str]) -> dict[int, str]:
    """pid -> the launch to whose log it writes, as far as that is to be believed, or under which it was adopted.

    ``launches``: those that are known, an adopted one by its ``identity``.
    """
    logs = {mark.pid: mark.launch for mark in _logs(facts, None) if mark.counts}
    return _adopted(facts, launches) | logs


def identity(boot_id: str, pid: int | None, start_time: int | None) -> str:
    """A server that was adopted has neither our variable nor our log: this stands for its launch."""
    return f"{boot_id} {pid} {start_time}"


def _adopted(facts: HostFacts, launches: Collection[str]) -> dict[int, str]:
    """Those of this machine, and of its containers by their numbers there."""
    if isinstance(facts.host, Unknown) or isinstance(facts.processes, Unknown):
        return {}
    wanted = [(words[0], words[1], words[2], known) for known in launches if len(words := known.split(" ")) == 3]
    if not wanted:
        return {}
    table, boot = facts.processes.by_pid, facts.host.boot_id
    here = {(boot, str(pid), str(process.start_time)): pid for pid, process in table.items()}
    inside = {
        (str(chain[1]), str(table[pid].start_time)): pid
        for pid, chain in _chains(facts).items()
        if len(chain) > 1 and pid in table
    }
    found = {here.get((of, pid, start), inside.get((pid, start))): known for of, pid, start, known in wanted}
    return {pid: known for pid, known in found.items() if pid is not None}


def _chains(facts: HostFacts) -> Mapping[int, Sequence[int]]:
    """pid here -> all its pids, this one first."""
    if not isinstance(facts.nspids, Unknown):
        return facts.nspids
    return {pid: detail.pids for pid, detail in facts.details.items()}


def undecided(facts: HostFacts, launches: Collection[str], *, server: int | None = None) -> Unknown | None:
    """Why it is not known who belongs to these launches; None when it is."""
    for mark in marks(facts, server=server):
        if mark.counts is None and mark.launch in launches:
            return Unknown(
                f"Process {mark.pid} carries the mark of this deployment, but the host did not say whose process it is."
            )
    return None


def _by_environment(facts: HostFacts) -> Iterator[tuple[int, str]]:
    if not isinstance(facts.markers, Unknown):
        yield from facts.markers.items()


def _logs(facts: HostFacts, server: int | None) -> Iterator[Mark]:
    if not isinstance(facts.files, Unknown):
        for pid, launch in facts.files.launches:
            yield Mark(pid, launch, _counts(facts, pid, server))


def _counts(facts: HostFacts, pid: int, server: int | None) -> bool | None:
    if isinstance(facts.host, Unknown) or isinstance(facts.processes, Unknown) or pid not in facts.processes.by_pid:
        return False
    uid = facts.processes.by_pid[pid].uid
    if uid is None:
        # The kernel shows a plain login the environments and files of its own processes only.
        return True if facts.host.uid != ROOT else None
    return uid in {ROOT, facts.host.login_uid, server} or _is_root_inside(facts, pid, uid)


def _is_root_inside(facts: HostFacts, pid: int, uid: int) -> bool:
    """In a container, as its node sees it: root there has another number here, which is that of its first process."""
    if isinstance(facts.nspids, Unknown) or isinstance(facts.processes, Unknown):
        return False
    table = facts.processes.by_pid
    if len(facts.nspids.get(pid, ())) < 2:
        return False
    firsts = [first for first, chain in facts.nspids.items() if len(chain) > 1 and chain[1] == 1 and first in table]
    return uid in {table[first].uid for first in firsts}
