"""Processes as /proc shows them. PURE.

A pid alone is never a process: it is one only together with the boot and the start time, on the host that was asked.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from hosts.probe.frames import Section, Unknown

CLOCK_TICKS = 100
"""Of start times, a second: what the kernel tells programs, whatever its own clock, wherever CUDA runs."""
BOOT_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
UID_LINE = re.compile(r"^d\S+\s+\d+\s+(\d+)\s+.*?/proc/(\d+)$", re.ASCII | re.M)
STAT_LINE = re.compile(r"^/proc/(\d+)/stat:(.*)$", re.ASCII | re.M)
NSPID_LINE = re.compile(r"^/proc/(\d+)/status:NSpid:\s+([\d\s]+)$", re.ASCII | re.M)
OWNER_LINE = re.compile(r"^d\S+\s+\d+\s+(\S+)\s.*\s(\d+)$", re.ASCII | re.M)
CGROUP_LINES = (r"^0::(/.+)$", r"^\d+:name=systemd:(/.*)$", r"^0::(/)$", r"^\d+:[^:\n]*:(/.*)$")
FACT_LINE = re.compile(r"^/proc/(\d+)/(?:status|cgroup|limits):(.*)$", re.ASCII | re.M)
LIMIT_LINE = re.compile(r"^(Max [a-z ]+?)  +(\d+|unlimited) +(\d+|unlimited)(?: |$)", re.ASCII | re.M)
OWN_LIMIT = re.compile(r"^/proc/self/limits:(.*)$", re.ASCII | re.M)
ARGUMENT = re.compile(rb"\n?/proc/(\d+)/cmdline:(.*)\Z", re.S)
# From the beginning of the record: what the value itself holds may look like another process's record.
GROUP_LINE = re.compile(r"^/proc/(\d+)/status:Tgid:\s+(\d+)$", re.ASCII | re.M)
MARKER = re.compile(rb"(?:grep: [^\n]*\n|\n)*/proc/(\d+)/environ:RELAUNCH_LAUNCH_ID=([\x21-\x7e]{1,128})\Z")


@dataclass(frozen=True)
class HostIdentity:
    """Which machine (or container) answered, since which boot, and as whom we asked."""

    boot_id: str
    hostname: str
    uptime_seconds: float
    pid_namespace: str
    uid: int
    login_uid: int = 0
    """As whom the panel logs in, which is another than ``uid`` where sudo has made the probe root."""


@dataclass(frozen=True)
class Process:
    """One line of the process table. `start_time` in clock ticks since boot."""

    pid: int
    comm: str
    state: str
    parent: int
    group: int
    session: int
    threads: int
    start_time: int
    uid: int | None = None

    @property
    def is_dead_zombie(self) -> bool:
        """Ended, and only waits for its parent to notice; holds nothing."""
        return self.state in "ZX" and self.threads <= 1


@dataclass(frozen=True)
class Limit:
    """One row of /proc/PID/limits: numbers, or `unlimited`."""

    soft: str
    hard: str

    def __str__(self) -> str:
        return self.soft if self.soft == self.hard else f"{self.soft} (at most {self.hard})"

    def is_above(self, other: "Limit") -> bool:
        """Does its soft limit need more than the other's hard one allows?"""
        if other.hard == "unlimited":
            return False
        return self.soft == "unlimited" or int(self.soft) > int(other.hard)


@dataclass(frozen=True)
class ProcessDetail:
    """What is known of one process of interest. `pids` from the outermost namespace to its own."""

    pid: int
    argv: tuple[str, ...]
    pids: tuple[int, ...]
    cgroup: str
    gid: int | None = None
    processors: str = ""
    """Those it may use, as the kernel lists them: `0-15,32`."""
    limits: Mapping[str, Limit] = field(default_factory=lambda: MappingProxyType({}))
    """By the kernel's name of them: `Max open files`, `Max locked memory` (bytes)."""

    @property
    def command(self) -> str:
        return " ".join(self.argv)


@dataclass(frozen=True)
class ProcessTable:
    """All processes that the asker can see."""

    by_pid: Mapping[int, Process] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def hides_others(self) -> bool:
        """Other users' processes are not shown to the asker (``hidepid``): not even the first one."""
        return 1 not in self.by_pid

    def tree(self, pid: int) -> tuple[Process, ...]:
        """The process and all its descendants, parents first; empty when it is gone."""
        children: dict[int, list[Process]] = {}
        for process in self.by_pid.values():
            children.setdefault(process.parent, []).append(process)
        found: dict[int, Process] = {}
        todo = [self.by_pid[pid]] if pid in self.by_pid else []
        while todo:
            process = todo.pop(0)
            if process.pid not in found:
                found[process.pid] = process
                todo += children.get(process.pid, [])
        return tuple(found.values())


def parse_host(section: Section) -> HostIdentity | Unknown:
    """Who answered. Unknown without a boot id, a pid namespace and an uptime, for identities hang on them."""
    words = dict(line.split(" ", 1) for line in section.text.splitlines() if " " in line)
    uid = re.search(r"^Uid:\s+\d+\s+(\d{1,10})", section.text, re.ASCII | re.M)
    namespace = words.get("pid_namespace", "")
    up = re.fullmatch(r"\d{1,12}(?:\.\d{1,6})?", words.get("uptime", ""), re.ASCII)
    if not BOOT_ID.fullmatch(words.get("boot_id", "")) or not namespace or not up or uid is None:
        return Unknown("The host did not say which boot it is in.")
    return HostIdentity(
        boot_id=words["boot_id"],
        hostname=words.get("hostname", ""),
        uptime_seconds=float(up.group()),
        pid_namespace=namespace,
        uid=int(uid.group(1)),
        login_uid=_login_uid(int(uid.group(1)), words.get("sudo_uid", "")),
    )


def _login_uid(uid: int, sudo_uid: str) -> int:
    return int(sudo_uid) if uid == 0 and re.fullmatch(r"\d{1,10}", sudo_uid, re.ASCII) else uid


def parse_stat(text: str) -> Process | None:
    """One /proc/PID/stat, read from its last parenthesis: a name may hold any, and line breaks; None when garbled."""
    head, closing, tail = text.rpartition(") ")
    number, opening, comm = head.partition(" (")
    cells = tail.split()
    if not closing or not opening or len(cells) < 20:
        return None
    wanted = [number, cells[1], cells[2], cells[3], cells[17], cells[19]]
    if not all(re.fullmatch(r"-?[0-9]{1,20}", cell) for cell in wanted) or len(cells[0]) != 1:
        return None
    pid, parent, group, session, threads, start = map(int, wanted)
    comm = "".join(letter if letter.isprintable() else "?" for letter in comm)
    return Process(pid, comm, cells[0], parent, group, session, threads, start)


def parse_processes(
    section: Section, uids: Section | None = None, owners: Mapping[int, int] = MappingProxyType({})
) -> ProcessTable | Unknown:
    """The process table. Unknown when not one line is whole: there is always at least the asker itself.

    ``owners``: pid -> user, as another section tells it, which counts where ``uids`` does not tell.
    """
    owners = {**owners, **(parse_uids(uids) if uids is not None else {})}
    texts: dict[str, list[str]] = {}
    for pid, line in STAT_LINE.findall(section.text):
        texts.setdefault(pid, []).append(line)
    table: dict[int, Process] = {}
    for pid, lines in texts.items():
        process = parse_stat("\n".join(lines))
        if process is None or process.pid != int(pid):
            continue
        whole = {**process.__dict__, "uid": owners.get(process.pid)}
        table[process.pid] = Process(**whole)
    if not table:
        return Unknown("The host did not list its processes.")
    return ProcessTable(MappingProxyType(table))


def parse_uids(section: Section) -> dict[int, int]:
    """pid -> owner."""
    return {int(pid): int(uid) for uid, pid in UID_LINE.findall(section.text)}


def parse_owners(section: Section) -> dict[int, str]:
    """pid -> the name of its owner; left out where the machine has no name for the number."""
    return {int(pid): name for name, pid in OWNER_LINE.findall(section.text) if not name.isdigit()}


def parse_nspids(section: Section) -> dict[int, tuple[int, ...]]:
    """pid here -> all its pids, from this namespace to the innermost one."""
    return {int(pid): tuple(map(int, chain.split())) for pid, chain in NSPID_LINE.findall(section.text)}


def parse_groups(section: Section) -> dict[int, int]:
    """Thread or process -> its process."""
    return {int(thread): int(process) for thread, process in GROUP_LINE.findall(section.text)}


def parse_markers(section: Section) -> dict[int, str] | Unknown:
    """pid -> the launch it was started for, for every process whose environment we may read."""
    text = section.content
    if section.status == 127 or re.search(rb"(?:unrecognized|invalid) option", text):
        return Unknown("The host's grep cannot search environments.")
    found: dict[int, str] = {}
    for piece in text.split(b"\0"):
        match = MARKER.match(piece)
        if match:
            found[int(match.group(1))] = match.group(2).decode()
    return found


def parse_details(facts: Section, commands: Section | None) -> dict[int, ProcessDetail]:
    """pid -> command line, namespaces and cgroup, of each process asked for that had not gone."""
    lines: dict[int, list[str]] = {}
    for pid, line in FACT_LINE.findall(facts.text):
        lines.setdefault(int(pid), []).append(line)
    argvs = parse_commands(commands) if commands is not None else {}
    return {pid: _detail(pid, "\n".join(found), argvs.get(pid, ())) for pid, found in lines.items()}


def parse_own_limits(facts: Section) -> dict[str, Limit]:
    """Those of the login that asks."""
    return _limits("\n".join(OWN_LIMIT.findall(facts.text)))


def _limits(text: str) -> dict[str, Limit]:
    return {name: Limit(soft, hard) for name, soft, hard in LIMIT_LINE.findall(text)}


def parse_commands(commands: Section) -> dict[int, tuple[str, ...]]:
    """Arguments, each after the name of its file: what the arguments themselves hold does not matter."""
    found: dict[int, list[str]] = {}
    for piece in commands.content.split(b"\0"):
        match = ARGUMENT.match(piece)
        if match:
            found.setdefault(int(match.group(1)), []).append(match.group(2).decode(errors="replace"))
    return {pid: tuple(_without_padding(argv)) for pid, argv in found.items()}


def _without_padding(argv: list[str]) -> list[str]:
    """A process that has named itself leaves the rest of its arguments empty."""
    while argv and not argv[-1].rstrip("\n"):
        argv = argv[:-1]
    return argv


def _detail(pid: int, text: str, argv: tuple[str, ...]) -> ProcessDetail:
    chain = re.search(r"^NSpid:\s+([\d\s]+?)$", text, re.M | re.ASCII)
    group = re.search(r"^Gid:\s+\d+\s+(\d{1,10})", text, re.M | re.ASCII)
    processors = re.search(r"^Cpus_allowed_list:\s+([\d,-]{1,1000})$", text, re.M | re.ASCII)
    # Version 2, unless that is only mounted beside version 1, where systemd keeps a hierarchy of its own.
    cgroup = next(filter(None, (re.search(shape, text, re.M) for shape in CGROUP_LINES)), None)
    return ProcessDetail(
        pid=pid,
        argv=argv,
        pids=tuple(map(int, chain.group(1).split())) if chain else (pid,),
        cgroup=cgroup.group(1) if cgroup else "",
        gid=int(group.group(1)) if group else None,
        processors=processors.group(1) if processors else "",
        limits=MappingProxyType(_limits(text)),
    )
