"""A simulated fleet: hosts with real sshd and fake GPUs on one bridge, inside `python -m lab enter`."""

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from lab import namespaces, network
from lab.build import build
from lab.host import Host, MachineError
from lab.node import Container, Node
from lab.paths import FleetPaths
from lab.specs import CardSpec, ContainerSpec, HostSpec, NodeSpec

__all__ = ["CardSpec", "ContainerSpec", "Fleet", "Host", "HostSpec", "MachineError", "NodeSpec"]


class Fleet:
    """Hosts and nodes that live as long as the `with` block. Keys stay in `directory` for the next time."""

    def __init__(
        self, directory: Path, *, hosts: Sequence[HostSpec] = (), nodes: Sequence[NodeSpec] = ()
    ) -> None:
        self.paths = FleetPaths(directory.resolve())
        self.hosts = [
            Host(spec, index=index, address=spec.address or network.host_address(index), paths=self.paths)
            for index, spec in enumerate(hosts)
        ]
        self.nodes = [
            Node(spec, index=index, address=spec.address or network.node_address(index), paths=self.paths)
            for index, spec in enumerate(nodes)
        ]
        self.client_key = self.paths.client_key
        self.seconds = 0.0

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
        if not namespaces.is_inside():
            raise MachineError("A fleet lives inside the lab: run this by `python -m lab enter -- COMMAND`.")
        begun = time.monotonic()
        build()
        self.paths.assemble()
        self._make_keys()
        network.ip(network.bridge_lines())
        authorized = self.client_key.with_suffix(".pub").read_text()
        for host in self.machines:
            host.prepare(authorized=authorized)
        booting = [(host, host.power_on()) for host in self.machines]
        for host, machine in booting:
            host.finish_start(machine)
        for host in self.machines:
            host.plug_in()
        for host in self.machines:
            host.wait_for_sshd(timeout=20)
        for node in self.nodes:
            node.start_containers()
        self.seconds = time.monotonic() - begun

    def stop(self) -> None:
        for machine in self.machines:
            machine.stop()
            machine.remove()
        subprocess.run(["ip", "link", "del", network.BRIDGE], capture_output=True, check=False)

    def _make_keys(self) -> None:
        self.paths.keys.mkdir(parents=True, exist_ok=True)
        making = []
        for path in [self.client_key, *(host.host_key for host in self.machines)]:
            if not path.exists():
                command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", path.name, "-f", str(path)]
                making.append(subprocess.Popen(command, stdin=subprocess.DEVNULL))
        for keygen in making:
            if keygen.wait():
                raise MachineError("ssh-keygen failed")

    def __enter__(self) -> "Fleet":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
