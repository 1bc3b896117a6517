"""Handles for the engines of the lab, started on a `Machine`."""

import json
import signal
import socket
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from lab.engines.environment import VERSIONS, environment_of
from tests.lab.machine import Machine, fields_of, wait_until

SCALE = "0.1"
READY = "The server is fired up and ready to roll!"
LISTENING = "Uvicorn running on"
MODEL = {
    "architectures": ["Qwen3ForCausalLM"],
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 40960,
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def http(port: int, path: str, body: object = None, *, key: str = "", timeout: float = 10) -> tuple[int, str]:
    """Status and text; the body makes it a POST. OSError when nobody listens."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data=data)
    if key:
        request.add_header("Authorization", f"Bearer {key}")
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Sglang:
    """One simulated SGLang server on two cards."""

    def __init__(self, machine: Machine, *flags: str, hints: dict[str, Any] | None = None, **options: Any) -> None:
        self.machine = machine
        self.port: int = options.pop("port", 0) or free_port()
        self.model = machine.directory / f"model-{self.port}"
        self.model.mkdir(exist_ok=True)
        lab = {"weights_mib": 27000, "load_seconds": 1.0, "warmup_seconds": 0.0, **(hints or {})}
        self.log_path = machine.directory / f"log-{self.port}-{len(machine.processes)}"
        python = str(environment_of(options.pop("version", VERSIONS[0])) / "bin/python")
        model = {**MODEL, **options.pop("model", {}), "lab": lab}
        (self.model / "config.json").write_text(json.dumps(model))
        start = options.pop("start", ("-m", "sglang.launch_server", "--model-path"))
        argv = (python, *start, str(self.model), "--tp", options.pop("tp", "2"), "--host", "127.0.0.1")
        argv += ("--port", str(self.port), *flags)
        environ = {"LAB_TIME_SCALE": SCALE, **options}
        self.process = machine.start(*argv, log=self.log_path, **environ)

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    def wait_for(self, text: str, *, timeout: float = 20) -> None:
        wait_until(lambda: text in self.log or self.process.poll() is not None, timeout=timeout)
        assert text in self.log, self.log

    def ready(self) -> "Sglang":
        self.wait_for(READY)
        return self

    def children(self) -> list[tuple[str, int]]:
        """Title (or last word of the command line) and pid of each child."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and _parent(int(entry.name)) == self.process.pid:
                title = (entry / "cmdline").read_bytes().rstrip(b"\0 ").split(b"\0")[-1].decode()
                found.append((title, int(entry.name)))
        return found

    def tree(self) -> dict[str, int]:
        return dict(self.children())

    def importing(self) -> list[int]:
        """Workers that have no name yet."""
        return [pid for title, pid in self.children() if title == "--multiprocessing-fork"]

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(20)


def _parent(pid: int) -> int:
    try:
        return int(fields_of(pid)[1])
    except OSError:
        return 0


def runs(pid: int) -> bool:
    try:
        return fields_of(pid)[0] not in "ZX"
    except OSError:
        return False
