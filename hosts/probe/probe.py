"""Look at a machine through a transport: one script, one round trip, one HostFacts."""

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from hosts.probe.cardlock import script as lock_script
from hosts.probe.facts import AGAIN, HostFacts, read_facts
from hosts.probe.frames import FrameReader, parse_frame
from hosts.probe.port import script as port_script
from hosts.sudo import refusal
from hosts.transport.base import CommandTimeout, LinkLost, SudoRefused, Transport, no_tick

SERVING = ("host", "gpus", "apps", "procs", "uids", "fds", "threads", "listeners", "markers", "pids")
EVERYTHING = (*SERVING, "devices", "nspids", "disk")
USABLE = ("usable",)
"""Whether the cards can be used at all."""
HOLDERS = ("threads", "apps")
"""Who else holds the cards than those whose files say so: threads with files of their own, and the driver's word."""
ONCE = (*USABLE, *HOLDERS)
"""Dear: a watch has them in its first look only."""
ALL_SECTIONS = frozenset({*EVERYTHING, *ONCE, "memory", "port", "users", *AGAIN})
SMI_SECTIONS = frozenset({"gpus", "apps", "memory", *AGAIN})
MOST_BEFORE = 4096
SILENCE_SECONDS = 20.0
"""A watch says something each second, or while nvidia-smi waits for its time-out; beyond that it is gone."""


@cache
def script() -> str:
    """The probe itself."""
    return f"{lock_script()}{Path(__file__).with_name('probe.sh').read_text()}"


def probe(
    transport: Transport,
    *,
    sections: Sequence[str],
    timeout: float,
    ports: Sequence[int] = (),
    pids: Sequence[int] = (),
    paths: Sequence[str] = (),
    sudo: bool = False,
    tick: Callable[[], None] = no_tick,
) -> HostFacts:
    """One look. Raises TransportError when the host cannot be asked; what it would not tell is Unknown.

    `ports`: name who listens there. `pids`: tell more of these. `paths`: room and existence. With `sudo` the
    script runs as root, which sees every user's files; raises SudoRefused where that is not allowed.
    """
    token = secrets.token_hex(8)
    measured_at = datetime.now(UTC)
    ours = transport.kind == "local" and not sudo
    asked = [name for name in sections if not (ours and name in SMI_SECTIONS)]
    argv = probe_argv(asked, ports=ports, pids=pids, paths=paths, sudo=sudo)
    result = transport.run(argv, stdin=probe_stdin(token, asked), timeout=timeout, tick=tick)
    frame = parse_frame(result.stdout, token=token)
    if sudo and not frame.sections:
        _check_sudo(result.stderr + result.stdout)
    if len(asked) < len(sections):
        from hosts.nvml import read_cards  # the child it starts is only wanted on this machine

        frame = frame.merged_with(read_cards(transport, sections=sections, timeout=timeout, tick=tick))
    return read_facts(frame, measured_at=measured_at, paths=tuple(paths))


def watch(
    transport: Transport,
    *,
    sections: Sequence[str],
    every: float,
    slot: str,
    eager: float | None = None,
    seconds: int = 3600,
    ports: Sequence[int] = (),
    pids: Sequence[int] = (),
    sudo: bool = False,
    tick: Callable[[], None] = no_tick,
) -> Iterator[HostFacts]:
    """A look every `every` seconds over one long-running command, until it has run for `seconds`.

    `eager`: the pause in the first seconds, for what comes soon or not at all. A newer watch with the same `slot`
    ends this one. `tick` is called at least once a second. Raises LinkLost when the link breaks or the script dies,
    CommandTimeout after too long a silence and SudoRefused as `probe`; close the iterator to stop listening.
    """
    if transport.kind == "local" and not sudo:
        yield from _watch_here(transport, sections, every, seconds, ports, pids, tick)
        return
    token = secrets.token_hex(8)
    loop = [f"every={max(50, round(every * 1000))}", f"for={seconds}", f"slot={slot}"]
    if eager is not None:
        loop.append(f"eager={max(5, round(eager * 1000))}")
    argv = [*probe_argv(sections, ports=ports, pids=pids, sudo=sudo), *loop]
    reader = FrameReader(token)
    last_word = time.monotonic()
    before = b""  # what comes before the first frame: nothing, or why there is none
    seen = False
    with transport.stream(argv, stdin=probe_stdin(token, sections), keep_stdin_open=True) as stream:
        while True:
            data = stream.read(timeout=1.0)
            tick()
            if data == b"":
                if sudo:
                    _check_sudo(before)
                if not seen or stream.exit_status != 0:  # at its time, or for a newer one, it ends with 0
                    raise LinkLost(f"The host's readings ended {_as_what(stream.exit_status)}.")
                return
            if data is None:
                if time.monotonic() - last_word > SILENCE_SECONDS:
                    raise CommandTimeout("The host's readings stopped coming.")
                continue
            last_word = time.monotonic()
            if sudo and len(before) < MOST_BEFORE:
                before += data
            for frame in reader.feed(data):
                sudo, seen = False, True  # it has let us in
                yield read_facts(frame, measured_at=datetime.now(UTC))


def _as_what(status: int | None) -> str:
    return "with a signal" if status is None else f"with status {status}"


def _watch_here(
    transport: Transport,
    sections: Sequence[str],
    every: float,
    seconds: int,
    ports: Sequence[int],
    pids: Sequence[int],
    tick: Callable[[], None],
) -> Iterator[HostFacts]:
    """On this machine a look costs no round trip, and a hung driver holds only the child that asked it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        due = time.monotonic() + every
        yield probe(transport, sections=sections, timeout=SILENCE_SECONDS, ports=ports, pids=pids, tick=tick)
        sections = [name for name in sections if name not in ONCE]
        tick()
        while (left := due - time.monotonic()) > 0:
            time.sleep(min(left, 0.5))
            tick()


def _check_sudo(output: bytes) -> None:
    """Raises SudoRefused when this is what sudo says instead of running a command."""
    if said := refusal(output):
        raise SudoRefused(said)


def probe_argv(
    sections: Sequence[str],
    *,
    ports: Sequence[int] = (),
    pids: Sequence[int] = (),
    paths: Sequence[str] = (),
    sudo: bool = False,
) -> list[str]:
    """The command that reads the script on its stdin."""
    unknown = set(sections) - ALL_SECTIONS
    if unknown:
        raise ValueError(f"no such sections: {', '.join(sorted(unknown))}")
    prefix = ["sudo", "-n"] if sudo else []
    words = [f"port={int(port)}" for port in ports] + [f"pid={int(pid)}" for pid in pids]
    return [*prefix, "sh", "-s", "--", ",".join(sections), *words, *(f"path={path}" for path in paths)]


def probe_stdin(token: str, sections: Sequence[str] = ()) -> bytes:
    """The script, told its token where no other process can see it, with what these sections need besides."""
    return f"TOKEN={token}\n{port_script() if 'port' in sections else ''}{script()}".encode()
