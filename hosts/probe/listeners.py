"""Who listens on TCP, from /proc/net/tcp and tcp6. PURE.

The kernel writes addresses as hexadecimal words in its own byte order, little-endian on every GPU host there is.
"""

import ipaddress
import re
from dataclasses import dataclass

from hosts.probe.frames import Section, Unknown

LISTEN = "0A"
LOCAL = re.compile(r"([0-9A-F]{8}|[0-9A-F]{32}):([0-9A-F]{4})", re.ASCII)


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
    """Unknown without the kernel's header line, for then the table itself was not read, or a line is cut."""
    lines = [line for line in section.text.split("\n") if line.strip()]
    if not any("local_address" in line for line in lines):
        return Unknown("The host did not say which ports are in use.")
    found: list[Listener] = []
    for line in lines:
        cells = line.split()
        if "local_address" in line or len(cells) < 4 or cells[3] != LISTEN:
            continue
        listener = _listener(cells)
        if listener is None:
            return Unknown("The host's list of ports is garbled.")
        found.append(listener)
    return Listeners(tuple(found))


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
