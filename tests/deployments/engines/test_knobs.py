"""The six settings that people change first: read from a command line, and put back into it."""

from __future__ import annotations

import shlex

import pytest

from deployments.commandline import Command, write
from deployments.engines.knobs import first_command, own_words, read_knobs, set_knob
from deployments.engines.registry import ENGINES, engine_of

SGLANG = "python3 -m sglang.launch_server --model-path /m --tp 2 --context-length=4096 --mem-fraction-static 0.9"


def words(engine: str, line: str, *, in_image: bool = False) -> tuple[list[str], int]:
    argv = shlex.split(line)
    begin = own_words(ENGINES[engine], argv, in_image=in_image)
    assert begin is not None
    return argv, begin


@pytest.mark.parametrize(
    ("engine", "line", "said"),
    [
        ("sglang", SGLANG, {"model": "/m", "cards": "2", "context": "4096", "fraction": "0.9"}),
        ("sglang", f"{SGLANG} --tp-size 4 --kv-cache-dtype bf16 --port 1", {
            "model": "/m", "cards": "4", "context": "4096", "fraction": "0.9", "precision": "bf16", "port": "1"}),
        ("vllm", "vllm serve Qwen/Q --max_model_len -1 -tp 2", {"model": "Qwen/Q", "context": "-1", "cards": "2"}),
        ("vllm", "vllm serve --model /m --gpu-memory-utilization=.9", {"model": "/m", "fraction": ".9"}),
        ("llama_server", "numactl -m 0 llama-server -m /x.gguf -c 8192 -ctk q8_0 -ctv f16", {
            "model": "/x.gguf", "context": "8192", "precision": "q8_0"}),
        ("sglang", "sglang serve --model-path /m --port", {"model": "/m"}),
    ],
)  # fmt: skip
def test_what_a_command_says(engine: str, line: str, said: dict[str, str]) -> None:
    argv, begin = words(engine, line)
    found = read_knobs(ENGINES[engine], argv, begin)
    assert {name: value for name, value in found.items() if value} == said
    assert found.keys() == ENGINES[engine].knobs.keys()


@pytest.mark.parametrize(
    ("engine", "line", "name", "value", "after"),
    [
        ("sglang", SGLANG, "cards", "8", SGLANG.replace("--tp 2", "--tp 8")),
        ("sglang", SGLANG, "context", "8192", SGLANG.replace("=4096", "=8192")),
        ("sglang", SGLANG, "context", "", SGLANG.replace(" --context-length=4096", "")),
        ("sglang", SGLANG, "precision", "fp8_e5m2", f"{SGLANG} --kv-cache-dtype fp8_e5m2"),
        ("sglang", "python -m sglang.launch_server --tp 1 --tp-size 2", "cards", "4",
         "python -m sglang.launch_server --tp 1 --tp-size 4"),
        ("sglang", "python -m sglang.launch_server --tp 1 --x --tp-size=2", "cards", "",
         "python -m sglang.launch_server --x"),
        ("vllm", "vllm serve Qwen/Q --port 1", "model", "/m", "vllm serve /m --port 1"),
        ("vllm", "vllm serve --port 1", "model", "/m", "vllm serve /m --port 1"),
        ("vllm", "vllm serve M --max_model_len 5", "context", "9", "vllm serve M --max_model_len 9"),
        ("llama_server", "numactl -m 0 llama-server -m a", "model", "b", "numactl -m 0 llama-server -m b"),
        ("llama_server", "llama-server -m a -ctk f16", "precision", "q8_0", "llama-server -m a -ctk q8_0 -ctv q8_0"),
    ],
)  # fmt: skip
def test_a_setting_is_put_in_its_old_place_or_at_the_end(
    engine: str, line: str, name: str, value: str, after: str
) -> None:
    argv, begin = words(engine, line)
    assert set_knob(ENGINES[engine], argv, begin, name, value) == shlex.split(after)


def test_words_that_cannot_be_told_apart_are_left_alone() -> None:
    sglang = ENGINES["sglang"]
    assert own_words(sglang, ["bash", "-c", SGLANG], in_image=True) is None
    assert own_words(sglang, ["start.sh"], in_image=True) is None
    assert own_words(sglang, ["start.sh"], in_image=False) is None
    argv, begin = words("vllm", "--model /m", in_image=True)
    assert read_knobs(ENGINES["vllm"], argv, begin)["model"] == "/m"


@pytest.mark.parametrize("engine", [key for key, engine in ENGINES.items() if engine.knobs])
def test_a_first_command_serves_the_model(engine: str) -> None:
    argv = first_command(ENGINES[engine], "/models/a b")
    assert engine_of(Command(argv)) is ENGINES[engine] and write(Command(argv))
    begin = own_words(ENGINES[engine], argv, in_image=False)
    assert begin is not None and read_knobs(ENGINES[engine], argv, begin)["model"] == "/models/a b"
