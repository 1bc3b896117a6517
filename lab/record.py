"""The file by which a second shell finds a running fleet, and the way into its namespaces."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lab import processes
from lab.specs import CardSpec, ContainerSpec, HostSpec, NodeSpec


class NoFleetError(Exception):
    """No fleet runs in the directory that was named."""


@dataclass(frozen=True)
class Record:
    """What a fleet consists of and where it lives."""

    outer_pid: int
    space: str
    hosts: Sequence[HostSpec]
    nodes: Sequence[NodeSpec]

    def write(self, path: Path) -> None:
        fields = {
            "outer_pid": self.outer_pid,
            "space": self.space,
            "hosts": [asdict(host) for host in self.hosts],
            "nodes": [asdict(node) for node in self.nodes],
        }
        draft = path.with_suffix(".new")
        draft.write_text(json.dumps(fields))
        draft.replace(path)

    @classmethod
    def read(cls, path: Path) -> "Record":
        """Raises NoFleetError when there is none."""
        try:
            fields = json.loads(path.read_text())
        except FileNotFoundError:
            raise NoFleetError(f"No fleet runs in {path.parent}: start one with `python -m lab up`.") from None
        return cls(
            outer_pid=fields["outer_pid"],
            space=fields["space"],
            hosts=[HostSpec(**_host(host)) for host in fields["hosts"]],
            nodes=[_node(node) for node in fields["nodes"]],
        )

    def init_outside(self) -> int:
        """PID 1 of the lab, as numbered outside of it. Raises NoFleetError when the lab has ended."""
        try:
            children = Path(f"/proc/{self.outer_pid}/task/{self.outer_pid}/children").read_text().split()
        except OSError:
            children = []
        for child in children:
            if processes.space(int(child)) == self.space:
                return int(child)
        raise NoFleetError("The fleet of this directory has ended: start one with `python -m lab up`.")


def here(hosts: Sequence[HostSpec], nodes: Sequence[NodeSpec]) -> Record:
    """The record of a fleet that this process, inside the lab, starts."""
    outer = int(os.environ["LAB_OUTER_PID"])
    return Record(outer_pid=outer, space=processes.space(os.getpid()), hosts=hosts, nodes=nodes)


def way_in(init: int) -> list[str]:
    """The words before a command that is to run inside the lab whose PID 1 is `init`."""
    as_user = ["-U", "--preserve-credentials"] if os.geteuid() else []
    return ["nsenter", "-t", str(init), *as_user, "-m", "-n", "-p", "-i", "-u", "--"]


def _host(fields: dict[str, Any]) -> dict[str, Any]:
    return {**fields, "cards": [CardSpec(**card) for card in fields["cards"]]}


def _node(fields: dict[str, Any]) -> NodeSpec:
    boxes = {int(vmid): ContainerSpec(**box) for vmid, box in fields["containers"].items()}
    return NodeSpec(**{**_host(fields), "containers": boxes})
