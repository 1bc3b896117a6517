"""The engines of the lab behave as the real ones do where a restart can go wrong."""

import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.engines.environment import ENVIRONMENT
from lab.gpus import state
from tests.lab.machine import H200, Machine, fields_of, running_machine, wait_until

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


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with running_machine(tmp_path / "gpus") as running:
        yield running


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
        (self.model / "config.json").write_text(json.dumps({**MODEL, "lab": lab}))
        self.log_path = machine.directory / f"log-{self.port}-{len(machine.processes)}"
        argv = (str(ENVIRONMENT / "bin/python"), "-m", "sglang.launch_server", "--model-path", str(self.model))
        argv += ("--tp", options.pop("tp", "2"), "--host", "127.0.0.1", "--port", str(self.port), *flags)
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


# --- SGLang: flags and the model


def test_command_line_is_read_as_the_real_one_reads_it(machine: Machine) -> None:
    python = str(ENVIRONMENT / "bin/python")
    for flags, complaint in (
        (["--tp", "2"], "the following arguments are required: --model-path/--model"),
        (["--model", "m", "--pp", "1", "--cuda-graph-max", "8", "--quant", "fp8"], "ambiguous option: --quant could"),
        (["--model", "m", "--language-model-only"], "unrecognized arguments: --language-model-only"),
        (["--model", "m", "--kv-cache-dtype", "int3"], "argument --kv-cache-dtype: invalid choice: 'int3'"),
    ):
        done = machine.run(python, "-m", "sglang.launch_server", *flags)
        assert done.returncode == 2
        assert done.stderr.startswith("usage: launch_server.py ")
        assert complaint in done.stderr
    version = "from importlib.metadata import version; print(version('sglang'))"
    assert machine.run(python, "-c", version).stdout == "0.5.9\n"


def test_missing_model_is_reported_in_the_hub_s_words(machine: Machine) -> None:
    python = str(ENVIRONMENT / "bin/python")
    done = machine.run(python, "-m", "sglang.launch_server", "--model-path", "/models/gone")
    assert done.returncode == 1
    assert "Repo id must be in the form 'repo_name' or 'namespace/repo_name': '/models/gone'" in done.stderr


# --- SGLang: a life


def test_from_start_to_drained_stop(machine: Machine) -> None:
    server = Sglang(machine, "--enable-metrics", hints={"import_seconds": 5})
    wait_until(lambda: len(server.importing()) == 3)
    server.wait_for("Load weight begin")
    assert not listens(server.port)
    wait_until(lambda: 450 < machine.used(0) < 27000)
    server.ready()
    titles = {"sglang::scheduler_TP0", "sglang::scheduler_TP1", "sglang::detokenizer"}
    assert titles < set(server.tree())
    holders = {(pid, name, uuid) for pid, name, uuid, _ in machine.apps()}
    assert holders == {
        (str(server.tree()[f"sglang::scheduler_TP{rank}"]), f"sglang::scheduler_TP{rank}", machine.cards[rank].uuid)
        for rank in (0, 1)
    }
    assert re.search(r"TP0\] KV Cache is allocated\. #tokens: \d+, K size: [\d.]+ GB, V size: [\d.]+ GB", server.log)
    assert http(server.port, "/health") == (200, "")
    status, text = http(server.port, "/v1/completions", {"prompt": "The capital of France is", "max_tokens": 2})
    assert (status, json.loads(text)["choices"][0]["text"]) == (200, " Paris,")
    assert 'sglang:generation_tokens_total{model_name="' in http(server.port, "/metrics")[1]
    assert server.stop() == -signal.SIGKILL
    draining = server.log.index("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
    assert server.log.index("Gracefully exiting... Remaining number of requests 0.") > draining
    wait_until(lambda: machine.used(0) == machine.used(1) == 0)
    (entry,) = machine.ledger()
    assert (entry["kind"], entry["pid"], entry["port"]) == ("sglang", server.process.pid, server.port)


@pytest.mark.slow
def test_effective_values_differ_from_the_flags(machine: Machine) -> None:
    port = free_port()
    model = machine.directory / f"model-{port}"
    model.mkdir()
    (model / "hf_quant_config.json").write_text(json.dumps({"quantization": {"kv_cache_quant_algo": "FP8"}}))
    server = Sglang(machine, "--api-key", "sesame", "--speculative-algo", "NEXTN", port=port).ready()
    assert "Using KV cache dtype: torch.float8_e4m3fn" in server.log
    assert http(server.port, "/v1/models")[0] == 401
    info = json.loads(http(server.port, "/server_info", key="sesame")[1])
    assert (info["kv_cache_dtype"], info["internal_states"][0]["kv_cache_dtype"]) == ("auto", "fp8_e4m3")
    assert (info["max_running_requests"], info["speculative_num_steps"], info["api_key"]) == (48, 3, "sesame")
    assert json.loads(http(server.port, "/v1/models", key="sesame")[1])["data"][0]["max_model_len"] == 40960
    assert http(server.port, "/metrics")[0] == 404


@pytest.mark.slow
def test_stream_grows_and_ends(machine: Machine) -> None:
    server = Sglang(machine).ready()
    body = {"input_ids": [1, 2, 3], "sampling_params": {"max_new_tokens": 6}, "stream": True}
    events = http(server.port, "/generate", body)[1].strip().split("\n\n")
    assert events.pop() == "data: [DONE]"
    counts = [json.loads(event.removeprefix("data: "))["meta_info"]["completion_tokens"] for event in events]
    assert counts == sorted(counts)
    assert counts[-1] == 6
    chat = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 3, "stream": True}
    chunks = http(server.port, "/v1/chat/completions", chat)[1].strip().split("\n\n")[:-1]
    said = "".join(json.loads(chunk.removeprefix("data: "))["choices"][0]["delta"]["content"] for chunk in chunks)
    assert said == " Paris, which"


# --- SGLang: signals


@pytest.mark.slow
def test_sigterm_while_loading_ends_everything_at_once(machine: Machine) -> None:
    server = Sglang(machine, hints={"load_seconds": 60})
    wait_until(lambda: "sglang::detokenizer" in server.tree() and machine.used(1) > 450)
    children = list(server.tree().values())
    assert server.stop() == -signal.SIGTERM
    wait_until(lambda: not any(runs(pid) for pid in children))
    assert machine.used(0) == 0


@pytest.mark.slow
def test_sigterm_before_the_first_request_is_uvicorns(machine: Machine) -> None:
    server = Sglang(machine, "--skip-server-warmup")
    server.wait_for(LISTENING)
    assert server.stop() == -signal.SIGTERM
    assert "Finished server process" in server.log
    assert "Draining" not in server.log


@pytest.mark.slow
def test_drain_has_no_deadline_and_still_takes_requests(machine: Machine) -> None:
    server = Sglang(machine, hints={"tokens_per_second": 10}).ready()
    long = {"text": "x", "rid": "long", "sampling_params": {"max_new_tokens": 100000}}
    asking = threading.Thread(target=http, args=(server.port, "/generate", long), kwargs={"timeout": 30})
    asking.start()
    wait_until(lambda: json.loads(http(server.port, "/v1/loads")[1])["aggregate"]["total_running_reqs"] == 1)
    server.process.terminate()
    server.wait_for("Remaining number of requests 1. Remaining requests remaining_rids=['long'].")
    assert http(server.port, "/health")[0] == 503
    assert http(server.port, "/v1/completions", {"prompt": "a", "max_tokens": 1})[0] == 200
    assert server.process.poll() is None
    assert http(server.port, "/flush_cache", {})[0] == 400
    assert http(server.port, "/abort_request", {"abort_all": True})[0] == 200
    assert server.process.wait(10) == -signal.SIGKILL
    asking.join(10)


@pytest.mark.slow
def test_sigkill_of_the_parent_takes_the_named_workers_along(machine: Machine) -> None:
    server = Sglang(machine).ready()
    children = {pid for title, pid in server.tree().items() if title.startswith("sglang::")}
    assert len(children) == 3
    assert server.stop(signal.SIGKILL) == -signal.SIGKILL
    wait_until(lambda: not any(runs(pid) for pid in children))


@pytest.mark.slow
def test_workers_that_still_import_outlive_a_killed_parent(machine: Machine) -> None:
    server = Sglang(machine, hints={"import_seconds": 15, "load_seconds": 100})
    wait_until(lambda: len(server.importing()) == 3)
    importing = server.importing()
    assert server.stop(signal.SIGKILL) == -signal.SIGKILL
    assert all(runs(pid) for pid in importing)
    wait_until(lambda: machine.used(0) > 450)


@pytest.mark.slow
def test_sigterm_can_be_ignored(machine: Machine) -> None:
    server = Sglang(machine, SGLANG_LAB_MODE="ignore-sigterm").ready()
    server.process.terminate()
    assert http(server.port, "/health")[0] == 200
    for pid in server.tree().values():
        assert runs(pid)
    assert server.process.poll() is None


# --- SGLang: what goes wrong


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
