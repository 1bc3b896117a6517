"""What ``remote/starter.sh`` says of a unit or container that is to start a server. PURE."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from deployments.plan.container_change import ContainerTold, read_container
from deployments.plan.manager import CONTAINER, KUBERNETES
from deployments.plan.unit_change import UnitTold
from deployments.plan.unit_file import read_unit
from hosts.probe.frames import Unknown

Line = tuple[str, tuple[str, ...], bytes]
"""First word, the others, the text that follows."""
Starter = UnitTold | ContainerTold
NODES_OWN = ("/lxc/", "/lxc.payload")
"""Control groups in which a node keeps its containers."""


def read_container_told(lines: Iterable[Line]) -> ContainerTold | Unknown:
    """Everything that the script says of a container; one that is not there is known by its image alone."""
    image = ""
    for word, rest, payload in lines:
        if word == "image":
            image = " ".join(rest)
        if word == "trouble" and "no such" in " ".join(rest).lower():
            return ContainerTold("", (), would_be=image)
        if word == "trouble":
            return Unknown(" ".join(rest) or "docker did not answer.")
        if word == "log":
            found = read_container(payload.decode(errors="replace"))
            return found if isinstance(found, Unknown) else replace(found, would_be=image)
    return Unknown("docker said nothing.")


def read_unit_told(lines: Iterable[Line], *, name: str, of_login: bool) -> UnitTold | Unknown:
    """Everything that the script says of a unit; Unknown when systemctl does not know it, or does not answer."""
    shown: dict[str, str] = {}
    file = own = path = ""
    environment: dict[str, str | Unknown] = {}
    groups: list[str] = []
    init: list[str] = []
    for word, rest, payload in lines:
        text = payload.decode(errors="replace")
        match word, rest[:1]:
            case "trouble", _:
                return Unknown(" ".join(rest) or "systemctl did not answer.")
            case "log", ("shown",):
                shown = dict(line.partition("=")[::2] for line in text.splitlines())
            case "log", ("file",):
                file, own = text, _own(text, name)
            case "reads", _:
                path = " ".join(rest)
            case "log", ("environment",):
                environment[path] = text
            case "unread", _:
                environment[path] = Unknown(" ".join(rest))
            case "group", _:
                groups.append(_group(rest))
            case "init", _:
                init.append(_group(rest).removesuffix("/init.scope").rstrip("/"))
    if shown.get("LoadState") != "loaded":
        return Unknown(f"There is no unit {name} ({shown.get('LoadState') or 'systemctl says nothing of it'}).")
    return UnitTold(name, read_unit(file), environment, shown, _has_containers(groups, init), own, of_login)


def _own(text: str, name: str) -> str:
    """Of what ``systemctl cat`` shows, the drop-in that we have written: each file comes after `# PATH`."""
    _, found, after = text.partition(f"# /etc/systemd/system/{name}.d/relaunch.conf\n")
    return after.partition("\n# /")[0] if found else ""


def _group(line: Iterable[str]) -> str:
    return " ".join(line).rpartition(":")[2]


def _has_containers(groups: Iterable[str], init: Iterable[str]) -> bool:
    """``init``: the control groups of process 1. What is above them, of a machine that is a container itself, is not
    its own affair.
    """
    above = max(init, key=len, default="")
    own = [group.removeprefix(above) for group in groups]
    return any(
        CONTAINER.search(group) or KUBERNETES.search(group) or any(mark in group for mark in NODES_OWN) for group in own
    )
