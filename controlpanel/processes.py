"""Child processes that cannot outlive the supervisor. Standard library only: the supervisor stays small."""

import ctypes
import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass
class Child:
    """A process with a name; it has its own session, so that Ctrl-C reaches the supervisor alone."""

    name: str
    argv: Sequence[str]
    fds: tuple[int, ...] = ()
    _process: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)

    def start(self) -> None:
        """Start it. Call from the main thread: the kernel ends the child with the thread that started it."""
        parent = os.getpid()

        def die_with_parent() -> None:
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != parent:  # it ended between the fork and the request
                os._exit(1)

        self._process = subprocess.Popen(
            self.argv,
            stdin=subprocess.DEVNULL,
            pass_fds=self.fds,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def exit_status(self) -> int | None:
        """Return how it ended (a signal as a negative number), or None while it runs."""
        return self._process.poll() if self._process else 0

    def wait(self, *, timeout: float) -> bool:
        """Wait for its end; False when it still runs after `timeout` seconds."""
        if self._process is None:
            return True
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        return True

    def terminate(self) -> None:
        """Ask it to end."""
        if self._process and self._process.poll() is None:
            self._process.terminate()

    def kill(self) -> None:
        """End it and whatever is left in its session's process group."""
        if self._process is None:
            return
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(5)
