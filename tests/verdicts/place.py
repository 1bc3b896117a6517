"""The three ways to a machine: over ssh, into a container through its node, and on the machine itself."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence

from hosts.models import Host
from hosts.nvml import ROOT
from hosts.transport.base import Result, Stream, Transport, no_tick
from hosts.transport.factory import open_transport
from hosts.transport.local import LocalTransport
from lab.fleet import Container
from lab.fleet import Host as Machine


class OnMachine(LocalTransport):
    """The local transport of a panel that runs on this machine of the lab: what it starts, it starts there."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self._enter = ["nsenter", "-t", str(machine.pid1), "-m", "-u", "-i", "-n", "-p", "-r", "-w", "--"]

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        stdin: bytes = b"",
        tick: Callable[[], None] = no_tick,
    ) -> Result:
        return super().run([*self._enter, *argv], timeout=timeout, stdin=stdin, tick=tick)

    def stream(self, argv: Sequence[str], *, stdin: bytes = b"", keep_stdin_open: bool = False) -> Stream:
        return super().stream([*self._enter, *argv], stdin=stdin, keep_stdin_open=keep_stdin_open)


def opener(machine: Machine) -> Callable[..., Transport]:
    """As the product opens a link, with ``machine`` as the panel's own."""

    def open_link(host: Host, *, timeout: float) -> Transport:
        return (
            OnMachine(machine) if host.transport == Host.TransportKind.LOCAL else open_transport(host, timeout=timeout)
        )

    return open_link


def install_panel(machine: Machine) -> None:
    """Put there what the panel runs on its own machine: the child that asks NVML."""
    shutil.copytree(
        ROOT / "hosts",
        machine.seen(str(ROOT / "hosts")),
        ignore=shutil.ignore_patterns("__pycache__"),
        dirs_exist_ok=True,
    )


def boot_id_of(machine: Machine | Container) -> str:
    """As the machine, or the container, tells it."""
    return machine.seen("/proc/sys/kernel/random/boot_id").read_text().strip()
