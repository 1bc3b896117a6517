"""What each engine says about flags, ports, metrics, answers; and how its server is recognised."""

import pytest

from deployments.engines.registry import ENGINES, recognise

SGLANG, VLLM, LLAMA, CUSTOM = (ENGINES[key] for key in ("sglang", "vllm", "llama_server", "custom"))


def test_every_engine_stands_under_its_own_key() -> None:
    assert {key: engine.key for key, engine in ENGINES.items()} == {key: key for key in ENGINES}
    assert all(engine.ready for engine in ENGINES.values() if engine is not CUSTOM)


@pytest.mark.parametrize(
    ("argv", "port"),
    [
        (["python", "-m", "sglang.launch_server"], 30000),
        (["python", "--port", "8123"], 8123),
        (["python", "--port=8123"], 8123),
        (["python", "--port", "1", "--port=2"], 2),
        (["python", "--port", "many"], 30000),
        (["python", "--port"], 30000),
        (["python", "--port-range", "1"], 30000),
    ],
)
def test_port(argv: list[str], port: int) -> None:
    assert SGLANG.port(argv) == port


@pytest.mark.parametrize(
    ("argv", "model"),
    [
        (["python", "--model-path", "/models/x"], "/models/x"),
        (["python", "--model-path=~/x"], "~/x"),
        (["python", "--model-path", "Qwen/Qwen3-8B"], None),
        (["python"], None),
    ],
)
def test_model_path(argv: list[str], model: str | None) -> None:
    assert SGLANG.model_path(argv) == model


@pytest.mark.parametrize(
    ("argv", "model"),
    [
        (["/venv/bin/vllm", "serve", "/models/x", "--port", "8000"], "/models/x"),
        (["numactl", "-N", "0", "vllm", "serve", "/models/x"], "/models/x"),
        (["vllm", "serve", "Qwen/Qwen3-8B"], None),
        (["vllm", "serve", "--model", "/models/y"], "/models/y"),
        (["vllm", "serve"], None),
        (["python", "serve", "/models/x"], None),
    ],
)
def test_a_model_that_is_a_word_of_its_own(argv: list[str], model: str | None) -> None:
    assert VLLM.model_path(argv) == model


def test_a_llama_server_names_its_model_with_a_short_flag() -> None:
    assert LLAMA.model_path(["llama-server", "-m", "/m/a.gguf"]) == "/m/a.gguf"


@pytest.mark.parametrize(
    ("command", "key"),
    [
        ("/opt/bin/python -m sglang.launch_server --model-path /m", "sglang"),
        ("python3 /usr/lib/sglang/launch_server.py", "sglang"),
        ("/usr/bin/vllm serve /models/x", "vllm"),
        ("python -m vllm.entrypoints.openai.api_server --model /m", "vllm"),
        ("./llama-server -m a.gguf", "llama_server"),
        ("python train.py --resume", None),
        ("sglang::scheduler_TP0", None),
        ("tail -f llama-server-notes.txt", "llama_server"),
        ("", None),
    ],
)
def test_recognise(command: str, key: str | None) -> None:
    engine = recognise(command)
    assert (engine.key if engine else None) == key


METRICS = """# HELP sglang:num_running_reqs The number of running requests.
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{engine_type="unified",model_name="m",tp_rank="0"} 3.0
sglang:num_running_reqs{engine_type="unified",model_name="m",tp_rank="1"} 2.0
sglang:num_running_reqs_offline_batch{model_name="m"} 9.0
"""


def test_running_requests_are_summed_over_ranks() -> None:
    assert SGLANG.running_requests(METRICS) == 5
    assert VLLM.running_requests("vllm:num_requests_running 0.0") == 0
    assert VLLM.waiting_requests("vllm:num_requests_running 1.0\nvllm:num_requests_waiting 4.0") == 4
    assert SGLANG.waiting_requests(METRICS) is None and CUSTOM.waiting_requests(METRICS) is None


@pytest.mark.parametrize("page", ["", "<html>404</html>", 'sglang:num_running_reqs{a="b"} NaN', METRICS[:90]])
def test_a_page_without_the_number_is_none_never_zero(page: str) -> None:
    assert SGLANG.running_requests(page) is None


def test_an_engine_without_metrics_never_tells() -> None:
    assert CUSTOM.running_requests(" 4.0\n4.0") is None
