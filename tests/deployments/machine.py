"""A machine that exists only as what its probe would print: processes, cards, ports."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType

from hosts.probe.facts import HostFacts, read_facts
from hosts.probe.fake import Content
from hosts.probe.frames import Frame, Section

BOOT = "11111111-2222-3333-4444-555555555555"
OTHER_BOOT = "99999999-2222-3333-4444-555555555555"
SGLANG = "/opt/sglang/bin/python -m sglang.launch_server --model-path /models/qwen-27b --tp 2 --port 30000"
TOTAL = 49_140
LOOK = 500_000
"""When the probe looks, in clock ticks since boot: so young is its own shell."""
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@dataclass
class Proc:
    """A process. ``cards``: minor numbers it has open; ``pids``: as its own namespaces see it."""

    pid: int
    start: int
    comm: str = "python"
    command: str = "python"
    parent: int = 1
    group: int = 0
    """Its process group; 0: its own."""
    session: int = 0
    state: str = "S"
    threads: int = 1
    uid: int = 0
    user: str = ""
    """What this machine calls it; empty: it has no name."""
    cards: tuple[int, ...] = ()
    port: int | None = None
    marker: str = ""
    log: str = ""
    """The launch to whose log it writes."""
    memory: int = 0
    pids: tuple[int, ...] = ()


@dataclass
class Machine:
    """Cards by uuid with ``memory.used`` in MiB (text: what nvidia-smi prints instead)."""

    cards: dict[str, int | str] = field(default_factory=dict)
    procs: dict[int, Proc] = field(default_factory=dict)
    boot: str = BOOT
    free_mib: int = 50_000
    missing_paths: set[str] = field(default_factory=set)
    partial: bool = False
    login: int = 0
    """The user who looks."""
    by_sudo: bool = False
    """Sudo has made that root."""
    cgroups: dict[int, str] = field(default_factory=dict)
    known: tuple[str, ...] = ()
    """Cards of which the kernel tells, whether or not the driver lists them."""
    minors: tuple[int, ...] = ()
    """N of each card's /dev/nvidiaN; empty: as its index."""
    kernel: list[str] = field(default_factory=list)
    """Lines that the kernel has said since it booted 5000 s ago."""
    columns: dict[str, str] = field(default_factory=dict)
    """What nvidia-smi tells more of each card when it is asked whether the cards can be used."""
    missing_nodes: set[str] = field(default_factory=set)
    more_nodes: tuple[str, ...] = ()
    broken: dict[str, Content | None] = field(default_factory=dict)
    """Sections that come otherwise; None: not at all."""

    def add(self, *procs: Proc) -> Machine:
        self.procs |= {proc.pid: proc for proc in procs}
        return self

    def holds(self, pid: int) -> list[tuple[int, str]]:
        return [(n, uuid) for n, uuid in enumerate(self.cards) if self.minor(n) in self.procs[pid].cards]

    def minor(self, index: int) -> int:
        return self.minors[index] if self.minors else index

    def bus(self, index: int) -> str:
        """As the kernel writes it."""
        return f"0000:0{index}:00.0"

    def _nodes(self) -> list[str]:
        cards = [f"/dev/nvidia{self.minor(n)}" for n in range(len(self.known or self.cards))]
        return sorted({*cards, "/dev/nvidiactl", "/dev/nvidia-uvm", *self.more_nodes} - self.missing_nodes)

    def sections(self, paths: tuple[str, ...] = (), ports: tuple[int, ...] | None = None) -> dict[str, Content]:
        """Every section of the probe."""
        found: dict[str, Content] = {
            "host": self._host(),
            "gpus": self._gpus(),
            "memory": self._gpus(),
            "apps": self._apps(),
            "procs": "".join(self._stat(proc) for proc in self._all_procs()),
            "uids": "".join(
                f"dr-xr-xr-x 9 {proc.uid} {proc.uid} 0 Jan 1 00:00 /proc/{proc.pid}\n" for proc in self.procs.values()
            ),
            "users": "".join(
                f"dr-xr-xr-x 9 {proc.user or proc.uid} users 0 Jan 1 00:00 {proc.pid}\n" for proc in self.procs.values()
            ),
            "nspids": "".join(
                f"/proc/{proc.pid}/status:NSpid:\t{chr(9).join(map(str, proc.pids or (proc.pid,)))}\n"
                for proc in self.procs.values()
            ),
            "listeners": self._listeners(),
            **self._ports(ports or (30000,)),
            "minors": "".join(f"/dev/nvidia{self.minor(n)}\n" for n in range(len(self.cards)))
            + "".join(
                f"/proc/driver/nvidia/gpus/{self.bus(n)}/information:GPU UUID: \t {uuid}\n"
                f"/proc/driver/nvidia/gpus/{self.bus(n)}/information:Device Minor: \t {self.minor(n)}\n"
                for n, uuid in enumerate(self.known)
            ),
            "fds": self._files(),
            "kernel": "\n".join(["[    0.000000] Linux version 6.8.12 (builder@lab)", *self.kernel]) + "\n",
            "nodes": "".join(f"{name}\n" for name in ("driver", *self._nodes())),
            "markers": "\0".join(
                f"/proc/{proc.pid}/environ:RELAUNCH_LAUNCH_ID={proc.marker}"
                for proc in self.procs.values()
                if proc.marker
            ),
            **self._details(),
            **self._disk(paths),
        }
        found |= {name: content for name, content in self.broken.items() if content is not None}
        return {name: content for name, content in found.items() if self.broken.get(name, "") is not None}

    def facts(self, paths: tuple[str, ...] = ()) -> HostFacts:
        """What the panel makes of it."""
        sections = {}
        for name, content in self.sections(paths).items():
            text, status = content if isinstance(content, tuple) else (content, 0)
            sections[name] = Section(name, text.encode() if isinstance(text, str) else text, status)
        return read_facts(Frame(MappingProxyType(sections), complete=True), measured_at=NOW, paths=paths)

    def _host(self) -> str:
        uid = 0 if self.by_sudo else self.login
        return (
            f"boot_id {self.boot}\nhostname gpu-machine\nuptime 5000.00\npid_namespace pid:[4026531836]\n"
            f"sudo_uid {self.login if self.by_sudo else ''}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n"
        )

    def _all_procs(self) -> list[Proc]:
        """With init, and the probe itself."""
        return [Proc(1, 1, "init", parent=0), *self.procs.values(), Proc(4_000_000, LOOK, "sh")]

    def _gpus(self) -> str:
        lines = [
            ", ".join(
                [
                    *self.columns,
                    "index, uuid, pci.bus_id, memory.total [MiB], memory.used [MiB], memory.free [MiB], name",
                ]
            )
        ]
        lines += [
            ", ".join(
                [*self.columns.values(), f"{index}, {uuid}, 0000{self.bus(index)}, {TOTAL}, {used}, {_free(used)}"]
            )
            + ", NVIDIA L40S"
            for index, (uuid, used) in enumerate(self.cards.items())
        ]
        return "\n".join(lines) + "\n"

    def _apps(self) -> str:
        lines = ["pid, gpu_uuid, used_gpu_memory [MiB], process_name"]
        lines += [
            f"{pid}, {uuid}, {proc.memory}, {proc.comm}"
            for pid, proc in self.procs.items()
            for _, uuid in self.holds(pid)
        ]
        return "\n".join(lines) + "\n"

    def _stat(self, proc: Proc) -> str:
        cells = [
            proc.state,
            str(proc.parent),
            str(proc.group or proc.pid),
            str(proc.session or proc.pid),
            *["0"] * 13,
            str(proc.threads),
            "0",
        ]
        return f"/proc/{proc.pid}/stat:{proc.pid} ({proc.comm}) {' '.join(cells)} {proc.start} 0 0\n"

    def _inode(self, proc: Proc) -> int:
        return 700_000 + proc.pid

    def _listeners(self) -> str:
        lines = ["  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"]
        lines += [
            f"   0: 00000000:{proc.port:04X} 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 "
            f"{self._inode(proc)} 1 0 100 0 0 10 0"
            for proc in self.procs.values()
            if proc.port is not None
        ]
        return "\n".join(lines) + "\n"

    def _ports(self, ports: tuple[int, ...]) -> dict[str, Content]:
        """Only those on which nobody listens are tried."""
        heard = {proc.port for proc in self.procs.values()}
        return {f"port.{port}": "free\n" for port in ports if port not in heard}

    def _files(self) -> str:
        lines = ["/proc/1/fd:"]
        if self.partial:
            lines.append("ls: cannot open directory '/proc/9/fd': Permission denied")
        for proc in self.procs.values():
            lines += [f"/proc/{proc.pid}/fd:", f"dr-xr-xr-x 9 {proc.uid} {proc.uid} 0 Jan 1 00:00 .."]
            lines += [f"lrwx------ 1 root root 64 Jan 1 00:00 9 -> /dev/nvidia{minor}" for minor in proc.cards]
            if proc.log:
                lines.append(
                    f"l-wx------ 1 root root 64 Jan 1 00:00 1 -> /root/.relaunch/ab12/7/launches/{proc.log}/log"
                )
            if proc.port is not None:
                lines.append(f"lrwx------ 1 root root 64 Jan 1 00:00 3 -> socket:[{self._inode(proc)}]")
        return "\n".join(lines) + "\n"

    def _details(self) -> dict[str, Content]:
        facts = commands = ""
        for pid, proc in {1: Proc(1, 1, "init"), **self.procs}.items():
            chain = "\t".join(map(str, proc.pids or (pid,)))
            status, cgroup = f"/proc/{pid}/status", f"/proc/{pid}/cgroup"
            facts += f"{status}:NSpid:\t{chain}\n{cgroup}:0::{self.cgroups.get(pid, '/')}\n"
            commands += "".join(f"/proc/{pid}/cmdline:{word}\0" for word in proc.command.split())
        return {"pids": facts, "commands": commands}

    def _disk(self, paths: tuple[str, ...]) -> dict[str, Content]:
        there = "".join(f"{n} {'no' if path in self.missing_paths else 'yes'}\n" for n, path in enumerate(paths))
        head = "Filesystem 1024-blocks Used Available Capacity Mounted on\n"
        used = f"/dev/sda1 99999999 1 {self.free_mib * 1024} 1% /\n"
        return {"paths": there, **{f"disk.{n}": head + used for n in range(len(paths))}}


def _free(used: int | str) -> int | str:
    return TOTAL - used if isinstance(used, int) else used


CARDS = ("GPU-aaaa", "GPU-bbbb")


def idle_machine() -> Machine:
    """Two cards that nobody holds."""
    return Machine(cards=dict.fromkeys(CARDS, 4))


def serving_machine() -> Machine:
    """The same with a server on both cards: its root, two workers that hold them, a helper that does not."""
    return Machine(cards=dict.fromkeys(CARDS, 40_000)).add(
        Proc(100, 1000, command=SGLANG, port=30000),
        Proc(101, 1001, "sglang::schedul", "sglang::scheduler_TP0", parent=100, cards=(0,), memory=39_000),
        Proc(102, 1002, "sglang::schedul", "sglang::scheduler_TP1", parent=100, cards=(1,), memory=39_000),
        Proc(103, 1003, "sglang::detoken", "sglang::detokenizer", parent=100),
    )
