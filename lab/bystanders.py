"""Processes that write down every signal they get (native/bystander.c): who was meant, who was only near.

crowd = Bystanders(machine)
crowd.shell(f"exec setsid -f {crowd.command('neighbour', title='llama-server')} > /dev/null 2>&1")
crowd.await_one("neighbour").signals  # []
"""

import shlex
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.host import Host, MachineError, wait_until
from lab.node import Container

PROGRAM = "/lab/bin/bystander"
HOLD = "/lab/bin/gpu-hold"
BOOKS = "/run/lab-bystanders"
PATIENCE = 20.0
"""Seconds for one to start on a busy machine."""
Place = Host | Container


@dataclass(frozen=True)
class Bystander:
    """One process: ``pid`` and ``started`` (clock ticks since boot) as on its own machine or in its own container."""

    name: str
    pid: int
    started: int
    lab_pid: int
    book: Path

    @property
    def signals(self) -> list[int]:
        """Every signal that it has caught so far, in order."""
        return [int(line.split()[0]) for line in self.book.read_text().splitlines()[1:]]

    def forget(self) -> None:
        """Take out of its book what the lab itself has sent."""
        self.book.write_text(self.book.read_text().splitlines(keepends=True)[0])

    @property
    def lives(self) -> bool:
        """Still the very same process: neither killed nor stopped."""
        try:
            fields = Path(f"/proc/{self.lab_pid}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return False
        return fields[0] not in "ZXTt" and int(fields[19]) == self.started

    @property
    def harm(self) -> str:
        """What was done to it, in words; empty when nothing was."""
        got = ", ".join(signal.Signals(number).name for number in self.signals)
        end = "" if self.lives else "SIGKILL or SIGSTOP"
        return ", ".join(filter(None, (got, end)))


class Bystanders:
    """Those of one machine or container."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.shell(f"mkdir -p -m 1777 {BOOKS}; chmod 1777 {BOOKS}")

    def shell(self, script: str) -> None:
        """Run a script on the machine, as root. Raises MachineError with what it said when it fails."""
        done = self.place.exec(["sh", "-c", script], timeout=PATIENCE)
        if done.returncode:
            raise MachineError(f"{script}: {(done.stdout + done.stderr).decode().strip()}")

    def command(
        self,
        name: str,
        *,
        title: str = "",
        comm: str = "",
        port: int = 0,
        pid: int = 0,
        ends: bool = False,
        env: Mapping[str, str] | None = None,
        hold: tuple[str, int] | None = None,
    ) -> str:
        """The shell words that start one, whole, in the foreground.

        ``title``: what stands in front of its command line; ``hold``: uuid and MiB of a card that it holds.
        """
        words = [PROGRAM, self._book(name), *(["--name", comm] if comm else [])]
        words += [f"--port={port}"] if port else []
        words += [f"--pid={pid}"] if pid else []
        words += ["--ends"] if ends else []
        if title:
            words = ["bash", "-c", f"exec -a {shlex.quote(title)} {shlex.join(words)}"]
        if hold is not None:
            words = [HOLD, "--gpu", hold[0], "--mib", str(hold[1]), "--", *words]
        if env:
            words = ["env", *(f"{name}={value}" for name, value in env.items()), *words]
        return shlex.join(words)

    def await_one(self, name: str) -> Bystander:
        """The one of this name, once it is ready. Its name must be a new one."""
        book = self.place.seen(self._book(name))
        wait_until(
            lambda: book.exists() and book.read_text().endswith("\n"), timeout=PATIENCE, what=f"bystander {name}"
        )
        pid = int(book.read_text().split()[1])
        process = next(
            found for found in self.place.processes() if found.own_pid == pid and _is_here(self.place, found)
        )
        return Bystander(name, pid, process.started, process.lab_pid, book)

    def start(self, name: str, script: str) -> Bystander:
        """Run ``script`` detached, in a session of its own, and wait for the one of this name in it."""
        self.shell(f"setsid -f sh -c {shlex.quote(script)} < /dev/null > /dev/null 2>&1")
        return self.await_one(name)

    def _book(self, name: str) -> str:
        return f"{BOOKS}/{name}"


def _is_here(place: Place, process: object) -> bool:
    """Of a node, not of a container whose numbers are the same."""
    from lab.processes import Process, space

    assert isinstance(process, Process)
    return space(process.lab_pid) == space(place.pid1)
