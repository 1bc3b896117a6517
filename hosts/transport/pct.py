"""A Proxmox container, through another transport to its node.

`pct exec` resets the PATH and needs `--`, or it eats the command's own options. Each call starts a Perl
interpreter, so callers put several questions into one script. Its own failures are told by their text, for
its exit status is whatever errno happened to be.
"""

import re
from collections.abc import Callable, Sequence

from hosts.transport.base import (
    ByteTunnel,
    CommandTimeout,
    ContainerError,
    ContainerLocked,
    ContainerMissing,
    ContainerRefused,
    ContainerStopped,
    PctMissing,
    Result,
    Stream,
    Transport,
    check_argv,
    no_tick,
)
from hosts.transport.deadline import Deadline
from hosts.transport.relay import open_relay, relay_argv

CONTAINER_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
FROZEN_HINT = (
    "The container may be frozen by a backup or snapshot, in which case every command waits. Look at it in "
    "Proxmox, and at what runs in it, before trying again."
)
RECOGNISED: tuple[tuple[re.Pattern[str], type[ContainerError], str], ...] = (
    (re.compile(r"^container '\d+' not running!", re.M), ContainerStopped, "is not running"),
    (re.compile(r"^CT \d+ not running", re.M), ContainerStopped, "is not running"),
    (re.compile(r"^lxc-attach: .*Failed to get init pid", re.M), ContainerStopped, "has just stopped"),
    (
        re.compile(r"^Configuration file '[^']*' does not exist", re.M),
        ContainerMissing,
        "is not on this node",
    ),
    (re.compile(r"^CT is locked \(([^)]*)\)", re.M), ContainerLocked, "is locked"),
    (re.compile(r"^can't lock file '.*' - got timeout", re.M), ContainerLocked, "is locked"),
    (re.compile(r"^please run as root", re.M), ContainerRefused, "cannot be entered by this user"),
    (re.compile(r"^sudo: .*(?:password|terminal)", re.M), ContainerRefused, "cannot be entered by this user"),
    (
        re.compile(r"^400 (?:Parameter verification failed|unable to parse)", re.M),
        ContainerError,
        "was refused",
    ),
    (re.compile(r"\bpct: (?:command )?not found", re.M), PctMissing, "cannot be entered: no pct here"),
    (
        re.compile(r"^(?:sudo: )?pct: (?:No such file|command not found)", re.M),
        PctMissing,
        "has no node here",
    ),
)


def recognise(stderr: str, *, vmid: int) -> ContainerError | None:
    """What pct or lxc-attach itself complains about, if it is one of theirs."""
    for pattern, kind, words in RECOGNISED:
        found = pattern.search(stderr)
        if found:
            detail = f" ({found.group(1)})" if pattern.groups else ""
            return kind(f"Container {vmid} {words}{detail}.")
    return None


class PctTransport:
    """Everything the node's transport does, inside one container. Owns the node's transport."""

    kind = "pct"

    def __init__(self, node: Transport, *, vmid: int, sudo: bool = False) -> None:
        self._node = node
        self._vmid = vmid
        self._prefix = ("sudo", "-n") if sudo else ()
        self.counters = node.counters

    def command(self, argv: Sequence[str]) -> list[str]:
        """What runs on the node to run `argv` in the container."""
        inside = ["env", f"PATH={CONTAINER_PATH}", *check_argv(argv)]
        return [*self._prefix, "pct", "exec", str(self._vmid), "--", *inside]

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        stdin: bytes = b"",
        tick: Callable[[], None] = no_tick,
    ) -> Result:
        try:
            result = self._node.run(self.command(argv), timeout=timeout, stdin=stdin, tick=tick)
        except CommandTimeout as error:
            raise CommandTimeout(f"Container {self._vmid}: {error}", hint=FROZEN_HINT) from error
        if result.exit_status != 0 and not result.stdout:
            complaint = recognise(result.stderr.decode(errors="replace"), vmid=self._vmid)
            if complaint is not None:
                raise complaint
        return Result(check_argv(argv), result.exit_status, result.stdout, result.stderr, result.seconds)

    def stream(self, argv: Sequence[str], *, stdin: bytes = b"", keep_stdin_open: bool = False) -> Stream:
        inner = self._node.stream(self.command(argv), stdin=stdin, keep_stdin_open=keep_stdin_open)
        return _PctStream(inner, vmid=self._vmid)

    def open_tcp(self, port: int, *, host: str = "127.0.0.1", timeout: float) -> ByteTunnel:
        deadline = Deadline(timeout)
        stream = self.stream(relay_argv(host, port), keep_stdin_open=True)
        return open_relay(stream, host=host, port=port, timeout=deadline.remaining())

    def is_alive(self, *, timeout: float) -> bool:
        return self._node.is_alive(timeout=timeout)

    def close(self) -> None:
        self._node.close()


class _PctStream(Stream):
    """Looks at the first words of a stream that ends at once: they may be pct's, not the command's."""

    def __init__(self, inner: Stream, *, vmid: int) -> None:
        self._inner = inner
        self._vmid = vmid
        self._start = b""

    def read(self, *, timeout: float) -> bytes | None:
        data = self._inner.read(timeout=timeout)
        if data:
            self._start = (self._start + data)[:4096]
        elif data == b"" and self._inner.exit_status != 0:
            complaint = recognise(self._start.decode(errors="replace"), vmid=self._vmid)
            if complaint is not None:
                raise complaint
        return data

    def write(self, data: bytes) -> None:
        self._inner.write(data)

    def close(self) -> None:
        self._inner.close()

    @property
    def exit_status(self) -> int | None:
        return self._inner.exit_status
