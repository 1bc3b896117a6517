"""What every way of reaching a machine offers, and how it fails.

TransportError
 |- InvalidCommand          we refused it ourselves; nothing was sent
 |- ConnectError            nothing was sent
 |   |- AddressError        the address does not resolve, or to a place we do not go
 |   |- ConnectTimeout      no answer in time
 |   |- ConnectRefused      the machine answered, nobody listens
 |   |- BannerError         somebody listens, but it does not speak SSH with us
 |   |- LinkDown            a link we had is gone; this command was not sent
 |   |- LinkBusy            the link carries as many commands as it may
 |   |- ForwardingForbidden the SSH server forbids TCP forwarding, which a jump host needs
 |   |- AuthenticationError the login was refused
 |   |   `- KeyFileError    the key of this host cannot be used
 |   |- HostKeyError
 |   |   |- HostKeyUnknown  never seen before; carries the key that was offered
 |   |   `- HostKeyChanged  another key than the one we trust; carries both
 |   `- ContainerError      the Proxmox node answered, the container did not
 |       |- ContainerStopped
 |       |- ContainerMissing
 |       |- ContainerLocked
 |       |- ContainerRefused   pct wants root
 |       `- PctMissing         no pct on this machine
 |- SudoRefused             the host answered, but sudo wants a password: nothing was done
 |- LinkLost                after something was sent: the outcome is unknown
 |- CommandTimeout          our deadline passed: the command may run on
 `- OutputTooLarge          it said more than we keep: the command may run on

`str(error)` says what happened, `error.hint` what a person can do about it.
"""

import base64
import binascii
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self

MAX_ARGV_BYTES = 100_000


class TransportError(Exception):
    """The root of every failure to reach a machine or to run something on it."""

    hint = "Look at the host's page for what was tried, then try again."

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        if hint is not None:
            self.hint = hint


class InvalidCommand(TransportError):
    hint = "A value contains something that can't be part of a command, such as a NUL byte. Correct it."


class ConnectError(TransportError):
    hint = "Nothing was sent to the host. Check that it is switched on and on the network, then try again."


class AddressError(ConnectError):
    hint = "Check the spelling of the host's address, or use its IP address."


class ConnectTimeout(ConnectError):
    hint = "The host may be off, or a firewall drops the connection. Ask who looks after it."


class ConnectRefused(ConnectError):
    hint = "The machine is there, but nothing listens on that port. Check the port, or start the service."


class BannerError(ConnectError):
    hint = "Something answers on that port, but no SSH server we can talk to. Check the port and the version."


class LinkDown(ConnectError):
    hint = "The connection broke before the command was sent, so nothing happened. Try again."


class LinkBusy(ConnectError):
    hint = "Too many commands run on this host at once. Wait for one to end and try again."


class ForwardingForbidden(ConnectError):
    hint = "Allow TCP forwarding (AllowTcpForwarding) in the jump host's sshd, or reach the host directly."


class AuthenticationError(ConnectError):
    hint = "Add the panel's public key to ~/.ssh/authorized_keys of that user on the host."


class KeyFileError(AuthenticationError):
    hint = "Choose another private key for this host, or use the panel's own key."


class HostKeyError(ConnectError):
    hint = "Compare the host key's fingerprint with the one shown on the host itself before trusting it."


class ContainerError(ConnectError):
    hint = "Look at the container in Proxmox."


class ContainerStopped(ContainerError):
    hint = "Start the container in Proxmox, then try again."


class ContainerMissing(ContainerError):
    hint = "Check the container's number, and whether it has moved to another Proxmox node."


class ContainerLocked(ContainerError):
    hint = "A backup, snapshot or migration holds the container. Wait until it has ended."


class ContainerRefused(ContainerError):
    hint = "Reach the Proxmox node as root, or allow sudo for it on the host's page."


class PctMissing(ContainerError):
    hint = "The machine named as Proxmox node has no pct command. Choose the right node."


class SudoRefused(TransportError):
    hint = (
        "On the host, let the panel's login use sudo without a password: as root, run visudo -f "
        "/etc/sudoers.d/relaunch and write the line “LOGIN ALL=(root) NOPASSWD: ALL”, with the login's name for "
        "LOGIN. Or untick “Use sudo where root is needed” on the host's page."
    )


class LinkLost(TransportError):
    hint = "The connection broke after the command was sent. It may still run: look at the host before acting."


class CommandTimeout(TransportError):
    hint = "The command did not end in time and may still run. Look at the host before trying again."


class OutputTooLarge(TransportError):
    hint = "The command wrote far more than expected. Look at what it prints on the host."


@dataclass(frozen=True)
class PublicHostKey:
    """A host's public key as OpenSSH writes it: type and base64 text."""

    key_type: str
    key_base64: str

    @property
    def fingerprint(self) -> str:
        """`SHA256:...`, the form that ssh-keygen prints."""
        try:
            blob = base64.b64decode(self.key_base64, validate=True)
        except (binascii.Error, ValueError):
            blob = self.key_base64.encode()
        return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


class HostKeyUnknown(HostKeyError):
    def __init__(self, message: str, *, key: PublicHostKey) -> None:
        super().__init__(message)
        self.key = key


class HostKeyChanged(HostKeyError):
    hint = (
        "The host shows another key than the trusted one: it was installed anew, or something sits in "
        "between. Ask who looks after it before trusting the new key."
    )

    def __init__(self, message: str, *, expected: Sequence[PublicHostKey], key: PublicHostKey) -> None:
        super().__init__(message)
        self.expected = tuple(expected)
        self.key = key


@dataclass(frozen=True)
class Result:
    """An ended command. `exit_status` None means unknown: killed by a signal, or never told."""

    argv: tuple[str, ...]
    exit_status: int | None
    stdout: bytes
    stderr: bytes
    seconds: float

    @property
    def ok(self) -> bool:
        return self.exit_status == 0


@dataclass
class TransportCounters:
    """What a transport has cost so far."""

    execs: int = 0
    connections: int = 0


def no_tick() -> None:
    """The default `tick`: nothing to do while waiting."""


class Stream(Protocol):
    """A running command whose merged output is read as it comes. Use it in a `with` block."""

    def read(self, *, timeout: float) -> bytes | None:
        """Output, None when silent for `timeout` seconds, b"" when it has ended. Raises LinkLost."""
        ...

    def write(self, data: bytes) -> None:
        """Send to the command's stdin; only when opened with `keep_stdin_open`."""
        ...

    def close(self) -> None:
        """Stop listening. A command whose stdin was kept open sees it end, and should end itself; otherwise this
        says nothing about whether the work on the host has ended.
        """
        ...

    @property
    def exit_status(self) -> int | None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ByteTunnel(Protocol):
    """A TCP connection as seen from the host, with the part of the socket interface that clients need."""

    def sendall(self, data: bytes) -> None: ...

    def recv(self, n: int) -> bytes:
        """Up to n bytes, b"" at the end. Raises TimeoutError after the time set by `settimeout`."""
        ...

    def settimeout(self, seconds: float | None) -> None: ...

    def close(self) -> None: ...


class Transport(Protocol):
    """One link to one machine. Threads may share it; processes may not."""

    @property
    def kind(self) -> str: ...

    @property
    def counters(self) -> TransportCounters: ...

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        stdin: bytes = b"",
        tick: Callable[[], None] = no_tick,
    ) -> Result:
        """Run `argv` to its end, at most `timeout` seconds, and return all that it wrote.

        `tick` is called at least once a second while waiting; what it raises ends the wait and propagates.
        Raises ConnectError when nothing was sent, LinkLost or CommandTimeout when the outcome is unknown.
        """
        ...

    def stream(self, argv: Sequence[str], *, stdin: bytes = b"", keep_stdin_open: bool = False) -> Stream:
        """Start `argv` and read its output as it comes, stderr merged into stdout. Raises as `run` when nothing was
        sent.
        """
        ...

    def open_tcp(self, port: int, *, host: str = "127.0.0.1", timeout: float) -> ByteTunnel:
        """Connect to a port as the machine itself sees it. Raises ConnectRefused when nobody listens."""
        ...

    def is_alive(self, *, timeout: float) -> bool:
        """Whether the link answers now and is worth keeping. False when not in time. Runs no command."""
        ...

    def close(self) -> None: ...


def check_argv(argv: Sequence[str]) -> tuple[str, ...]:
    """The command as a tuple. Raises InvalidCommand for what no host could run or what breaks the link."""
    if isinstance(argv, str) or not argv:
        raise InvalidCommand("A command must be a list of at least one word.")
    words = tuple(argv)
    if any("\0" in word for word in words):
        raise InvalidCommand("A word of the command contains a NUL byte; it was not sent.")
    if not words[0]:
        raise InvalidCommand("The command has no program name; it was not sent.")
    if sum(len(word.encode("utf-8", "surrogateescape")) for word in words) > MAX_ARGV_BYTES:
        raise InvalidCommand(
            "The command is too long for the host; it was not sent.", hint="Send large data on stdin instead."
        )
    return words


@dataclass(frozen=True)
class CommandSpec:
    """How a command is started: what the pump of a transport needs to know."""

    argv: tuple[str, ...]
    stdin: bytes = field(default=b"", repr=False)
    keep_stdin_open: bool = False
    merge_stderr: bool = False
