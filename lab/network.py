"""Addresses of a fleet and the commands that wire it. Everything is on one bridge, 10.77.0.0/16."""

import subprocess
from collections.abc import Sequence

BRIDGE = "lab0"
GATEWAY = "10.77.0.1"
PREFIX = 16
FIRST_HOST, FIRST_NODE = 101, 51


def host_address(index: int) -> str:
    """10.77.0.101 and on; more than 150 hosts go on at 10.77.1.1."""
    number = FIRST_HOST + index
    return f"10.77.{number // 255}.{number % 255 + (number >= 255)}"


def node_address(index: int) -> str:
    return f"10.77.0.{FIRST_NODE + index}"


def container_address(node_index: int, vmid: int) -> str:
    """The last number is that of the container where it fits: CT 129 of the first node is 10.77.51.129."""
    return f"10.77.{FIRST_NODE + node_index}.{vmid % 255}"


def mac(address: str) -> str:
    """One address, one MAC, for ever: after a restart no neighbour has a stale entry."""
    return "02:4c:" + ":".join(f"{int(part):02x}" for part in address.split("."))


def ip(lines: Sequence[str], *, inside: int | None = None) -> None:
    """Run `ip` commands in one go, in our network or that of process `inside`. Raises CalledProcessError."""
    enter = [] if inside is None else ["nsenter", "-t", str(inside), "-n"]
    done = subprocess.run([*enter, "ip", "-batch", "-"], input="\n".join(lines), text=True, capture_output=True)
    if done.returncode:
        raise RuntimeError(f"ip: {done.stderr.strip()} (for: {'; '.join(lines)})")


def bridge_lines() -> list[str]:
    return [
        f"link add {BRIDGE} address {mac(GATEWAY)} type bridge",
        f"addr add {GATEWAY}/{PREFIX} dev {BRIDGE}",
        f"link set {BRIDGE} up",
    ]


def neighbour_line(address: str) -> str:
    """A fixed entry: a cable that is pulled then stays silent, instead of 'no route to host' after 3 s."""
    return f"neigh replace {address} lladdr {mac(address)} dev {BRIDGE} nud permanent"


def plug_lines(link: str, *, address: str, pid: int) -> list[str]:
    """A cable from the bridge into the network of process `pid`, where it is called eth0."""
    return [
        f"link add {link} type veth peer name eth0 address {mac(address)} netns {pid}",
        f"link set {link} master {BRIDGE} up",
        neighbour_line(address),
    ]


def host_lines(address: str) -> list[str]:
    return [f"addr add {address}/{PREFIX} dev eth0", "link set eth0 up"]


def node_lines(address: str) -> list[str]:
    """A node has its address on a bridge of its own, where its containers are plugged in."""
    return [
        f"link add vmbr0 address {mac(address)} type bridge",
        "link set eth0 master vmbr0 up",
        f"addr add {address}/{PREFIX} dev vmbr0",
        "link set vmbr0 up",
    ]
