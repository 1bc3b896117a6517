"""One look at a machine, as values. PURE."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import TypeVar

from hosts.probe.frames import NOT_ASKED, Frame, Section, Unknown
from hosts.probe.gpus import AppList, GpuList, parse_apps, parse_gpus
from hosts.probe.health import DeviceNodes, KernelLog, parse_kernel_log, parse_nodes
from hosts.probe.holders import OpenFiles, parse_open_files
from hosts.probe.listeners import Listeners, parse_listeners
from hosts.probe.minors import DeviceFiles, parse_minors
from hosts.probe.port import PortTrial, parse_trial
from hosts.probe.processes import (
    HostIdentity,
    Limit,
    ProcessDetail,
    ProcessTable,
    parse_details,
    parse_groups,
    parse_host,
    parse_markers,
    parse_nspids,
    parse_own_limits,
    parse_owners,
    parse_processes,
)

T = TypeVar("T")
AGAIN = ("memory2", "memory3")
"""The memory read again at the end of the same look."""
PORT = re.compile(r"port\.(\d{1,5})", re.ASCII)
DF_LINE = re.compile(r"^(.*\S)\s+(\d+)\s+(\d+)\s+(\d+)\s+\d+%\s+(/.*)$", re.M | re.ASCII)


@dataclass(frozen=True)
class DiskSpace:
    """Of the file system that holds a path, in MiB."""

    total: int
    free: int
    mount: str


@dataclass(frozen=True)
class HostFacts:
    """Each part is a value or an Unknown with its reason. `measured_at` is our clock when we asked."""

    measured_at: datetime
    host: HostIdentity | Unknown = NOT_ASKED
    gpus: GpuList | Unknown = NOT_ASKED
    apps: AppList | Unknown = NOT_ASKED
    devices: tuple[str, ...] | Unknown = NOT_ASKED
    processes: ProcessTable | Unknown = NOT_ASKED
    nspids: Mapping[int, tuple[int, ...]] | Unknown = NOT_ASKED
    markers: Mapping[int, str] | Unknown = NOT_ASKED
    listeners: Listeners | Unknown = NOT_ASKED
    ports: Mapping[int, PortTrial | Unknown] = field(default_factory=lambda: MappingProxyType({}))
    """Of the ports that were asked about, those that were tried: nobody listens on them."""
    files: OpenFiles | Unknown = NOT_ASKED
    device_files: DeviceFiles = field(default_factory=DeviceFiles)
    kernel: KernelLog | Unknown = NOT_ASKED
    nodes: DeviceNodes | Unknown = NOT_ASKED
    paths: Mapping[str, bool] | Unknown = NOT_ASKED
    closed: frozenset[str] = frozenset()
    """Of the paths that are there, those that the login may not read."""
    again: tuple[GpuList | Unknown, ...] = ()
    """Later readings of the same look, as far as there are any."""
    details: Mapping[int, ProcessDetail] = field(default_factory=lambda: MappingProxyType({}))
    owners: Mapping[int, str] = field(default_factory=lambda: MappingProxyType({}))
    """pid -> its user's name, as this machine calls it; of the processes that are told in detail."""
    login_limits: Mapping[str, Limit] = field(default_factory=lambda: MappingProxyType({}))
    """Those that the login itself has, by the kernel's name of them."""
    disks: Mapping[str, DiskSpace | Unknown] = field(default_factory=lambda: MappingProxyType({}))


def read_facts(frame: Frame, *, measured_at: datetime, paths: tuple[str, ...] = ()) -> HostFacts:
    """Everything that a frame says. Never raises, whatever the host printed."""
    sections = frame.sections

    def read(name: str, parse: Callable[[Section], T]) -> T | Unknown:
        section = frame.get(name)
        return section if isinstance(section, Unknown) else parse(section)

    files = read("fds", parse_open_files)
    owners = {} if isinstance(files, Unknown) else files.owners
    gpu_section = "gpus" if "gpus" in sections else "memory"
    return HostFacts(
        measured_at=measured_at,
        host=read("host", parse_host),
        gpus=read(gpu_section, lambda _: parse_gpus(sections, name=gpu_section)),
        again=tuple(parse_gpus(sections, name=name) for name in AGAIN if name in sections),
        apps=read("apps", lambda section: _of_processes(parse_apps(section), sections.get("groups"))),
        devices=read("devices", lambda section: tuple(section.text.split())),
        processes=read("procs", lambda section: parse_processes(section, sections.get("uids"), owners)),
        nspids=read("nspids", parse_nspids),
        markers=read("markers", parse_markers),
        listeners=read("listeners", parse_listeners),
        ports=_ports(sections),
        files=files,
        device_files=parse_minors(sections["minors"]) if "minors" in sections else DeviceFiles(),
        kernel=read("kernel", parse_kernel_log),
        nodes=read("nodes", parse_nodes),
        paths=read("paths", lambda section: _paths(section, paths)),
        closed=_closed(sections["paths"], paths) if "paths" in sections else frozenset(),
        details=MappingProxyType(
            parse_details(sections["pids"], sections.get("commands")) if "pids" in sections else {}
        ),
        owners=MappingProxyType(parse_owners(sections["users"]) if "users" in sections else {}),
        login_limits=MappingProxyType(parse_own_limits(sections["pids"]) if "pids" in sections else {}),
        disks=MappingProxyType({path: _disk(frame.get(f"disk.{n}"), path) for n, path in enumerate(paths)}),
    )


def _of_processes(apps: AppList | Unknown, groups: Section | None) -> AppList | Unknown:
    """Some drivers name the thread that opened the card instead of its process."""
    if isinstance(apps, Unknown) or groups is None:
        return apps
    of = parse_groups(groups)
    return replace(apps, apps=tuple(replace(app, pid=of.get(app.pid, app.pid)) for app in apps.apps))


def _ports(sections: Mapping[str, Section]) -> Mapping[int, PortTrial | Unknown]:
    tried = ((PORT.fullmatch(name), section) for name, section in sections.items())
    return MappingProxyType({int(name[1]): parse_trial(section) for name, section in tried if name is not None})


def _paths(section: Section, paths: tuple[str, ...]) -> Mapping[str, bool] | Unknown:
    answers = section.text.split("\n")
    found = {
        path: f"{n} no" not in answers
        for n, path in enumerate(paths)
        if {f"{n} {word}" for word in ("yes", "no", "closed")} & {*answers}
    }
    if len(found) < len(dict.fromkeys(paths)):
        return Unknown("The host did not say which paths exist.")
    return MappingProxyType(found)


def _closed(section: Section, paths: tuple[str, ...]) -> frozenset[str]:
    answers = {*section.text.split("\n")}
    return frozenset(path for n, path in enumerate(paths) if f"{n} closed" in answers)


def _disk(section: Section | Unknown, path: str) -> DiskSpace | Unknown:
    if isinstance(section, Unknown):
        return section
    lines = DF_LINE.findall(section.text)
    if section.status != 0 or not lines:
        if section.status in (124, 137):
            return Unknown(f"The disk of {path} does not answer; it may be a network disk that is gone.")
        return Unknown(f"The host did not say how much room there is at {path}.")
    _, total, _, free, mount = lines[-1]
    return DiskSpace(int(total) // 1024, int(free) // 1024, mount)
