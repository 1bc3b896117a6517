"""Who listens on TCP, from ss, or else from /proc/net/tcp and tcp6. PURE.

In those files the kernel writes addresses as hexadecimal words in its own byte order, little-endian on every GPU host
there is.
"""

import ipaddress
import re
from dataclasses import dataclass

from hosts.probe.frames import Section, Unknown

LISTEN = "0A"
ASKED_SS = "ss -Hltne"
"""The first line of a list by ss, which has no header of its own."""
BY_SS = re.compile(r"LISTEN +\d+ +\d+ +(?P<address>\S+):(?P<port>\d{1,5}) +\S+(?P<facts>.*)", re.ASCII)
INODE = re.compile(r" ino:(\d+) sk:", re.ASCII)
UID = re.compile(r" uid:(\d+)\b", re.ASCII)
LOCAL = re.compile(r"([0-9A-F]{8}|[0-9A-F]{32}):([0-9A-F]{4})", re.ASCII)


GARBLED = Unknown("The host's list of ports is garbled.")


@dataclass(frozen=True)
class Listener:
    """A listening socket; `inode` names it, `uid` owns it."""

    address: str
    port: int
    uid: int
    inode: int


@dataclass(frozen=True)
class Listeners:
    """Every listening socket in the asker's network namespace."""

    all: tuple[Listener, ...]

    def on_port(self, port: int) -> tuple[Listener, ...]:
        return tuple(listener for listener in self.all if listener.port == port)


def parse_listeners(section: Section) -> Listeners | Unknown:
    """Unknown without its first line, for then the table itself was not read, or when a line is cut."""
    lines = [line for line in section.text.split("\n") if line.strip()]
    if lines and lines[0] == ASKED_SS:
        by_ss = [_by_ss(line) for line in lines[1:]]
        whole = tuple(listener for listener in by_ss if listener is not None)
        return Listeners(whole) if len(whole) == len(by_ss) else GARBLED
    if not any("local_address" in line for line in lines):
        return Unknown("The host did not say which ports are in use.")
    found: list[Listener] = []
    for line in lines:
        cells = line.split()
        if "local_address" in line or len(cells) < 4 or cells[3] != LISTEN:
            continue
        listener = _listener(cells)
        if listener is None:
            return GARBLED
        found.append(listener)
    return Listeners(tuple(found))


def _by_ss(line: str) -> Listener | None:
    """``*`` is every address of both families; without a word about v6only, of IPv4 (before iproute2 4.15).

    The owner is told unless it is root.
    """
    found = BY_SS.fullmatch(line.rstrip())
    inode = INODE.search(found["facts"]) if found else None
    if found is None or inode is None or int(found["port"]) > 65_535:
        return None
    uid = UID.search(found["facts"])
    address = found["address"].partition("%")[0].strip("[]")
    if address == "*":
        address = "::" if " v6only:" in found["facts"] else "0.0.0.0"
    return Listener(address, int(found["port"]), int(uid[1]) if uid else 0, int(inode[1]))


def _listener(cells: list[str]) -> Listener | None:
    local = LOCAL.fullmatch(cells[1])
    if local is None or len(cells) < 10 or not (cells[7] + cells[9]).isascii():
        return None
    if not cells[7].isdigit() or not cells[9].isdigit():
        return None
    return Listener(_address(local.group(1)), int(local.group(2), 16), int(cells[7]), int(cells[9]))


def _address(text: str) -> str:
    words = [bytes.fromhex(text[start : start + 8])[::-1] for start in range(0, len(text), 8)]
    return str(ipaddress.ip_address(b"".join(words)))
