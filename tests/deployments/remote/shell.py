"""Run the scripts for real, in a home of their own, under the shell that POSIX hosts have."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from deployments.remote.script import Said, Script, build, wrapper

BOOT_ID = Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def wait_for(condition: Callable[[], object], *, what: str, seconds: float = 10.0) -> None:
    """Look until it holds; a test fails with ``what`` when it never does."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.005)


def start_time(pid: int) -> int:
    """Field 22 of /proc/PID/stat."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def lives(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def small_files_only(limit: int) -> Callable[[], None]:
    """For a child: no file may grow beyond ``limit`` bytes, as on a disk that is full."""

    def apply() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return apply


@dataclass
class Host:
    """A home directory and a place for programs such as nvidia-smi."""

    home: Path
    processes: list[int] = field(default_factory=list)

    @property
    def base(self) -> Path:
        return self.home / ".relaunch/panel/7"

    @property
    def bin(self) -> Path:
        return self.home / "bin"

    def env(self) -> dict[str, str]:
        return {"HOME": str(self.home), "PATH": f"{self.bin}:{os.environ['PATH']}"}

    def program(self, name: str, text: str) -> Path:
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path

    def script(self, *parts: str, fence: int = 1, **values: object) -> Script:
        common = {"PANEL": "panel", "DEPLOYMENT": 7, "FENCE": fence, "BOOT": ""}
        return build(*parts, values={**common, **{name.upper(): value for name, value in values.items()}})

    def start(self, script: Script, *, preexec: Callable[[], None] | None = None) -> subprocess.Popen[bytes]:
        """Send it, and keep its stdin open as the panel does."""
        process = subprocess.Popen(
            script.argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self.env(),
            cwd=self.home,
            preexec_fn=preexec,
            restore_signals=preexec is None,
        )
        assert process.stdin is not None
        process.stdin.write(script.stdin)
        process.stdin.flush()
        return process

    def run(self, script: Script, *, preexec: Callable[[], None] | None = None) -> list[Said]:
        """Everything that it says until its end."""
        process = self.start(script, preexec=preexec)
        assert process.stdout is not None and process.stdin is not None
        reader = script.reader()
        output = process.stdout.read()
        process.stdin.close()
        process.stdout.close()
        process.wait(10)
        said = list(reader.feed(output))
        assert reader.ended, output
        for line in said:
            if line.word == "record" and line.rest[0] == "pid":
                self.processes.append(int(line.rest[1]))
        return said

    def spawn(self, *argv: str, **options: object) -> int:
        """A process of no launch. It is reaped at once when it ends, as init would do."""
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        code = (
            "import os, subprocess, sys\n"
            "child = subprocess.Popen(sys.argv[1:], start_new_session=True, stdout=subprocess.DEVNULL)\n"
            "print(child.pid, flush=True)\nos.close(1)\nchild.wait()\n"
        )
        keeper = subprocess.Popen(
            [sys.executable, "-S", "-c", code, *argv], env=self.env(), **{**quiet, "stdout": subprocess.PIPE, **options}
        )  # type: ignore[call-overload]
        pid = int(keeper.stdout.readline())
        keeper.stdout.close()
        self.processes.append(pid)
        self._keepers.append(keeper)
        return pid

    _keepers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def launch_script(
        self, argv: list[str], *, launch: str | None = None, mode: str = "start", **values: object
    ) -> Script:
        env: dict[str, str] = dict(values.pop("env", {}))  # type: ignore[call-overload]
        usual: dict[str, object] = {
            "mode_launch": mode,
            "launch": launch or str(uuid4()),
            "port": 47_123,
            "program": argv[0],
            "workdir": "",
            "limits": [],
            "needs": [],
            "musts": [],
            "force": 0,
            "secrets": "",
            "settings": "",
            "way": "wrapper",
            "runner": "",
            "unit": "",
            "stop_seconds": 20,
            "open_files": "",
            "locked_memory": "",
            "run": wrapper(argv, env=env, workdir=str(values.get("workdir", ""))),
        }
        return self.script("port", "start", "launch", **(usual | values))

    def launch(self, argv: list[str], **values: object) -> list[Said]:
        return self.run(self.launch_script(argv, **values))  # type: ignore[arg-type]

    def close(self) -> None:
        for pid in self.processes:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        for keeper in self._keepers:
            keeper.wait(10)


@contextlib.contextmanager
def temporary_host(directory: Path) -> Iterator[Host]:
    host = Host(directory)
    host.bin.mkdir()
    try:
        yield host
    finally:
        host.close()


def words(said: list[Said]) -> list[str]:
    return [line.word for line in said]


def record(said: list[Said]) -> dict[str, str]:
    return {line.rest[0]: line.rest[1] for line in said if line.word == "record"}


def said_of(said: list[Said], word: str) -> list[str]:
    return [line.text for line in said if line.word == word]


def sent(said: list[Said]) -> list[str]:
    """Signals and pids, whichever way they went."""
    return [line.removesuffix(" pidfd") for line in said_of(said, "sent")]
