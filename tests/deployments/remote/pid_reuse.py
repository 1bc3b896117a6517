"""Run in a pid namespace of its own: send by the script's Python, and give the pid to another at a chosen moment.

Arguments: WHEN TEXT. Prints what the text said, and whether the process that has the pid now lives.
"""

import _signal
import contextlib
import io
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def start_time(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def spawn() -> int:
    """A process that waits."""
    pid = os.fork()
    if pid == 0:
        signal.pause()
    return pid


def reuse(pid: int) -> None:
    """End it, and let the kernel give its number to another, which started later."""
    was = start_time(pid)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    while True:
        Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
        other = spawn()
        assert other == pid, "the kernel gave another number"
        if start_time(pid) != was:
            return
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        time.sleep(0.01)


def around(call: Callable[..., Any], *, before: Callable[[], None] | None, after: Callable[[], None] | None) -> Any:
    def wrapped(*args: Any) -> Any:
        if before:
            before()
        result = call(*args)
        if after:
            after()
        return result

    return wrapped


def main(when: str, text: str) -> None:
    pid = spawn()
    word = f"{pid}:{start_time(pid)}"

    def give() -> None:
        reuse(pid)

    if when == "before":
        give()
    elif when == "opened":
        os.pidfd_open = around(os.pidfd_open, before=None, after=give)
    elif when == "compared":
        _signal.pidfd_send_signal = around(_signal.pidfd_send_signal, before=give, after=None)
    sys.argv = ["-c", "TERM", word]
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(text, "BY_PIDFD", "exec"), {"__name__": "__main__"})
    ended, _ = os.waitpid(pid, os.WNOHANG) if when != "never" else os.waitpid(pid, 0)
    print(said.getvalue().replace(word, "it").strip(), "ended" if ended else "lives")


main(*sys.argv[1:])
