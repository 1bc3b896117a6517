"""What people do today, over the OpenSSH client: by hand, with a careful script, and the fastest there can be."""

import http.client
import itertools
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.host import Host

OPTIONS = (
    *("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"),
    *("-o", "LogLevel=ERROR", "-o", "IdentitiesOnly=yes"),
)
READY_SECONDS = 60.0

FLOOR = """
kill $(cat {pid})
while kill -0 $(cat {pid}) 2> /dev/null; do sleep 0.02; done
until [ "$(nvidia-smi -i {card} --query-gpu=memory.used --format=csv,noheader,nounits)" = 0 ]; do sleep 0.02; done
{launch}
until grep -q '{ready}' {log}; do sleep 0.02; done
"""


@dataclass(frozen=True)
class Server:
    """A server that is restarted by hand: its command, its port, one card, and the line that says ready."""

    command: str
    port: int
    card: int
    ready: str

    @property
    def pid_file(self) -> str:
        return f"/tmp/peer-{self.port}.pid"

    @property
    def log(self) -> str:
        return f"/tmp/peer-{self.port}.log"

    @property
    def launch(self) -> str:
        """As one does by hand: detached, output to a file, the pid noted."""
        inner = f"echo $$ > {self.pid_file}; exec {self.command}"
        return f"setsid -f sh -c '{inner}' < /dev/null > {self.log} 2>&1"


class Client:
    """The OpenSSH client of one host, cold or over a warm control master."""

    def __init__(self, host: Host, *, key: Path, directory: Path) -> None:
        self._host = host
        self._base = ["-i", str(key), *OPTIONS, f"{host.user}@{host.address}"]
        self._control = ["-o", f"ControlPath={directory}/master-%h"]
        self.execs = 0

    def __enter__(self) -> "Client":
        """Open the control master."""
        subprocess.run(["ssh", "-M", "-N", "-f", *self._control, *self._base], check=True)
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        subprocess.run(["ssh", *self._control, "-O", "exit", *self._base], capture_output=True, check=False)

    def cold(self, command: str) -> "subprocess.CompletedProcess[str]":
        """Over a connection of its own."""
        return self._run([], command)

    def warm(self, command: str) -> "subprocess.CompletedProcess[str]":
        """Over the open connection."""
        return self._run(self._control, command)

    def _run(self, options: Sequence[str], command: str) -> "subprocess.CompletedProcess[str]":
        self.execs += 1
        return subprocess.run(
            ["ssh", *options, *self._base, command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=90,
        )

    # --- The three ways. Each returns its wall time in seconds.

    def by_hand(self, server: Server) -> float:
        """kill; sleep 3; ps; sleep 2; nvidia-smi; launch; look every second: a fresh connection each."""
        began = time.monotonic()
        self.cold(f"kill $(cat {server.pid_file})")
        time.sleep(3)
        self.cold(f"ps -p $(cat {server.pid_file})")
        time.sleep(2)
        self.cold("nvidia-smi")
        self.cold(server.launch)
        self.wait_until_ready(server, every=1.0)
        return time.monotonic() - began

    def carefully(self, server: Server) -> float:
        """A careful script over a warm connection: looks every 0.2 s whether it is gone, free and ready."""
        began = time.monotonic()
        self.warm(f"kill $(cat {server.pid_file})")
        while self.warm(f"kill -0 $(cat {server.pid_file})").returncode == 0:
            time.sleep(0.2)
        query = f"nvidia-smi -i {server.card} --query-gpu=memory.used --format=csv,noheader,nounits"
        while self.warm(query).stdout.strip() != "0":
            time.sleep(0.2)
        self.warm(server.launch)
        self.wait_until_ready(server, every=0.2)
        return time.monotonic() - began

    def at_once(self, server: Server) -> float:
        """The floor: one script in one exec over a warm connection, looking every 20 ms on the host itself."""
        script = FLOOR.format(
            pid=server.pid_file, card=server.card, launch=server.launch, log=server.log, ready=server.ready
        )
        began = time.monotonic()
        done = self.warm(script)
        wall = time.monotonic() - began
        assert done.returncode == 0, done.stderr
        return wall

    def start(self, server: Server) -> None:
        """Bring it up for the first time."""
        self.warm(server.launch)
        self.wait_until_ready(server, every=0.05)

    def stop(self, server: Server) -> None:
        """End it and wait for its card."""
        self.warm(f"kill $(cat {server.pid_file}); while kill -0 $(cat {server.pid_file}); do sleep 0.05; done")

    def wait_until_ready(self, server: Server, *, every: float) -> None:
        """Until /health answers 200, asked straight over the network."""
        deadline = time.monotonic() + READY_SECONDS
        for number in itertools.count():
            if number:
                time.sleep(every)
            if self._answers(server.port):
                return
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"{server.command}: not ready in {READY_SECONDS:.0f} s\n{self.cold(f'cat {server.log}')}"
                )

    def _answers(self, port: int) -> bool:
        connection = http.client.HTTPConnection(self._host.address, port, timeout=5)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()
