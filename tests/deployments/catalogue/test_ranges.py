"""Numbers with which no version of an engine starts."""

from __future__ import annotations

import pytest

from deployments.catalogue.finding import WARN
from deployments.catalogue.ranges import out_of_range
from deployments.catalogue.validate import check
from tests.deployments.catalogue.samples import SGLANG


@pytest.mark.parametrize(
    ("engine", "words", "wrong"),
    [
        ("sglang", "--context-length -5", ["--context-length"]),
        ("sglang", "--context-length=0", ["--context-length"]),
        ("sglang", "--context-length -5 --context-length 4096", []),
        ("sglang", "--tp 0 --mem-fraction-static 1", ["--tp", "--mem-fraction-static"]),
        ("sglang", "--mem-fraction-static nan", ["--mem-fraction-static"]),
        ("sglang", "--tp 2 --mem-fraction-static .88 --chunked-prefill-size -1", []),
        ("vllm", "--max-model-len 32k --gpu-memory-utilization 1", []),
        ("vllm", "--max-model-len -1", []),
        ("vllm", "--max_model_len -5 -tp 0", ["--max_model_len", "-tp"]),
        ("llama_server", "-c 0", []),
        ("llama_server", "", []),
        ("llama_server", "--port 70000", ["--port"]),
        ("custom", "--context-length -5", []),
    ],
)
def test_only_what_cannot_be_is_named(engine: str, words: str, wrong: list[str]) -> None:
    assert [flag for flag, _ in out_of_range(engine, words.split())] == wrong


def test_the_check_warns_of_it_once() -> None:
    (found,) = check(["--model-path", "/m", "--context-length", "-5"], SGLANG)
    assert (found.level, found.flag) == (WARN, "--context-length")
    (wrong,) = check(["--model-path", "/m", "--context-length", "five"], SGLANG)
    assert wrong.stops, "the source refuses that by its type, and it is said once"
