"""The simulated SGLang fails as the real one does."""

import json
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.gpus import state
from tests.lab.engines import LISTENING, READY, Sglang, http, listens, runs
from tests.lab.machine import Machine, running_machine, wait_until

pytestmark = pytest.mark.process


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with running_machine(tmp_path / "gpus") as running:
        yield running


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "cause"),
    [
        ("oom-pool", "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."),
        ("oom-load", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate "),
        ("capture-failed", "Capture cuda graph failed: CUDA out of memory."),
        ("child-exception", "AssertionError: param_data.shape == loaded_weight.shape"),
    ],
)
def test_failed_start_names_its_cause_and_then_kills_itself(machine: Machine, mode: str, cause: str) -> None:
    server = Sglang(machine, SGLANG_LAB_MODE=mode)
    assert server.process.wait(20) == -signal.SIGKILL
    found = re.search(cause, server.log)
    assert found
    assert "Scheduler hit an exception: Traceback" in server.log
    assert server.log.index("Received sigquit from a child process. It usually means the child failed.") > found.start()
    assert READY not in server.log
    wait_until(lambda: machine.used(0) == machine.used(1) == 0)


@pytest.mark.slow
def test_neighbour_on_one_card_makes_the_memory_unbalanced(machine: Machine) -> None:
    machine.hold(60000, gpu="1")
    server = Sglang(machine)
    assert server.process.wait(20) == -signal.SIGKILL
    assert "The memory capacity is unbalanced. Some GPUs may be occupied by other processes." in server.log


@pytest.mark.slow
def test_port_conflict_comes_last_with_a_ready_line_that_lies(machine: Machine) -> None:
    first = Sglang(machine, tp="1").ready()
    second = Sglang(machine, tp="1", port=first.port, CUDA_VISIBLE_DEVICES="1")
    assert second.process.wait(20) == 3
    assert "[Errno 98] error while attempting to bind on address ('127.0.0.1'" in second.log
    assert READY in second.log
    assert LISTENING not in second.log
    assert "sglang::scheduler" in first.tree()
    wait_until(lambda: machine.used(1) == 0)
    assert http(first.port, "/health")[0] == 200


@pytest.mark.slow
def test_port_of_a_stranger_delays_the_end_by_the_warm_up(machine: Machine) -> None:
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        stranger.listen()
        server = Sglang(machine, port=stranger.getsockname()[1], LAB_TIME_SCALE="0.01")
        server.wait_for("[Errno 98] error while attempting to bind on address")
        assert server.process.poll() is None
        assert server.process.wait(30) == -signal.SIGKILL
    assert "Initialization failed. warmup error: Traceback" in server.log
    assert READY not in server.log


@pytest.mark.slow
def test_failed_warm_up_ends_the_server(machine: Machine) -> None:
    server = Sglang(machine, SGLANG_LAB_MODE="warmup-failed")
    assert server.process.wait(20) == -signal.SIGKILL
    assert "CUDA error: no kernel image is available for execution on the device" in server.log
    wait_until(lambda: machine.used(0) == machine.used(1) == 0)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["child-killed", "never-ready"])
def test_start_can_hang_for_ever(machine: Machine, mode: str) -> None:
    server = Sglang(machine, SGLANG_LAB_MODE=mode)
    wait_until(lambda: machine.used(0) > 13000)
    if mode == "child-killed":
        wait_until(lambda: machine.used(1) == 0)
    with pytest.raises(subprocess.TimeoutExpired):
        server.process.wait(1)
    assert not listens(server.port)
    assert "sigquit" not in server.log
    assert "Traceback" not in server.log


@pytest.mark.slow
def test_worker_can_outlive_its_server_and_keep_its_card(machine: Machine) -> None:
    server = Sglang(machine, SGLANG_LAB_MODE="orphan-worker").ready()
    orphan = server.tree()["sglang::scheduler_TP1"]
    assert server.stop() == -signal.SIGKILL
    wait_until(lambda: machine.used(0) == 0)
    assert runs(orphan)
    assert [row[:3] for row in machine.apps()] == [[str(orphan), "sglang::scheduler_TP1", machine.cards[1].uuid]]
    assert not listens(server.port)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["late-release", "leak"])
def test_memory_can_stay_without_an_owner(machine: Machine, mode: str) -> None:
    server = Sglang(machine, hints={"release_seconds": 5}, SGLANG_LAB_MODE=mode).ready()
    server.stop(signal.SIGKILL)
    wait_until(lambda: machine.apps() == [])
    assert machine.used(0) > 27000
    if mode == "leak":
        assert state.clear_leaks(machine.directory) == 2
    wait_until(lambda: machine.used(0) == machine.used(1) == 0, timeout=2)


@pytest.mark.slow
def test_server_can_crash_while_serving(machine: Machine) -> None:
    server = Sglang(machine, hints={"mode": "crash", "crash_seconds": 30}).ready()
    assert server.process.wait(20) == -signal.SIGKILL
    assert "CUDA error: an illegal memory access was encountered" in server.log
    assert "SIGQUIT received. signum=None, frame=None. It usually means one child failed." in server.log


@pytest.mark.slow
def test_stuck_scheduler_shows_after_twenty_seconds(machine: Machine) -> None:
    server = Sglang(machine, SGLANG_LAB_MODE="health-stuck").ready()
    begun = time.monotonic()
    assert http(server.port, "/health")[0] == 503
    assert 1.9 < time.monotonic() - begun < 6
    assert "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds." in server.log
    assert http(server.port, "/model_info")[0] == 200


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "text"), [("empty", ""), ("repeating", " the the the the")])
def test_answers_can_be_degraded(machine: Machine, mode: str, text: str) -> None:
    server = Sglang(machine, SGLANG_LAB_MODE=mode).ready()
    answer = json.loads(http(server.port, "/v1/completions", {"prompt": "a", "max_tokens": 4})[1])
    assert answer["choices"][0]["text"] == text
