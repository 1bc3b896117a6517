"""The simulated SGLang lives as the real one does: flags, start, signals, drain."""

import json
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.engines.environment import ENVIRONMENT
from tests.lab.engines import LISTENING, SCALE, Sglang, free_port, http, listens, runs
from tests.lab.machine import Machine, running_machine, wait_until

pytestmark = pytest.mark.process


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with running_machine(tmp_path / "gpus") as running:
        yield running


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


@pytest.mark.slow
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
    begun = time.monotonic()
    assert http(server.port, "/health") == (200, "")
    assert time.monotonic() - begun >= 1.0 * float(SCALE), "it generates a token, so it takes a second"
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
    server = Sglang(machine, hints={"load_seconds": 6000})
    wait_until(lambda: "sglang::detokenizer" in server.tree() and min(machine.used(0), machine.used(1)) >= 450)
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
    for pid in children:
        os.kill(pid, signal.SIGSTOP)  # so that only the kernel can end them, not the end of their pipe
    assert server.stop(signal.SIGKILL) == -signal.SIGKILL
    wait_until(lambda: not any(runs(pid) for pid in children))


def _sleeps(pid: int) -> bool:
    """Whether the process is in time.sleep: our "importing"."""
    return "nanosleep" in Path(f"/proc/{pid}/wchan").read_text()


@pytest.mark.slow
def test_workers_that_still_import_outlive_a_killed_parent(machine: Machine) -> None:
    server = Sglang(machine, hints={"import_seconds": 15, "load_seconds": 100})
    wait_until(lambda: len(server.importing()) == 3 and all(_sleeps(pid) for pid in server.importing()))
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
