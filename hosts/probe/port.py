"""Could a server have a port now? What ``port.sh`` says after it has tried. PURE."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hosts.probe.frames import Section, Unknown

FREE, LEFT, TAKEN, DENIED, UNTOLD = "free", "left", "taken", "denied", "untold"
LISTENS, BOUND = 10, 7
"""States of a socket as the kernel counts them; others than these two are connections."""
WORD = re.compile(r"(?:free|left|left unlisted|taken|denied|untold (?:tool|\d{1,3}))", re.ASCII)
SOCKET = re.compile(
    r"socket (?P<state>\d{1,2}) (?:2 (?P<v4>[0-9a-f]{8})|10 (?P<v6>[0-9a-f]{32}))"
    r" (?P<uid>\d{1,10}) (?P<inode>\d{1,20})",
    re.ASCII,
)
BY_SS = re.compile(
    r"ss \d+ +\d+ +(?P<address>\S+):\d{1,5} +\S+(?: +uid:(?P<uid>\d{1,10}))? +ino:(?P<inode>\d{1,20}) sk:.*", re.ASCII
)
WAITING = re.compile(r"waiting (\d{1,9})", re.ASCII)
GARBLED = Unknown("What the host says about the port is garbled.")


@dataclass(frozen=True)
class PortSocket:
    """One that has the port. ``inode`` 0: no process has it open any more."""

    state: int
    address: str
    uid: int
    inode: int


@dataclass(frozen=True)
class PortTrial:
    """``word``: FREE, LEFT (closed connections only), TAKEN, DENIED, or UNTOLD.

    ``sockets`` is empty when it is not known who has it. ``waiting``: so many closed connections (TIME_WAIT).
    ``unlisted``: the kernel does not list sockets that are only bound (before 6.8), so LEFT is as far as it tells.
    """

    word: str
    sockets: tuple[PortSocket, ...] = ()
    waiting: int = 0
    unlisted: bool = False
    no_tool: bool = False


@cache
def script() -> str:
    """The shell function ``try_port``, for scripts that need the answer at once."""
    return Path(__file__).with_name("port.sh").read_text()


def parse_trial(section: Section) -> PortTrial | Unknown:
    """Unknown when a line is cut or odd: the answer stands in the first, but a cut one may have lost any."""
    first, *others = [line for line in section.text.split("\n") if line.strip()] or [""]
    if not WORD.fullmatch(first):
        return GARBLED
    sockets: list[PortSocket] = []
    waiting = 0
    for line in others:
        count = WAITING.fullmatch(line)
        found = _socket(line)
        if count is not None:
            waiting = int(count[1])
        elif found is not None:
            sockets.append(found)
        else:
            return GARBLED
    word, _, detail = first.partition(" ")
    return PortTrial(word, tuple(sockets), waiting, detail == "unlisted", detail == "tool")


def _socket(line: str) -> PortSocket | None:
    by_ss = BY_SS.fullmatch(line.rstrip())
    if by_ss is not None:
        address = by_ss["address"].partition("%")[0].strip("[]")
        return PortSocket(BOUND, "::" if address == "*" else address, int(by_ss["uid"] or 0), int(by_ss["inode"]))
    found = SOCKET.fullmatch(line)
    if found is None:
        return None
    address = str(ipaddress.ip_address(bytes.fromhex(found["v4"] or found["v6"])))
    return PortSocket(int(found["state"]), address, int(found["uid"]), int(found["inode"]))
