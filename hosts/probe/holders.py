"""Who has a card's device file, or a port's socket, open. PURE."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from hosts.probe.frames import Section, Unknown

HOUSEKEEPERS = frozenset({"nvidia-persistenced", "nvidia-persiste", "nvidia-smi", "nv-hostengine", "nv-fabricmanage"})
"""Watch the cards without using their memory. As the kernel cuts names, at fifteen letters."""
DAEMONS = {
    "nvidia-persistenced": "keeps the driver loaded",
    "nvidia-persiste": "keeps the driver loaded",
    "nv-hostengine": "DCGM, which reads the cards",
    "nv-fabricmanage": "the fabric manager",
    "Xorg": "the screen",
    "nvidia-cuda-mps": "MPS, which shares a card between programs",
}
"""Belong to the machine: they stay, and nobody is asked about them; what memory they use counts."""

HEADER = re.compile(r"^/proc/(\d+)(?:/task/(\d+))?/fd:$", re.ASCII)
DEVICE = re.compile(r" -> (/dev/nvidia\S*)", re.ASCII)
SOCKET = re.compile(r" -> socket:\[(\d+)\]$", re.ASCII)
LAUNCH_LOG = re.compile(r" [12] -> /\S*/\.relaunch/[0-9a-f]+/\d+/launches/([0-9a-f-]{36})/log$", re.ASCII)
OWNER = re.compile(r"^d\S+\s+\d+\s+(\d{1,10})\s.*\s\.\.$", re.ASCII)
"""The directory above that of a process's files: the process itself."""
CARD = re.compile(r"/dev/nvidia(\d{1,3})", re.ASCII)


@dataclass(frozen=True)
class Holder:
    """A process with device files open. `cards` are the minor numbers of /dev/nvidiaN."""

    pid: int
    devices: frozenset[str]

    @property
    def cards(self) -> frozenset[int]:
        return frozenset(int(found.group(1)) for device in self.devices if (found := CARD.fullmatch(device)))


@dataclass(frozen=True)
class OpenFiles:
    """`partial`: some processes' files are closed to this user, so an empty list proves nothing."""

    holders: tuple[Holder, ...]
    socket_owners: tuple[tuple[int, int], ...]
    partial: bool
    launches: tuple[tuple[int, str], ...] = ()
    """(pid, launch): processes whose output goes to the log of one of our launches. Unlike an environment, which
    a process that changes its title overwrites, that stays true. But anybody can make a file of that name: whose word
    counts is for ``deployments/plan/marks.py`` to say."""
    owners: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    """pid -> its user, of every process whose files could be listed."""
    apart: tuple[Holder, ...] = ()
    """What of ``holders`` is in a thread's own list of files only: a look that does not ask for threads misses it."""

    def owners_of(self, inode: int) -> tuple[int, ...]:
        """The pids that have this socket open."""
        return tuple(pid for found, pid in self.socket_owners if found == inode)


def parse_open_files(section: Section) -> OpenFiles | Unknown:
    """From `ls -l` over /proc/*/fd, and over the threads of processes whose first thread has ended.

    Unknown when not one process was listed: the asker itself always is, so then the walk did not take place.
    """
    devices: dict[int, set[str]] = {}
    sockets: list[tuple[int, int]] = []
    launches: list[tuple[int, str]] = []
    owners: dict[int, int] = {}
    listed: set[int] = set()
    partial = False
    here: int | None = None
    is_thread = False
    shared: set[tuple[int, str]] = set()
    for line in section.text.split("\n"):
        if header := HEADER.match(line):
            here = int(header.group(1))
            is_thread = header.group(2) is not None
            listed.add(here)
        elif here is not None and (owner := OWNER.match(line)):
            owners.setdefault(here, int(owner.group(1)))
        elif line.startswith("ls:"):
            partial = partial or "ermission denied" in line
        elif here is not None and (device := DEVICE.search(line)):
            devices.setdefault(here, set()).add(device.group(1))
            shared |= set() if is_thread else {(here, device.group(1))}
        elif here is not None and (socket := SOCKET.search(line)):
            sockets.append((int(socket.group(1)), here))
        elif here is not None and (log := LAUNCH_LOG.search(line)):
            launches.append((here, log.group(1)))
    if here is None:
        return Unknown("The host did not list which files its processes have open.")
    # Process 1 is always there. Where /proc hides other users' processes (hidepid), nobody refuses: it is missing.
    partial = partial or 1 not in listed
    holders = tuple(Holder(pid, frozenset(names)) for pid, names in sorted(devices.items()))
    alone = {pid: frozenset(name for name in names if (pid, name) not in shared) for pid, names in devices.items()}
    apart = tuple(Holder(pid, names) for pid, names in sorted(alone.items()) if names)
    found = (holders, tuple(dict.fromkeys(sockets)), partial, tuple(dict.fromkeys(launches)))
    return OpenFiles(*found, owners=owners, apart=apart)
