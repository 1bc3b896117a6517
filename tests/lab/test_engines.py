"""The stand-in keeps its times; llama.cpp is the real one."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.engines.environment import ENVIRONMENT
from tests.lab.engines import free_port, http, listens
from tests.lab.machine import H200, Machine, running_machine, wait_until

pytestmark = pytest.mark.process


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with running_machine(tmp_path / "gpus") as running:
        yield running


# --- stand-in


@pytest.mark.slow
def test_standin_keeps_its_times(machine: Machine) -> None:
    port = free_port()
    begun = time.monotonic()
    engine = machine.start("standin", "--port", str(port), "--mib", "9000", RELAUNCH_LAUNCH_ID="L-7")
    wait_until(lambda: machine.used() == 9000, timeout=0.9)
    assert not listens(port)
    wait_until(lambda: listens(port))
    assert 0.95 < time.monotonic() - begun < 1.5
    assert http(port, "/health") == (200, '{"status":"ok"}')
    assert json.loads(http(port, "/v1/completions", {"prompt": "a"})[1])["choices"][0]["text"] == " Paris."
    engine.terminate()
    stopped = time.monotonic()
    assert engine.wait(5) == 0
    died = time.monotonic()
    assert 0.28 < died - stopped < 0.8
    assert (machine.used(), machine.apps()) == (9000, [])
    wait_until(lambda: machine.used() == 0)
    assert 0.4 < time.monotonic() - died < 1.0
    assert machine.ledger() == [
        {
            "time": pytest.approx(time.time(), abs=30),
            "pid": engine.pid,
            "kind": "standin",
            "port": port,
            "launch": "L-7",
        }
    ]
    assert (machine.directory / "output").read_text() == f"standin ready on port {port}\nstandin stopping\n"


def test_standin_refuses_a_taken_port_at_once(machine: Machine) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = machine.run("standin", "--port", str(taken.getsockname()[1]), "--mib", "10", timeout=0.9)
    assert done.returncode == 1
    assert "Address already in use" in done.stderr


# --- llama.cpp


class Llama:
    """The real llama.cpp with a tiny model."""

    def __init__(self, machine: Machine, model: Path, *flags: str, port: int = 0) -> None:
        self.port = port or free_port()
        self.log_path = machine.directory / f"llama-{len(machine.processes)}"
        argv = (
            str(ENVIRONMENT / "bin/python"),
            "lab/engines/bin/llama-server",
            "-m",
            str(model),
            "--host",
            "127.0.0.1",
        )
        self.process = machine.start(*argv, "--port", str(self.port), *flags, log=self.log_path, LLAMA_LAB_MIB="7000")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    subprocess.run([sys.executable, "-m", "lab.engines.tiny_gguf", str(path)], check=True, timeout=60)
    return path


@pytest.mark.slow
def test_llama_serves_for_real_and_ends_cleanly(machine: Machine, tiny: Path) -> None:
    llama = Llama(machine, tiny, "--metrics")
    wait_until(lambda: "server is listening on http://127.0.0.1" in llama.log_path.read_text(), timeout=20)
    assert http(llama.port, "/health") == (200, '{"status":"ok"}')
    answer = json.loads(http(llama.port, "/v1/completions", {"prompt": "hello", "max_tokens": 3})[1])
    assert answer["usage"]["completion_tokens"] == 3
    assert "llamacpp:tokens_predicted_total 3" in http(llama.port, "/metrics")[1]
    assert machine.used() == 7000
    llama.process.terminate()
    assert llama.process.wait(10) == 0
    assert machine.used() == 0


@pytest.mark.slow
def test_llama_fails_as_llama_does(machine: Machine, tiny: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        llama = Llama(machine, tiny, port=taken.getsockname()[1])
        assert llama.process.wait(20) == 1
    assert "exiting due to HTTP server error" in llama.log_path.read_text()
    gone = Llama(machine, tiny.with_name("gone.gguf"))
    assert gone.process.wait(20) == 1
    assert "exiting due to model loading error" in gone.log_path.read_text()
    machine.hold(H200.memory_mib - H200.reserved_mib - 1000)
    full = Llama(machine, tiny)
    assert full.process.wait(20) == 1
    assert "cudaMalloc failed: out of memory" in full.log_path.read_text()
