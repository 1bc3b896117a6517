"""Keeps the panel's processes running: broker, web, worker and monitor.

`python -m controlpanel.supervisor --fd N --url URL [--valkey-socket PATH --valkey-data PATH]`. It imports
neither Django nor Celery, so it stays small. A child that ends is started again after a pause that grows;
Ctrl-C or SIGTERM ends all within ten seconds, and children end by themselves when this process is killed.
"""

import argparse
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from controlpanel.embedded_valkey import EmbeddedValkey, ValkeyError
from controlpanel.processes import Child

STOP_SECONDS = 8.0  # for web, worker and monitor; the broker ends after them
BROKER_STOP_SECONDS = 1.5
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
STEADY_SECONDS = 60.0  # a child that ran this long starts over with the first pause
READY_SECONDS = 60.0
_BEAT = 0.5
_AS_ROOT = "You're running the worker with superuser privileges"  # JSON only, so Celery's fear does not apply


def say(sentence: str) -> None:
    """Tell the person at the terminal."""
    sys.stderr.write(f"panel: {sentence}\n")
    sys.stderr.flush()


@dataclass
class Kept:
    """A child and when it may be started again."""

    child: Child
    clock: Callable[[], float] = time.monotonic
    pause: float = FIRST_PAUSE
    started: float = 0.0
    again_at: float | None = field(default=None)

    def start(self) -> None:
        self.child.start()
        self.started = self.clock()
        self.again_at = None

    def look(self) -> None:
        """Start the child again where it has ended and its pause is over."""
        now = self.clock()
        if self.again_at is not None:
            if now >= self.again_at:
                self.start()
            return
        status = self.child.exit_status()
        if status is None:
            return
        self.pause = FIRST_PAUSE if now - self.started > STEADY_SECONDS else min(self.pause * 2, LONGEST_PAUSE)
        self.again_at = now + self.pause
        say(f"{self.child.name} ended ({describe_exit(status)}); starting it again in {self.pause:.0f} s")


def describe_exit(status: int) -> str:
    """Return an exit status in words."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"


def children(*, fd: int, ready_fd: int | None = None) -> list[Child]:
    """Return the panel's own processes, not yet started. The web process writes to `ready_fd` once it serves."""
    python, manage = sys.executable, os.fspath(Path(__file__).resolve().parent.parent / "manage.py")
    worker = "-A controlpanel worker -P threads -c 64 -Q jobs,probes --without-gossip --without-mingle"
    options = ["--without-heartbeat", "--loglevel", "WARNING", "--hostname", f"relaunch-{os.getpid()}@%h"]
    return [
        _web(python, fd=fd, ready_fd=ready_fd),
        Child(
            name="worker",
            argv=[python, "-W", f"ignore:{_AS_ROOT}", "-m", "celery", "--quiet", *worker.split(), *options],
        ),
        Child(name="monitor", argv=[python, manage, "monitor"]),
    ]


def _web(python: str, *, fd: int, ready_fd: int | None) -> Child:
    argv = [python, "-m", "controlpanel.serve", "--fd", str(fd)]
    if ready_fd is None:
        return Child(name="web", argv=argv, fds=(fd,))
    return Child(name="web", argv=[*argv, "--ready-fd", str(ready_fd)], fds=(fd, ready_fd))


class Supervisor:
    """Starts everything, keeps it running, and ends it."""

    def __init__(self, processes: Sequence[Child], *, ready_fd: int, url: str, valkey: EmbeddedValkey | None) -> None:
        self._url = url
        self._ready_fd = ready_fd
        self._valkey = valkey
        self._broker: Kept | None = None
        self._kept = [Kept(child) for child in processes]
        self._stopping = False

    def run(self) -> int:
        """Run until told to stop. Returns the exit status for the shell."""
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        try:
            self._start_broker()
            for kept in self._kept:
                kept.start()
            self._say_when_ready()
            while not self._stopping:
                self._look()
                time.sleep(_BEAT)
        except ValkeyError as problem:
            say(str(problem))
            return 1
        finally:
            self._stop()
        return 0

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._stopping = True

    def _start_broker(self) -> None:
        if self._valkey is not None:
            self._broker = Kept(self._valkey.start(), started=time.monotonic())

    def _look(self) -> None:
        for kept in ([self._broker] if self._broker else []) + self._kept:
            kept.look()

    def _say_when_ready(self) -> None:
        """Wait for the web process's word, and look after the children meanwhile.

        Not by a request: the listening socket may have been opened in another network namespace.
        """
        deadline = time.monotonic() + READY_SECONDS
        while not self._stopping and not select.select([self._ready_fd], [], [], 0.05)[0]:
            if time.monotonic() > deadline:
                say(f"the web process has not answered for {READY_SECONDS:.0f} s; its messages stand above")
                return
            self._look()
        if not self._stopping:
            say(f"panel ready in {seconds_since_start():.1f} s at {self._url}")

    def _stop(self) -> None:
        """End the children, the broker last."""
        say("stopping")
        deadline = time.monotonic() + STOP_SECONDS
        for kept in self._kept:
            kept.child.terminate()
        for kept in self._kept:
            if not kept.child.wait(timeout=max(0.0, deadline - time.monotonic())):
                say(f"{kept.child.name} did not end by itself; killed")
                kept.child.kill()
        if self._broker:
            self._broker.child.terminate()
            if not self._broker.child.wait(timeout=BROKER_STOP_SECONDS):
                self._broker.child.kill()


def seconds_since_start() -> float:
    """Return how long ago this process began, the programs it ran before this one included."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    began = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - began


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs the panel's processes. Use `manage.py panel`.")
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--url", required=True)
    parser.add_argument("--valkey-socket", type=Path)
    parser.add_argument("--valkey-data", type=Path)
    options = parser.parse_args()
    valkey = None
    if options.valkey_socket:
        valkey = EmbeddedValkey(socket_path=options.valkey_socket, data=options.valkey_data)
    ready_read, ready_write = os.pipe()
    processes = children(fd=options.fd, ready_fd=ready_write)
    return Supervisor(processes, ready_fd=ready_read, url=options.url, valkey=valkey).run()


if __name__ == "__main__":
    sys.exit(main())
