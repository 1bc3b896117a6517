"""A command line against a catalogue: what is said of it, and how grave that is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deployments.catalogue.finding import Finding
from deployments.catalogue.validate import check
from tests.deployments.catalogue.samples import BY_ENGINE, SGLANG, at

M = "--model-path /m "


def found(text: str, engine: str = "sglang") -> list[Finding]:
    return check(text.split(), BY_ENGINE[engine])


@pytest.mark.parametrize(
    ("engine", "text"),
    [
        ("sglang", M),
        ("sglang", M + "--tp-size 2 --mem-fraction-static .88 --context-length 131072 --random-seed -1"),
        ("sglang", "--model=/m --kv-cache-dtype=bf16 --log-requests-level 3"),
        ("sglang", M + "--cuda-graph-bs 1 2 4 --disable-radix-cache"),
        ("sglang", M + '--json-model-override-args {"a":1}'),
        ("sglang", M + "--no-sleep-on-idle"),
        ("sglang", "--config /etc/serve.yaml"),
        ("sglang", M + "--speculative-algorithm NGRAM --speculative-num-draft-tokens 4"),
        ("vllm", "/m -tp 2 --max-model-len 32k"),
        ("vllm", "/m --tensor_parallel_size 2 -O3 --seed None"),
        ("vllm", "/m --compilation-config.cudagraph_mode FULL --compilation-config.x=1"),
        ("vllm", "/m --no-enable-prefix-caching --allowed-media-domains a.org b.org --model x"),
        ("vllm", "/m --moe-backend deep-gemm"),
        ("llama_server", "-m /m.gguf -c 4096 -ngl 99 --no-mmap -fa on"),
        ("llama_server", "--model /m.gguf --ctx_size -1"),
    ],
)
def test_what_an_engine_takes_is_not_complained_about(engine: str, text: str) -> None:
    assert found(text, engine) == []


@pytest.mark.parametrize(
    ("engine", "text", "flag", "says", "todo"),
    [
        ("sglang", M + "--quantisation fp8", "--quantisation", "does not know --quantisation", "mean --quantization?"),
        ("sglang", M + "--tp_size 2", "--tp_size", "does not know --tp_size", "mean --tp-size?"),
        ("sglang", M + "--zzz", "--zzz", "does not know --zzz", "look for its new name"),
        ("sglang", M + "--quant fp8", "--quant", "could mean --quantization, --quantization-param-path", "in full"),
        ("sglang", M + "--cuda-graph-max-bs 4", "--cuda-graph-max-bs", "could mean", "in full"),
        ("sglang", M + "--kv-cache-dtype fp16", "--kv-cache-dtype", "does not take “fp16”", "Did you mean bf16?"),
        ("sglang", M + "--log-requests-level 7", "--log-requests-level", "does not take “7”", "0, 1, 2, 3"),
        ("sglang", M + "--tp-size two", "--tp-size", "takes a whole number, and “two” is none", "Correct"),
        ("sglang", M + "--tp-size 2.0", "--tp-size", "takes a whole number", "Correct"),
        ("sglang", M + "--mem-fraction-static 0,9", "--mem-fraction-static", "takes a number", "Correct"),
        ("sglang", M + "--context-length 12x", "--context-length", "takes a whole number, or one with", "Correct"),
        ("sglang", M + "--hf-config {a", "--hf-config", "takes JSON", "Correct"),
        ("sglang", M + "--cuda-graph-bs 1 b", "--cuda-graph-bs", "“b” is none", "Correct"),
        ("sglang", M + "--tp-size --page-size 1", "--tp-size", "lacks its value", "Add it"),
        ("sglang", M + "--quantization", "--quantization", "lacks its value", "It takes awq, fp8, gptq"),
        ("sglang", M + "--disable-radix-cache=1", "--disable-radix-cache", "takes no value", "Write only"),
        ("sglang", M + "--disable-radix-cache true", "", "“true” belongs to no flag", "Leave it out"),
        ("sglang", M + "--gone", "--gone", "refuses --gone: use --new", "Leave it out"),
        ("sglang", "--tp-size 2", "--model-path", "is missing", "Add --model-path"),
        ("sglang", M + "-tp 2", "-tp", "does not know -tp", ""),
        ("vllm", "/m -tp2", "-tp2", "does not know -tp2", "Did you mean -tp?"),
        ("vllm", "/m /n", "", "“/n” belongs to no flag", ""),
        ("vllm", "/m --nope.key 1", "--nope.key", "does not know --nope.key", ""),
        ("vllm", "/m --seed x", "--seed", "takes a whole number", ""),
    ],
)
def test_what_would_end_the_engine_at_once_is_an_error(engine: str, text: str, flag: str, says: str, todo: str) -> None:
    (only,) = found(text, engine)
    assert (only.level, only.stops, only.flag) == ("error", True, flag)
    assert says in only.text and todo in only.todo


def test_the_value_of_an_unknown_flag_is_not_complained_about_too() -> None:
    assert [one.flag for one in found(M + "--zzz 4 --tp-size 2")] == ["--zzz"]


@pytest.mark.parametrize(
    ("text", "level", "says"),
    [
        ("--tensor-par 2", "note", "--tensor-par is short for --tensor-parallel-size"),
        ("--old", "note", "--old is deprecated"),
        ("--tp-size 2 --tp-size 4", "warn", "more than once; the last value counts"),
        ("--mamba-scheduler-strategy extra_buffer --disable-radix-cache", "error", "needs the radix cache"),
        ("--speculative-num-steps 3", "warn", "nothing says how to speculate"),
        ("--speculative-algorithm EAGLE --speculative-num-steps 3", "error", "all three or none"),
        ("--language-only", "error", "needs --encoder-urls"),
        ("--chunked-prefill-size 100 --page-size 64", "error", "cannot be divided by --page-size 64"),
        ("--kv-cache-dtype fp8_e5m2 --attention-backend fa3", "warn", "takes triton instead"),
        ("--served-model-name a:b", "error", "holds a colon"),
        ("--speculative-accept-threshold-single 0.9", "note", "accepts drafts"),
        ("--context-length 256k", "note", "256k is 256,000"),
        ("--speculative-algorithm NGRAM --pipeline-parallel-size 2", "warn", "pipeline parallelism"),
        (
            "--speculative-algorithm NEXTN --speculative-num-steps 3 --speculative-eagle-topk 1 "
            "--speculative-num-draft-tokens 3",
            "warn",
            "takes 4 draft tokens, not 3",
        ),
    ],
)
def test_what_a_start_survives_or_no_parser_sees_never_stops_one(text: str, level: str, says: str) -> None:
    (only,) = found(M + text)
    assert (only.level, only.stops) == (level, False) and says in only.text


def test_vllm_too_has_flags_that_need_each_other() -> None:
    assert (
        found("/m --enable-auto-tool-choice", "vllm")[0].text == "--enable-auto-tool-choice needs --tool-call-parser."
    )
    assert not found("/m --enable-auto-tool-choice --tool-call-parser hermes", "vllm")


@pytest.mark.parametrize(
    ("version", "flag", "says", "todo"),
    [
        ("0.5.23", "--stream-output", "taken out, at the latest with 0.5.23", "--incremental-streaming-output instead"),
        ("0.5.9", "--language-model-only", "came later, at the latest with 0.5.18", "Leave it out"),
        ("0.5.9", "--disable-piecewise-cuda-graph", "came later", ""),
        ("0.5.14", "--hybrid-kvcache-ratio", "taken out", "Leave it out"),
        ("0.5.14.post1", "--torchao-configuration", "does not know", ""),
        ("", "--stream-output", "does not know", ""),
    ],
)
def test_a_flag_of_another_version_is_told_as_that(version: str, flag: str, says: str, todo: str) -> None:
    (only,) = check([*M.split(), flag], at(version))
    assert says in only.text and todo in only.todo


def test_an_abbreviation_that_has_become_two_flags_names_the_new_one() -> None:
    (only,) = check((M + "--cuda-graph-max-bs 4").split(), at("0.5.23"))
    assert only.todo == "Write --cuda-graph-max-bs-decode instead."


@pytest.mark.parametrize("unsure", [{"source": "help"}, {"gaps": ("for x in y",)}])
def test_nothing_stops_a_start_where_the_catalogue_may_lack_something(unsure: dict[str, object]) -> None:
    catalogue = replace(SGLANG, **unsure)  # type: ignore[arg-type]
    wrong = check((M + "--zzz 1 --kv-cache-dtype fp16 --tp-size x").split(), catalogue)
    assert [(one.level, one.stops) for one in wrong] == [("warn", False)] * 3
    assert "may not be whole" in wrong[0].todo


def test_the_gravest_comes_first() -> None:
    assert [one.level for one in found(M + "--old --speculative-num-steps 3 --zzz")] == ["error", "warn", "note"]
