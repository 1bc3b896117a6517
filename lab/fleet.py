"""A simulated fleet: hosts with real sshd and fake GPUs on one bridge, inside `python -m lab enter`."""

import fcntl
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TextIO

from lab import cgroups, namespaces, network, record
from lab.build import build
from lab.faults import Faults
from lab.host import Host, MachineError
from lab.node import Container, Node
from lab.paths import FleetPaths
from lab.specs import CardSpec, ContainerSpec, HostSpec, NodeSpec

__all__ = ["CardSpec", "Container", "ContainerSpec", "Fleet", "Host", "HostSpec", "MachineError", "Node", "NodeSpec"]

L40S = CardSpec(name="NVIDIA L40S", memory_mib=46068)
H100 = CardSpec(name="NVIDIA H100 80GB HBM3", memory_mib=81559)
RTX_PRO = CardSpec(name="NVIDIA RTX PRO 6000 Blackwell Server Edition", memory_mib=97887, driver="580.95.05")


class Fleet:
    """Hosts and nodes that live as long as the `with` block, or from `start()` to `stop()`.

    Keys stay in `directory`, so the next fleet there starts faster and shows the same host keys.
    """

    def __init__(self, directory: Path, *, hosts: Sequence[HostSpec] = (), nodes: Sequence[NodeSpec] = ()) -> None:
        self.paths = FleetPaths(directory.resolve())
        self.specs = (hosts, nodes)
        self.hosts = [
            Host(spec, index=index, address=spec.address or network.host_address(index), paths=self.paths)
            for index, spec in enumerate(hosts)
        ]
        self.nodes = [
            Node(spec, index=index, address=spec.address or network.node_address(index), paths=self.paths)
            for index, spec in enumerate(nodes)
        ]
        self.client_key = self.paths.client_key
        self.faults = Faults()
        self._claim: TextIO | None = None
        self.seconds = 0.0
        """How long `start` took."""

    @classmethod
    def attach(cls, directory: Path) -> "Fleet":
        """The fleet that another process of this lab has started there. Raises record.NoFleetError."""
        found = record.Record.read(FleetPaths(directory.resolve()).record)
        return cls(directory, hosts=found.hosts, nodes=found.nodes)

    @property
    def machines(self) -> list[Host]:
        """Hosts and nodes."""
        return [*self.hosts, *self.nodes]

    def host(self, name: str) -> Host:
        """A host or node. Raises KeyError when there is none of that name."""
        return {machine.name: machine for machine in self.machines}[name]

    def node(self, name: str) -> Node:
        """Raises KeyError when there is no such node."""
        return {node.name: node for node in self.nodes}[name]

    def container(self, vmid: int) -> Container:
        """Raises KeyError when no node has it."""
        return {number: box for node in self.nodes for number, box in node.containers.items()}[vmid]

    def start(self) -> None:
        """Returns when every sshd listens and every container that should run does.

        Raises MachineError or build.BuildError; then nothing is left running.
        """
        if not namespaces.is_inside():
            raise MachineError("A fleet lives inside the lab: run this by `python -m lab enter -- COMMAND`.")
        begun = time.monotonic()
        build()
        self._claim_directory()
        self._stop_machines()
        cgroups.sweep()
        try:
            self.paths.assemble()
            self._make_keys()
            self._start_machines()
        except BaseException:
            self.stop()
            raise
        record.here(*self.specs).write(self.paths.record)
        self.seconds = time.monotonic() - begun

    def _start_machines(self) -> None:
        network.ip(network.bridge_lines())
        authorized = self.client_key.with_suffix(".pub").read_text()
        for machine in self.machines:
            machine.prepare(authorized=authorized)
        booting = [(machine, machine.power_on()) for machine in self.machines]
        for machine, process in booting:
            machine.finish_start(process)
        network.ip([line for machine in self.machines for line in machine.plug_lines()])
        for machine in self.machines:
            machine.configure_network()
        for machine in self.machines:
            machine.wait_for_sshd(timeout=20)
        for node in self.nodes:
            node.start_containers()

    def stop(self) -> None:
        """End every process of the fleet; also one that an earlier process left here."""
        self._stop_machines()
        if self._claim:
            self._claim.close()
            self._claim = None

    def _claim_directory(self) -> None:
        """Two fleets in one directory, perhaps in two labs, would write over each other's files."""
        self.paths.directory.mkdir(parents=True, exist_ok=True)
        claim = (self.paths.directory / "lock").open("w")
        try:
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            claim.close()
            raise MachineError(f"Another fleet runs in {self.paths.directory}: end it first.") from None
        self._claim = claim

    def _stop_machines(self) -> None:
        self.paths.record.unlink(missing_ok=True)
        for machine in self.machines:
            machine.stop()
            machine.remove()
        subprocess.run(["ip", "link", "del", network.BRIDGE], capture_output=True, check=False)

    def _make_keys(self) -> None:
        self.paths.keys.mkdir(parents=True, exist_ok=True)
        making = []
        for path in [self.client_key, *(machine.host_key for machine in self.machines)]:
            if not path.exists():
                command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", path.name, "-f", str(path)]
                making.append(subprocess.Popen(command, stdin=subprocess.DEVNULL))
        failed = [keygen.args for keygen in making if keygen.wait()]
        if failed:
            raise MachineError("ssh-keygen failed")

    def __enter__(self) -> "Fleet":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def demo_specs() -> tuple[list[HostSpec], list[NodeSpec]]:
    """Hosts and nodes of the demo: two plain hosts and a node with eight cards and two containers."""
    hosts = [HostSpec(name="gpu1", cards=[L40S] * 2), HostSpec(name="gpu2", cards=[H100] * 4)]
    containers = {
        129: ContainerSpec(name="llm-gpu"),
        130: ContainerSpec(name="other", cards=(), running=False),
    }
    return hosts, [NodeSpec(name="pve", cards=[RTX_PRO] * 8, containers=containers)]


def numbered_specs(count: int) -> list[HostSpec]:
    """`count` equal hosts, gpu1 and on, with two cards each."""
    return [HostSpec(name=f"gpu{number}", cards=[L40S] * 2) for number in range(1, count + 1)]
