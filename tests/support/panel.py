"""A real panel for tests: its own data directory, tables, broker, and the product's processes, started one by one.

The test is its web process: inside ``entered`` the services of this process work on the panel's tables and ring
its workers through its broker.
"""

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self
from unittest import mock

from celery import Task
from django.db import connections
from django.test import override_settings

from controlpanel import env
from controlpanel.celery import app
from controlpanel.embedded_valkey import EmbeddedValkey
from controlpanel.processes import Child
from controlpanel.supervisor import children
from tests.support.waiting import until

REPOSITORY = Path(__file__).resolve().parents[2]
DATABASE = "relaunch.sqlite3"
OWN_SETTINGS = ("REDIS_URL", "DATABASE_URL", "SECRET_KEY", "DJANGO_SETTINGS_MODULE")


class Panel:
    """One panel. Use it in a ``with`` block: the broker runs inside it, and no process outlives it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.broker_socket = env.valkey_socket(directory=directory)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._valkey = EmbeddedValkey(socket_path=self.broker_socket, data=directory / "valkey")
        self._broker: Child | None = None

    @property
    def environment(self) -> dict[str, str]:
        """What the panel's processes are started with."""
        kept = {name: value for name, value in os.environ.items() if name not in OWN_SETTINGS}
        return {
            **kept,
            "RELAUNCH_DATA_DIR": str(self.directory),
            "DJANGO_SETTINGS_MODULE": "controlpanel.settings",
            "PYTHONPATH": str(REPOSITORY),
        }

    # --- Processes

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        make_tables(self.directory / DATABASE, environment=self.environment)
        self.start_broker()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in list(self.processes):
            self.kill(name)
        self.stop_broker()

    def start_broker(self) -> None:
        """Start Valkey on the panel's socket."""
        self._broker = self._valkey.start()

    def stop_broker(self) -> None:
        """End it with SIGKILL: nothing is handed over."""
        if self._broker is not None:
            self._broker.kill()
            self._broker = None

    def flush_broker(self) -> None:
        """Every message in it is lost."""
        import redis

        with redis.Redis(unix_socket_path=str(self.broker_socket)) as client:
            client.flushall()

    def start(self, kind: str, *, name: str = "") -> None:
        """Start the product's own ``worker`` or ``monitor``; ``name`` tells several apart."""
        argv = next(child.argv for child in children(fd=0) if child.name == kind)
        self._start(name or kind, list(argv))

    def start_worker(self, name: str, *, at: str = "", lease: float = 0.0, sweeps: bool = True) -> None:
        """Start a worker of tests: ``at`` is a failpoint as ``launch-sent=kill``, ``lease`` its length in seconds."""
        options = ["--at", at] if at else []
        options += ["--lease", str(lease)] if lease else []
        options += [] if sweeps else ["--no-sweeper"]
        self._start(name, [sys.executable, "-m", "tests.support.failpoint_worker", *options])

    def _start(self, name: str, argv: list[str]) -> None:
        with self.log_of(name).open("ab") as log:
            self.processes[name] = subprocess.Popen(
                argv,
                env=self.environment,
                cwd=REPOSITORY,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def log_of(self, name: str) -> Path:
        """Where a process writes."""
        return self.directory / f"{name}.log"

    def is_alive(self, name: str) -> bool:
        """Whether a process runs; a stopped one does."""
        return self.processes[name].poll() is None

    def kill(self, name: str) -> None:
        """End a process as a power cut does."""
        process = self.processes.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)

    def wait_for_death(self, name: str, *, seconds: float = 60.0) -> None:
        """Until a process has ended by its failpoint."""
        until(lambda: not self.is_alive(name), seconds=seconds, what=f"end of {name}", tell=self.log_of(name).read_text)
        assert self.processes.pop(name).returncode == -signal.SIGKILL, self.log_of(name).read_text()

    def is_stopped(self, name: str) -> bool:
        """Whether a process is frozen (SIGSTOP)."""
        stat = Path(f"/proc/{self.processes[name].pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] == "T"

    def thaw(self, name: str) -> None:
        """SIGCONT."""
        os.killpg(self.processes[name].pid, signal.SIGCONT)

    # --- From this process

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """This process's models and services are the panel's, and rings reach its workers."""
        connection = connections["default"]
        before = connection.settings_dict["NAME"]
        connections.close_all()
        connection.settings_dict["NAME"] = str(self.directory / DATABASE)
        try:
            with (
                override_settings(DATA_DIR=self.directory),
                mock.patch("deployments.tasks.ring", self.ring),
                mock.patch("deployments.tasks.ring_look", self._ring_of("look_for_servers")),
                mock.patch("deployments.tasks.ring_clone_check", self._ring_of("check_clone")),
                mock.patch("deployments.tasks.ring_release", self._ring_of("release")),
                mock.patch("hosts.tasks.ring_test", lambda number: None),
            ):
                yield
        finally:
            connections.close_all()
            connection.settings_dict["NAME"] = before

    def ring(self, job_id: int) -> None:
        """A doorbell for a job; lost without harm when the broker is down, as the product's own."""
        from deployments.tasks import advance

        self.send(advance, job_id)

    def _ring_of(self, name: str) -> Callable[[int], None]:
        """A doorbell of another task of the deployments."""
        from deployments import tasks

        return lambda number: self.send(getattr(tasks, name), number)

    def send(self, task: Task, *arguments: object) -> None:
        """Publish one message on the panel's broker."""
        with (
            contextlib.suppress(Exception),  # as the product's own ring: the broker's client raises many kinds
            app.connection_for_write(f"redis+socket://{self.broker_socket}") as connection,
        ):
            task.apply_async(arguments, connection=connection, retry=False)


def make_tables(database: Path, *, environment: dict[str, str]) -> None:
    """The panel's tables in ``database``: migrated once by each test run, copied from then on."""
    template = Path(os.environ["RELAUNCH_DATA_DIR"]) / "template.sqlite3"
    if not template.exists():
        command = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
        subprocess.run(command, env=environment, cwd=REPOSITORY, check=True)
        # One file, whatever still lies beside the database in its write-ahead log.
        with (
            contextlib.closing(sqlite3.connect(database)) as source,
            contextlib.closing(sqlite3.connect(template)) as copy,
        ):
            source.backup(copy)
        return
    shutil.copyfile(template, database)
