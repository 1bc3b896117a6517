"""Which installation a command starts."""

from __future__ import annotations

import pytest

from deployments.catalogue.program import NoProgram, Program, program_of


def of(engine: str, text: str, *, env: dict[str, str] | None = None, workdir: str = "") -> Program | NoProgram:
    return program_of(engine, text.split(), env=env or {}, workdir=workdir)


@pytest.mark.parametrize(
    ("engine", "text", "kind", "word", "form", "args"),
    [
        ("sglang", "python -m sglang.launch_server --tp 2", "python", "python", "", ["--tp", "2"]),
        ("sglang", "/v/bin/python3.11 -u -m sglang.launch_server", "python", "/v/bin/python3.11", "", []),
        ("sglang", "numactl -N 0 python3 -X dev -m sglang.launch_server --x", "python", "python3", "", ["--x"]),
        ("sglang", "/v/bin/sglang serve --model-path /m", "script", "/v/bin/sglang", "serve", ["--model-path", "/m"]),
        ("sglang", "/v/bin/python /v/bin/sglang serve --x", "python", "/v/bin/python", "serve", ["--x"]),
        ("vllm", "vllm serve /m -tp 2", "script", "vllm", "serve", ["/m", "-tp", "2"]),
        ("vllm", "python -m vllm.entrypoints.openai.api_server --model /m", "python", "python", "", ["--model", "/m"]),
        ("llama_server", "taskset -c 0 /opt/llama-server -m /m", "binary", "/opt/llama-server", "", ["-m", "/m"]),
    ],
)  # fmt: skip
def test_the_program_and_its_own_words(
    engine: str, text: str, kind: str, word: str, form: str, args: list[str]
) -> None:
    found = of(engine, text)
    assert isinstance(found, Program)
    assert (found.kind, found.word, found.form, list(found.args)) == (kind, word, form, args)


@pytest.mark.parametrize(
    ("engine", "text", "reason"),
    [
        ("sglang", "docker run lmsysorg/sglang python -m sglang.launch_server", "through docker"),
        ("sglang", "uv run python -m sglang.launch_server", "through uv"),
        ("sglang", "sudo -u llm python -m sglang.launch_server", "through sudo"),
        ("sglang", "python -m vllm.entrypoints.openai.api_server", "does not show"),
        ("sglang", "python serve.py --tp 2", "does not show"),
        ("vllm", "vllm bench", "does not show"),
        ("custom", "/srv/run", "SGLang, vLLM and llama-server only"),
    ],
)
def test_where_it_cannot_be_seen_the_reason_is_told(engine: str, text: str, reason: str) -> None:
    found = of(engine, text)
    assert isinstance(found, NoProgram) and reason in found.reason


def test_what_decides_where_packages_are_found_makes_another_installation() -> None:
    plain = of("sglang", "python -m sglang.launch_server --tp 2")
    assert isinstance(plain, Program)
    other_flags = of("sglang", "python -m sglang.launch_server --tp 4", env={"OMP_NUM_THREADS": "8"})
    assert isinstance(other_flags, Program) and other_flags.key == plain.key
    for different in (
        of("sglang", "python -m sglang.launch_server", env={"PYTHONPATH": "/src"}),
        of("sglang", "env PATH=/v/bin python -m sglang.launch_server"),
        of("sglang", "python -s -m sglang.launch_server"),
        of("sglang", "python -m sglang.launch_server", workdir="/srv"),
        of("sglang", "/v/bin/python -m sglang.launch_server"),
    ):
        assert isinstance(different, Program) and different.key != plain.key


def test_the_working_directory_does_not_matter_for_the_script_of_a_full_path() -> None:
    there, elsewhere = (of("vllm", "/v/bin/vllm serve /m", workdir=place) for place in ("/a", "/b"))
    assert isinstance(there, Program) and isinstance(elsewhere, Program) and there.key == elsewhere.key
