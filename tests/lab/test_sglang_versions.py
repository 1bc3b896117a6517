"""The simulated SGLang speaks as 0.5.9, 0.5.11 and 0.5.23 do, and the panel understands each of them."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deployments.engines.configuration import Configuration, Row, Seen
from deployments.engines.sglang.effective import PAGES, effective
from lab.engines.environment import VERSIONS, environment_of
from tests.lab.engines import Sglang, http, runs
from tests.lab.machine import Machine, running_machine, wait_until

pytestmark = pytest.mark.process

HYBRID = {
    "architectures": ["Qwen3_5ForConditionalGeneration"],
    "num_hidden_layers": 32,
    "full_attention_interval": 4,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "linear_num_value_heads": 32,
    "linear_num_key_heads": 16,
    "max_position_embeddings": 262144,
}


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with running_machine(tmp_path / "gpus") as running:
        yield running


@pytest.mark.parametrize(
    ("version", "flags", "complaint"),
    [
        ("0.5.9", ["--disable-piecewise-cuda-graph"], "unrecognized arguments: --disable-piecewise-cuda-graph"),
        ("0.5.9", ["--context-length", "256k"], "argument --context-length: invalid int value: '256k'"),
        ("0.5.11", ["--language-model-only"], "unrecognized arguments: --language-model-only"),
        ("0.5.11", ["--reasoning-parser", "nano_v3"], "argument --reasoning-parser: invalid choice: 'nano_v3'"),
        ("0.5.23", ["--cuda-graph-max-bs", "8"], "ambiguous option: --cuda-graph-max-bs could match"),
        ("0.5.23", ["--mamba-scheduler-strategy", "auto"], "unrecognized arguments: --mamba-scheduler-strategy"),
        ("0.5.23", ["--kv-cache-dtype", "fp4_e2m1"], "argument --kv-cache-dtype: invalid choice: 'fp4_e2m1'"),
    ],
)
def test_each_version_has_flags_of_its_own(machine: Machine, version: str, flags: list[str], complaint: str) -> None:
    python = str(environment_of(version) / "bin/python")
    done = machine.run(python, "-m", "sglang.launch_server", "--model", "m", "--tp", "1", *flags)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert ("'sglang serve' is the recommended entrypoint" in done.stderr) == (version != "0.5.9")


@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_is_installed_as_a_real_one(machine: Machine, version: str) -> None:
    home = environment_of(version)
    say = "from importlib.metadata import version; print(version('sglang'))"
    assert machine.run(str(home / "bin/python"), "-c", say).stdout.strip() == version
    (source,) = home.glob("lib/python3*/site-packages/sglang/srt/server_args.py")
    assert source.is_file()
    (metadata,) = home.glob(f"lib/python3*/site-packages/sglang-{version}.dist-info/METADATA")
    assert f"Version: {version}" in metadata.read_text()
    assert (home / "bin/sglang").read_text().startswith(f"#!/opt/sglang-{version}/bin/python\n")


def told_by(server: Sglang, *flags: str) -> Configuration:
    pages = {path: json.loads(http(server.port, path)[1]) for path in PAGES}
    argv = ["python", "-m", "sglang.launch_server", "--model-path", str(server.model), "--tp", "2", *flags]
    return effective(Seen(argv, server.log, pages))


def rows(found: Configuration) -> dict[str, Row]:
    return {row.name: row for row in found.rows}


GRAPHS = {
    "0.5.9": None,
    "0.5.11": "--disable-piecewise-cuda-graph",
    "0.5.23": "--cuda-graph-backend-prefill",
}


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_the_panel_understands_what_each_version_changes(machine: Machine, version: str) -> None:
    flags = ("--max-running-requests", "100000", "--kv-cache-dtype", "auto")
    server = Sglang(machine, *flags, version=version, model=HYBRID)
    (server.model / "hf_quant_config.json").write_text(json.dumps({"quantization": {"kv_cache_quant_algo": "FP8"}}))
    server.ready()
    assert ("server_args={'" in server.log) == (version == "0.5.23")
    found = told_by(server, *flags)
    told = rows(found)
    assert found.version == version
    assert (told["--kv-cache-dtype"].effective, told["--kv-cache-dtype"].changed) == ("fp8_e4m3", True)
    assert "slots, 3 for each request" in told["--max-running-requests"].why
    assert "mamba no_buffer" in told["--disable-overlap-schedule"].why
    graphs = GRAPHS[version]
    if graphs is None:
        assert not {*GRAPHS.values()} & told.keys()
    else:
        assert told[graphs].changed and "multimodal" in told[graphs].why
    facts = {fact.label for fact in found.facts}
    assert {"KV cache", "Recurrent state", "Weights"} <= facts
    alone = effective(Seen(["sglang"], server.log, {}))
    assert rows(alone)["--kv-cache-dtype"].effective == "fp8_e4m3", "the log alone says it too"


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_pages_and_the_end_of_each_version(machine: Machine, version: str) -> None:
    server = Sglang(machine, version=version).ready()
    info = json.loads(http(server.port, "/server_info")[1])
    graph = info["internal_states"][0]["memory_usage"]["graph"]
    loads: dict[str, Any] = json.loads(http(server.port, "/v1/loads")[1])
    newest = version == "0.5.23"
    assert isinstance(graph, dict) == newest
    assert ("aggregate" in loads) == ("num_total_reqs" in loads["loads"][0]) == (not newest)
    assert http(server.port, "/get_load")[0] == (404 if newest else 200)
    assert http(server.port, "/ready")[0] == (200 if newest else 404)
    children = list(server.tree().values())
    assert server.stop() == (0 if newest else -signal.SIGKILL)
    wait_until(lambda: not any(runs(pid) for pid in children))


@pytest.mark.slow
def test_newer_versions_notice_a_worker_that_is_killed_while_it_loads(machine: Machine) -> None:
    server = Sglang(machine, version="0.5.11", SGLANG_LAB_MODE="child-killed")
    assert server.process.wait(20) == 1
    assert "RuntimeError: Rank 1 scheduler died during initialization (exit code: -9)." in server.log


@pytest.mark.slow
@pytest.mark.parametrize("version", ["0.5.9", "0.5.11"])
def test_newer_versions_notice_a_worker_that_is_killed_while_it_serves(machine: Machine, version: str) -> None:
    server = Sglang(machine, version=version).ready()
    os.kill(server.tree()["sglang::scheduler_TP1"], signal.SIGKILL)
    if version == "0.5.9":
        assert http(server.port, "/model_info")[0] == 200
        assert server.process.poll() is None
        return
    assert server.process.wait(20) == -signal.SIGKILL
    assert "Subprocess scheduler_1 (pid=" in server.log
    assert "crashed with exit code -9. Triggering SIGQUIT for cleanup..." in server.log


@pytest.mark.slow
def test_speculation_of_a_hybrid_model(machine: Machine) -> None:
    spec = ("--speculative-algorithm", "NEXTN")
    old = Sglang(machine, *spec, version="0.5.9", model=HYBRID).ready()
    assert "Disabling radix cache since speculative decoding" in rows(told_by(old, *spec))["--disable-radix-cache"].why
    old.stop()
    newer = Sglang(machine, *spec, version="0.5.11", model=HYBRID)
    assert newer.process.wait(20) == 1
    assert "not compatible with radix cache when using --mamba-scheduler-strategy no_buffer" in newer.log
    buffered = ("--mamba-scheduler-strategy", "extra_buffer")
    last = Sglang(machine, *spec, *buffered, version="0.5.11", model=HYBRID).ready()
    facts = {fact.label: fact.value for fact in told_by(last, *spec, *buffered).facts}
    assert "for speculative steps" in facts["Recurrent state"] and "KV cache of the draft model" in facts


@pytest.mark.slow
def test_sglang_serve_takes_the_model_by_place(machine: Machine) -> None:
    command = str(environment_of("0.5.23") / "bin/sglang")
    server = Sglang(machine, version="0.5.23", start=(command, "serve")).ready()
    assert http(server.port, "/model_info")[0] == 200


@pytest.mark.slow
def test_a_configuration_file_comes_before_the_command_line(machine: Machine) -> None:
    file = machine.directory / "config.yaml"
    file.write_text('api-key: "sesame"\ncontext-length: 1024\nenable-metrics: true\n')
    server = Sglang(machine, "--config", str(file), "--context-length", "2048").ready()
    info = json.loads(http(server.port, "/server_info", key="sesame")[1])
    assert (info["api_key"], info["context_length"], info["enable_metrics"]) == ("sesame", 2048, True)
    assert http(server.port, "/server_info")[0] == 401
