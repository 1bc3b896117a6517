"""Catalogues to check against: made by hand, and small, with the shapes that real ones have."""

from __future__ import annotations

from dataclasses import replace

from deployments.catalogue.model import Catalogue, Flag

SGLANG = Catalogue(
    "sglang",
    "0.5.11",
    "/srv/venv/bin/python3",
    "source",
    (
        Flag(("--model-path", "--model"), required=True),
        Flag(("--tensor-parallel-size", "--tp-size"), type="int", default=1, has_default=True),
        Flag(("--pp-size", "--pipeline-parallel-size"), type="int"),
        Flag(("--page-size",), type="int"),
        Flag(("--chunked-prefill-size",), type="int"),
        Flag(("--quantization",), choices=("awq", "fp8", "gptq")),
        Flag(("--quantization-param-path",)),
        Flag(("--kv-cache-dtype",), choices=("auto", "fp8_e5m2", "fp8_e4m3", "bf16"), default="auto", has_default=True),
        Flag(("--attention-backend",), choices=("triton", "fa3", "flashinfer")),
        Flag(("--mem-fraction-static",), type="float"),
        Flag(("--context-length",), type="human_readable_int"),
        Flag(("--cuda-graph-bs",), takes="+", type="int"),
        Flag(("--cuda-graph-max-bs-decode",), type="int"),
        Flag(("--cuda-graph-max-bs-prefill",), type="int"),
        Flag(("--log-requests-level",), type="int", choices=(0, 1, 2, 3)),
        Flag(("--json-model-override-args",)),
        Flag(("--hf-config",), type="json"),
        Flag(("--disable-radix-cache",), takes="0"),
        Flag(("--mamba-scheduler-strategy",), choices=("auto", "no_buffer", "extra_buffer")),
        Flag(("--speculative-algorithm",), choices=("EAGLE", "NEXTN", "NGRAM")),
        Flag(("--speculative-num-steps",), type="int"),
        Flag(("--speculative-eagle-topk",), type="int"),
        Flag(("--speculative-num-draft-tokens",), type="int"),
        Flag(("--speculative-accept-threshold-single",), type="float"),
        Flag(("--language-only",), takes="0"),
        Flag(("--encoder-urls",), takes="+"),
        Flag(("--served-model-name",)),
        Flag(("--sleep-on-idle", "--no-sleep-on-idle"), takes="0"),
        Flag(("--old",), takes="0", deprecated=True, instead="--new"),
        Flag(("--gone",), takes="0", refused="use --new"),
        Flag(("--config",)),
        Flag(("--random-seed",), type="int"),
    ),
)
VLLM = Catalogue(
    "vllm",
    "0.19.1",
    "/srv/venv/bin/python3",
    "source",
    (
        Flag(("model_tag",), takes="?"),
        Flag(("--model",)),
        Flag(("--tensor-parallel-size", "-tp"), type="int"),
        Flag(("--nnodes", "-n"), type="int"),
        Flag(("--max-model-len",), type="human_readable_int_or_auto", optional=True),
        Flag(("--seed",), type="int", optional=True),
        Flag(("--optimization-level",), type="int"),
        Flag(("--compilation-config", "-cc"), type="json"),
        Flag(("--enable-prefix-caching", "--no-enable-prefix-caching"), takes="0"),
        Flag(("--enable-auto-tool-choice", "--no-enable-auto-tool-choice"), takes="0"),
        Flag(("--tool-call-parser",)),
        Flag(("--allowed-media-domains",), takes="+"),
        Flag(("--moe-backend",), type="?", choices=("auto", "deep_gemm")),
    ),
)
LLAMA = Catalogue(
    "llama_server",
    "",
    "",
    "help",
    (
        Flag(("-m", "--model"), type=""),
        Flag(("-c", "--ctx-size"), type=""),
        Flag(("-ngl", "--gpu-layers"), type=""),
        Flag(("--no-mmap",), takes="0", type=""),
        Flag(("-fa", "--flash-attn"), type="", choices=("on", "off", "auto")),
    ),
)
BY_ENGINE = {"sglang": SGLANG, "vllm": VLLM, "llama_server": LLAMA}


def at(version: str) -> Catalogue:
    """The first of them, as if it were of another version."""
    return replace(SGLANG, version=version)
