"""The daemon: starts containers, starts them again as their policy says, stops them when it is asked to."""

import itertools
import json
import os
import secrets
import signal
import socketserver
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lab.containers.cli import SOCKET

GROUPS = Path("/sys/fs/cgroup/docker")
LOGS = Path("/var/lib/docker/containers")
FIRST_PAUSE, LONGEST_PAUSE, RESET_SECONDS = 0.1, 60.0, 10.0
"""Of the real one: it doubles the pause before each restart until a container has run for ten seconds."""
ENTER = """
echo 0 > "$0"/cgroup.procs || exit 125
while [ "$1" != -- ]; do
    mount --bind "$1" "$2" && shift 2 || exit 125
done
shift
exec "$@"
"""
"""Files are bound in the container's own mount namespace; what it has of files is otherwise the host's."""


class NoError(Exception):
    """What was asked cannot be done; the text is what the real daemon says."""


@dataclass
class Container:
    """One container. `shim` is outside of it and waits for its process 1."""

    id: str
    name: str
    image: str
    restart: str
    command: list[str]
    entrypoint: list[str] = field(default_factory=list)
    env: list[str] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    user: str = ""
    """UID:GID, in numbers; empty: root."""
    binds: list[list[str]] = field(default_factory=list)
    """Source and target of each file that is bound into it."""
    started_at: str = ""
    log_start: int = 0
    status: int = 0
    """Exit status of its last run."""
    shim: "subprocess.Popen[bytes] | None" = None
    stopping: bool = False
    starts: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)

    @property
    def group(self) -> Path:
        return GROUPS / self.id

    @property
    def is_up(self) -> bool:
        return self.shim is not None and self.shim.poll() is None

    def init_pid(self) -> int | None:
        """Process 1 of the container, as its host numbers it."""
        with suppress(OSError):
            for line in (self.group / "cgroup.procs").read_text().split():
                status = Path(f"/proc/{line}/status").read_text()
                if next(row for row in status.splitlines() if row.startswith("NSpid:")).split()[-1] == "1":
                    return int(line)
        return None

    def start(self) -> None:
        self.stopping = False
        threading.Thread(target=self._keep, daemon=True).start()
        with self.changed:
            self.changed.wait_for(lambda: self.is_up, timeout=10)
        # As the real one, which answers once process 1 is there, or has been.
        for _ in range(1000):
            if self.init_pid() is not None or not self.is_up:
                return
            time.sleep(0.01)

    def _keep(self) -> None:
        pause = FIRST_PAUSE
        while True:
            began = time.monotonic()
            status = self._run()
            if self.stopping or not self._again(status):
                return
            pause = FIRST_PAUSE if time.monotonic() - began > RESET_SECONDS else pause
            with self.changed:
                if self.changed.wait_for(lambda: self.stopping, timeout=pause):
                    return
            pause = min(pause * 2, LONGEST_PAUSE)

    def _run(self) -> int:
        """Once, to its end; returns its exit status."""
        self.group.mkdir(parents=True, exist_ok=True)
        log = LOGS / self.id
        log.mkdir(parents=True, exist_ok=True)
        spaces = ["unshare", "--pid", "--mount", "--fork", "--kill-child=KILL", "--mount-proc"]
        words = [*self.entrypoint, *self.command]
        with (log / "log").open("ab") as output, self.changed:
            self.log_start = output.tell()
            self.started_at = datetime.now(UTC).isoformat()
            self.shim = subprocess.Popen(
                [
                    *spaces,
                    "sh",
                    "-c",
                    ENTER,
                    str(self.group),
                    *itertools.chain(*self.binds),
                    "--",
                    *self._as_user(),
                    *words,
                ],
                env={**os.environ, **dict(each.split("=", 1) for each in self.env)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            self.starts += 1
            self.changed.notify_all()
        status = self.status = self.shim.wait()
        with suppress(OSError):
            self.group.rmdir()
        return status

    def _as_user(self) -> list[str]:
        """Whoever becomes another user no longer ends with its parent by itself (prctl(2), PR_SET_PDEATHSIG)."""
        uid, _, gid = self.user.partition(":")
        return ["setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--pdeathsig=KILL"] if uid else []

    def _again(self, status: int) -> bool:
        policy, _, times = self.restart.partition(":")
        if policy == "on-failure":
            return status != 0 and (not times or self.starts <= int(times))
        return policy in ("always", "unless-stopped")

    def stop(self, timeout: float) -> None:
        with self.changed:
            self.stopping = True
            self.changed.notify_all()
        pid = self.init_pid()
        if self.shim is None or pid is None:
            return
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        try:
            self.shim.wait(timeout)
        except subprocess.TimeoutExpired:
            os.kill(pid, signal.SIGKILL)
            self.shim.wait()

    def told(self) -> dict[str, Any]:
        policy, _, times = self.restart.partition(":")
        state = "running" if self.is_up else "exited"
        words = [*self.entrypoint, *self.command]
        return {
            "Path": words[0],
            "Args": words[1:],
            "LogPath": str(LOGS / self.id / "log"),
            "LogStart": self.log_start,
            "Config": {
                "Cmd": self.command,
                "Entrypoint": self.entrypoint or None,
                "Env": self.env,
                "Image": self.image,
                "Labels": self.labels,
                "User": self.user,
                "WorkingDir": "",
            },
            "Id": self.id,
            "Name": f"/{self.name}",
            "Image": f"sha256:{self.image}",
            "RestartCount": max(0, self.starts - 1),
            "State": {
                "Status": state,
                "Running": self.is_up,
                "Pid": (self.init_pid() or 0) if self.is_up else 0,
                "ExitCode": self.status % 256,
                "StartedAt": self.started_at,
            },
            "HostConfig": {"RestartPolicy": {"Name": policy, "MaximumRetryCount": int(times or 0)}},
        }


@dataclass
class Daemon:
    """All containers, by id."""

    containers: dict[str, Container] = field(default_factory=dict)

    def find(self, name: str) -> Container:
        for container in self.containers.values():
            if container.name == name.removeprefix("/") or (name and container.id.startswith(name)):
                return container
        raise NoError(f"Error response from daemon: No such container: {name}")

    def answer(self, asked: dict[str, Any]) -> Any:
        verb = asked["verb"]
        if verb == "run":
            return self._run(asked)
        if verb == "ps":
            return [each.told() for each in self.containers.values() if each.is_up or asked["all"]]
        container = self.find(asked["container"])
        if verb == "stop":
            container.stop(asked["timeout"])
        elif verb == "start" and not container.is_up:
            container.start()
        elif verb == "rename":
            container.name = asked["name"]
        elif verb == "update":
            container.restart = asked["restart"]
        elif verb == "rm":
            if container.is_up:
                raise NoError(f"Error response from daemon: cannot remove container {container.name}: it is running")
            del self.containers[container.id]
        return container.told()

    def _run(self, asked: dict[str, Any]) -> str:
        for source, target in asked["binds"]:
            if not Path(source).exists():
                raise NoError(
                    'Error response from daemon: invalid mount config for type "bind": '
                    f"bind source path does not exist: {source}"
                )
            Path(target).parent.mkdir(parents=True, exist_ok=True)
            Path(target).touch()
        made = Container(
            secrets.token_hex(32),
            asked["name"] or secrets.token_hex(4),
            asked["image"],
            asked["restart"],
            asked["command"],
            asked["entrypoint"],
            asked["env"],
            asked["labels"],
            asked["user"],
            [list(each) for each in asked["binds"]],
        )
        if any(each.name == made.name for each in self.containers.values()):
            raise NoError(f'Error response from daemon: Conflict. The container name "/{made.name}" is already in use.')
        self.containers[made.id] = made
        made.start()
        return made.id


def serve() -> int:
    """Until a signal ends it; containers end with it."""
    daemon = Daemon()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            try:
                answer = {"result": daemon.answer(json.loads(self.rfile.readline()))}
            except NoError as error:
                answer = {"refused": str(error)}
            self.wfile.write(json.dumps(answer).encode() + b"\n")

    Path(SOCKET).unlink(missing_ok=True)
    os.umask(0o117)  # root's only, as there is no group docker
    with socketserver.ThreadingUnixStreamServer(SOCKET, Handler) as server:
        os.umask(0o022)
        server.serve_forever()
    return 0
