"""`python -m lab enter`: a private network, process table and mount table for a command and its fleet.

Three processes: the caller's own one waits outside and passes signals on; init is PID 1 inside, reaps
orphans, and starts the command. When init ends, for whatever reason, the kernel ends all the rest.
"""

import errno
import fcntl
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from lab import syscalls

WEB_FD = 3
SPACES = (
    syscalls.CLONE_NEWNS | syscalls.CLONE_NEWPID | syscalls.CLONE_NEWNET | syscalls.CLONE_NEWUTS | syscalls.CLONE_NEWIPC
)
FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class RefusedError(Exception):
    """The lab cannot be made here; the text says why and what to do."""


def is_inside() -> bool:
    """Whether this process runs in a lab."""
    return "LAB_ENTERED" in os.environ


def enter(command: Sequence[str], *, listen: tuple[str, int] | None) -> int:
    """Run `command` in fresh namespaces and return its exit status (128 + N for signal N).

    `listen` is bound outside and inherited as file descriptor 3. Raises RefusedError.
    """
    if listen:
        _listen(listen)
        os.environ["LAB_WEB_FD"] = str(WEB_FD)
    verdict_end, report_end = os.pipe()
    try:
        _leave()
    except OSError as error:
        raise RefusedError(explain(error)) from error
    outer = os.getpid()
    child = os.fork()
    if child == 0:
        os.close(verdict_end)
        os._exit(_init(command, report=report_end, outer=outer))
    os.close(report_end)
    _pass_signals_to(child)
    with os.fdopen(verdict_end) as verdict:
        trouble = verdict.read()
    _, status = os.waitpid(child, 0)
    if trouble:
        raise RefusedError(trouble)
    return _as_exit_code(status)


def _listen(address: tuple[str, int]) -> None:
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        server.bind(address)
    except OSError as error:
        raise RefusedError(_listen_trouble(error, *address)) from error
    server.listen(128)
    descriptor = server.detach()
    os.dup2(descriptor, WEB_FD, inheritable=True)
    if descriptor != WEB_FD:
        os.close(descriptor)


def _listen_trouble(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"Port {port} on {host} is in use by another program (maybe another panel). "
            f"End it, or choose another port: make demo PORT={port + 1}"
        )
    if error.errno == errno.EACCES:
        return f"This user may not listen on port {port}; choose one above 1023: make demo PORT=8000"
    return f"Cannot listen on {host}:{port}: {error.strerror}."


def _leave() -> None:
    """Become root of fresh namespaces. A plain user needs a user namespace for that."""
    user, group = os.geteuid(), os.getegid()
    plain = user != 0
    syscalls.unshare(SPACES | (syscalls.CLONE_NEWUSER if plain else 0))
    if plain:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    syscalls.mount("", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)


def _init(command: Sequence[str], *, report: int, outer: int) -> int:
    try:
        syscalls.die_with_parent(signal.SIGKILL)
        syscalls.mount("proc", "/proc", kind="proc")
        _loopback_up()
        socket.sethostname("lab")
    except OSError as error:
        os.write(report, explain(error).encode())
        return 1
    environment = dict(os.environ, LAB_ENTERED="1", LAB_OUTER_PID=str(outer))
    with_socket = os.environ.get("LAB_WEB_FD") == str(WEB_FD)
    try:
        # The command's process is waited for by _reap_until, not by this object.
        child = subprocess.Popen(command, env=environment, pass_fds=(WEB_FD,) if with_socket else ())
    except OSError as error:
        os.write(report, f"Cannot run {command[0]}: {error.strerror}.".encode())
        return 127
    os.close(report)
    if with_socket:
        os.close(WEB_FD)
    return _reap_until(child.pid)


def _reap_until(wanted: int) -> int:
    """Reap every orphan until `wanted` ends; signals meant for the whole lab go to it."""
    _pass_signals_to(wanted)
    while True:
        pid, status = os.wait()
        if pid == wanted:
            return _as_exit_code(status)


def _pass_signals_to(pid: int) -> None:
    """Hand on what ends the lab; a Ctrl-C at our terminal has reached the command already."""
    for number in FORWARDED:
        signal.signal(number, lambda received, _frame: os.kill(pid, received))
    if _has_the_terminal():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _has_the_terminal() -> bool:
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


def _as_exit_code(status: int) -> int:
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _loopback_up() -> None:
    request = struct.pack("16sH22x", b"lo", 0x1 | 0x40)  # IFF_UP | IFF_RUNNING
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        fcntl.ioctl(handle, 0x8914, request)  # SIOCSIFFLAGS


def _setting(name: str) -> str:
    try:
        return Path("/proc/sys", name).read_text().strip()
    except OSError:
        return ""


def explain(error: OSError) -> str:
    """Why the kernel refused the namespaces, and what to do, in words."""
    if not sys.platform.startswith("linux"):
        return "The lab needs Linux namespaces. Run it on a Linux machine or in a Linux virtual machine."
    start = f"This machine does not allow the namespaces that the lab is made of ({error.strerror}). "
    if _setting("kernel/apparmor_restrict_unprivileged_userns") == "1":
        return start + "Run: sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0 (until the next boot)."
    if _setting("kernel/unprivileged_userns_clone") == "0":
        return start + "Run: sudo sysctl kernel.unprivileged_userns_clone=1 (until the next boot)."
    if _setting("user/max_user_namespaces") == "0":
        return start + "Run: sudo sysctl user.max_user_namespaces=15000 (until the next boot)."
    return start + "Run it as root, or, inside a container, start that container with --privileged."
