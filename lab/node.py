"""A node: a host that runs containers, each in namespaces nested in the node's own, and has `pct`."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab import init, network, processes, tree
from lab.gpus import state
from lab.host import Host, MachineError, enter
from lab.paths import FleetPaths
from lab.processes import Process
from lab.specs import ContainerSpec, NodeSpec


class Container:
    """A container of a node. It is started and stopped by `pct` on the node, or by these methods."""

    def __init__(self, node: "Node", *, vmid: int, spec: ContainerSpec) -> None:
        self.node, self.vmid, self.spec = node, vmid, spec
        self.name = spec.name
        self.address = network.container_address(node.index, vmid)
        slots = range(len(node.spec.cards)) if spec.cards is None else spec.cards
        self.cards = tuple(node.cards[slot] for slot in slots)
        self.directory = node.root / "var/lib/lxc" / str(vmid)
        self.root = self.directory / "rootfs"
        self.gpu_state = node.gpu_state
        self.stuck = node.stuck
        self.config = node.root / "etc/pve/lxc" / f"{vmid}.conf"

    def prepare(self) -> None:
        """Write its disk, its configuration and the plan by which it starts."""
        self.root.mkdir(parents=True, exist_ok=True)
        hosts = f"127.0.0.1 localhost\n{self.address} {self.name}\n"
        tree.write_etc(self.root, name=self.name, hosts=hosts)
        systemd = self.spec.systemd
        if systemd:
            init.write_systemd(self.root)
        plan = tree.container_plan(vmid=self.vmid, name=self.name, devices=self._devices(), systemd=systemd)
        (self.directory / "plan").write_text(plan)
        self.config.parent.mkdir(parents=True, exist_ok=True)
        self.config.write_text(self._configuration())

    def _devices(self) -> list[str]:
        return state.device_names(self.cards)

    def _configuration(self) -> str:
        address = f"ip={self.address}/{network.PREFIX},hwaddr={network.mac(self.address).upper()}"
        lines = ["arch: amd64", "cores: 16"]
        lines += [f"dev{number}: /dev/{name},gid=44" for number, name in enumerate(self._devices())]
        lines += [f"hostname: {self.name}", "memory: 65536", f"net0: name=eth0,bridge=vmbr0,{address},type=veth"]
        lines += ["ostype: debian", f"rootfs: local-lvm:vm-{self.vmid}-disk-0,size=64G", "swap: 0"]
        return "\n".join(lines) + "\n"

    def start(self) -> None:
        self._pct("start")

    def stop(self) -> None:
        self._pct("stop")

    def _pct(self, verb: str) -> None:
        done = self.node.exec(["pct", verb, str(self.vmid)], timeout=60)
        if done.returncode:
            raise MachineError(f"pct {verb} {self.vmid}: {(done.stdout + done.stderr).decode().strip()}")

    @property
    def pid1(self) -> int:
        """Init of the container, as the lab numbers it. Raises MachineError when it is off."""
        file = self.node.seen(f"/run/lxc/{self.vmid}.pid")
        inside = file.read_text().strip() if file.exists() else ""
        for process in processes.in_spaces(self.node.spaces(), depth=1):
            if inside and process.pid == int(inside):
                return process.lab_pid
        raise MachineError(f"container {self.vmid} of {self.node.name} is not running")

    @property
    def is_running(self) -> bool:
        return b"running" in self.node.exec(["pct", "status", str(self.vmid)], timeout=10).stdout

    def seen(self, path: str) -> Path:
        """A path of the running container, as the lab sees it."""
        return Path(f"/proc/{self.pid1}/root{path}")

    def exec(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
    ) -> "subprocess.CompletedProcess[bytes]":
        """Run a command in the container as root, from outside, without pct. `timeout` in seconds."""
        return enter(self.pid1, argv, timeout=timeout, stdin=stdin, env=env)

    def processes(self) -> list[Process]:
        """What runs in the container, numbered as inside it."""
        found = processes.in_spaces({processes.space(self.pid1)}, depth=2)
        return sorted(found, key=lambda process: process.pid)


class Node(Host):
    """A host with containers. Its processes include those of the containers, under its own numbers."""

    spec: NodeSpec

    def __init__(self, spec: NodeSpec, *, index: int, address: str, paths: FleetPaths) -> None:
        super().__init__(spec, index=index, address=address, paths=paths)
        self.link = f"vn{index}"
        self.containers = {
            vmid: Container(self, vmid=vmid, spec=container) for vmid, container in spec.containers.items()
        }

    def prepare(self, *, authorized: str) -> None:
        super().prepare(authorized=authorized)
        (self.root / "etc/pve").mkdir(exist_ok=True)
        cost = f"{self.spec.pct_start_cost}\n" if self.spec.pct_start_cost else ""
        (self.root / "etc/pve/start-cost").write_text(cost)
        for container in self.containers.values():
            container.prepare()

    def plan(self) -> str:
        layers = [self.paths.proxmox] + ([self.paths.driver] if self.spec.driver else [])
        return self._plan(layers, node=True)

    @property
    def needs_group(self) -> bool:
        return super().needs_group or any(container.systemd for container in self.spec.containers.values())

    def configure_network(self) -> None:
        network.ip(network.node_lines(self.address), inside=self.pid1)
        network.ip([network.neighbour_line(container.address) for container in self.containers.values()])

    def start(self) -> None:
        super().start()
        self.start_containers()

    def start_containers(self) -> None:
        """Start those that are to run from the beginning."""
        for container in self.containers.values():
            if container.spec.running:
                container.start()

    def spaces(self) -> set[str]:
        """The pid namespaces of the node and of its containers."""
        own = processes.space(self.pid1)
        return {own, *processes.spaces_below(own)}

    def processes(self) -> list[Process]:
        return sorted(processes.in_spaces(self.spaces(), depth=1), key=lambda process: process.pid)
