"""The launch flags of SGLang 0.5.9 that an operator meets, with argparse's own errors and abbreviations."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Flag = tuple[str, dict[str, Any]]

_QUANTIZATION = [
    "awq",
    "fp8",
    "mxfp8",
    "gptq",
    "marlin",
    "gptq_marlin",
    "awq_marlin",
    "bitsandbytes",
    "gguf",
    "modelopt",
    "modelopt_fp8",
    "modelopt_fp4",
    "petit_nvfp4",
    "w8a8_int8",
    "w8a8_fp8",
    "moe_wna16",
    "qoq",
    "w4afp8",
    "mxfp4",
    "auto-round",
    "compressed-tensors",
    "modelslim",
    "quark_int4fp8_moe",
]
_ATTENTION = [
    "triton",
    "torch_native",
    "flex_attention",
    "nsa",
    "cutlass_mla",
    "fa3",
    "fa4",
    "flashinfer",
    "flashmla",
    "trtllm_mla",
    "trtllm_mha",
    "dual_chunk_flash_attn",
    "aiter",
    "wave",
    "intel_amx",
    "ascend",
    "intel_xpu",
]
_REASONING = [
    "deepseek-r1",
    "deepseek-v3",
    "glm45",
    "gpt-oss",
    "kimi",
    "kimi_k2",
    "qwen3",
    "qwen3-thinking",
    "minimax",
    "minimax-append-think",
    "step3",
    "step3p5",
    "nano_v3",
    "interns1",
]
_TOOLS = [
    "deepseekv3",
    "deepseekv31",
    "deepseekv32",
    "glm",
    "glm45",
    "glm47",
    "gpt-oss",
    "kimi_k2",
    "lfm2",
    "llama3",
    "mimo",
    "mistral",
    "pythonic",
    "qwen",
    "qwen25",
    "qwen3_coder",
    "step3",
    "step3p5",
    "minimax-m2",
    "trinity",
    "interns1",
    "hermes",
    "gigachat3",
]
_LOAD = [
    "auto",
    "pt",
    "safetensors",
    "npcache",
    "dummy",
    "sharded_state",
    "gguf",
    "bitsandbytes",
    "layered",
    "flash_rl",
    "remote",
    "remote_instance",
    "fastsafetensors",
    "private",
]


def _text(names: str, default: str | None = None, **more: Any) -> Flag:
    return names, {"type": str, "default": default, **more}


def _number(names: str, default: int | None = None) -> Flag:
    return names, {"type": int, "default": default}


def _fraction(names: str, default: float | None = None) -> Flag:
    return names, {"type": float, "default": default}


def _switch(names: str) -> Flag:
    return names, {"action": "store_true"}


FLAGS: tuple[Flag, ...] = (
    ("--model-path --model", {"type": str, "required": True}),
    _text("--tokenizer-path"),
    _text("--tokenizer-mode", "auto", choices=["auto", "slow"]),
    _number("--tokenizer-worker-num", 1),
    _switch("--skip-tokenizer-init"),
    _text("--load-format", "auto", choices=_LOAD),
    _text("--model-loader-extra-config", "{}"),
    _switch("--trust-remote-code"),
    _number("--context-length"),
    _switch("--is-embedding"),
    ("--enable-multimodal", {"action": "store_true", "default": None}),
    _text("--revision"),
    _text("--model-impl", "auto"),
    _text("--host", "127.0.0.1"),
    _number("--port", 30000),
    _switch("--skip-server-warmup"),
    _number("--nccl-port"),
    _text("--dtype", "auto", choices=["auto", "half", "float16", "bfloat16", "float", "float32"]),
    _text("--quantization", choices=_QUANTIZATION),
    _text("--quantization-param-path"),
    _text(
        "--kv-cache-dtype",
        "auto",
        choices=["auto", "fp8_e5m2", "fp8_e4m3", "bf16", "bfloat16", "fp4_e2m1"],
    ),
    _fraction("--mem-fraction-static"),
    _number("--max-running-requests"),
    _number("--max-queued-requests"),
    _number("--max-total-tokens"),
    _number("--chunked-prefill-size"),
    _number("--max-prefill-tokens", 16384),
    _text(
        "--schedule-policy", "fcfs", choices=["lpm", "random", "fcfs", "dfs-weight", "lof", "priority", "routing-key"]
    ),
    _fraction("--schedule-conservativeness", 1.0),
    _number("--page-size"),
    _number("--tp-size --tensor-parallel-size", 1),
    _number("--pp-size --pipeline-parallel-size", 1),
    _number("--dp-size --data-parallel-size", 1),
    _number("--ep-size --expert-parallel-size --ep", 1),
    _switch("--enable-dp-attention"),
    _switch("--stream-output"),
    _number("--random-seed"),
    _fraction("--watchdog-timeout", 300),
    _fraction("--soft-watchdog-timeout"),
    _number("--dist-timeout"),
    _text("--download-dir"),
    _number("--base-gpu-id", 0),
    _number("--gpu-id-step", 1),
    _text("--log-level", "info"),
    _switch("--log-requests"),
    _text("--crash-dump-folder"),
    _switch("--enable-metrics"),
    _switch("--enable-metrics-for-all-schedulers"),
    _number("--decode-log-interval", 40),
    _text("--api-key"),
    _text("--admin-api-key"),
    _text("--served-model-name"),
    _text("--chat-template"),
    _text("--reasoning-parser", choices=_REASONING),
    _text("--tool-call-parser", choices=_TOOLS),
    _text("--dist-init-addr --nccl-init-addr"),
    _number("--nnodes", 1),
    _number("--node-rank", 0),
    _text("--json-model-override-args", "{}"),
    _text("--attention-backend", choices=_ATTENTION),
    _text("--decode-attention-backend", choices=_ATTENTION),
    _text("--prefill-attention-backend", choices=_ATTENTION),
    _text("--sampling-backend", choices=["flashinfer", "pytorch", "ascend"]),
    _text("--mm-attention-backend", choices=["sdpa", "fa3", "fa4", "triton_attn", "ascend_attn", "aiter_attn"]),
    _text("--fp8-gemm-backend", "auto"),
    _text("--fp4-gemm-backend", "auto"),
    _text(
        "--speculative-algorithm",
        choices=["EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM"],
    ),
    _text("--speculative-draft-model-path --speculative-draft-model"),
    _text("--speculative-draft-model-quantization", choices=[*_QUANTIZATION, "unquant"]),
    _number("--speculative-num-steps"),
    _number("--speculative-eagle-topk"),
    _number("--speculative-num-draft-tokens"),
    _fraction("--speculative-accept-threshold-single", 1.0),
    _fraction("--speculative-accept-threshold-acc", 1.0),
    _text("--speculative-attention-mode", "prefill", choices=["prefill", "decode"]),
    _text("--speculative-moe-runner-backend"),
    _text("--moe-a2a-backend", "none", choices=["none", "deepep", "mooncake", "mori", "ascend_fuseep", "flashinfer"]),
    _text(
        "--moe-runner-backend",
        "auto",
        choices=[
            "auto",
            "deep_gemm",
            "triton",
            "triton_kernel",
            "flashinfer_trtllm",
            "flashinfer_cutlass",
            "flashinfer_mxfp4",
            "flashinfer_cutedsl",
            "cutlass",
        ],
    ),
    _number("--max-mamba-cache-size"),
    _text("--mamba-ssm-dtype", choices=["float32", "bfloat16", "float16"]),
    _fraction("--mamba-full-memory-ratio", 0.9),
    _text("--mamba-scheduler-strategy", "auto", choices=["auto", "no_buffer", "extra_buffer"]),
    _number("--mamba-track-interval", 256),
    _text("--mamba-backend", "triton", choices=["triton", "flashinfer"]),
    _switch("--enable-hierarchical-cache"),
    _fraction("--hicache-ratio", 2.0),
    _number("--hicache-size", 0),
    _switch("--disable-radix-cache"),
    _number("--cuda-graph-max-bs"),
    ("--cuda-graph-bs", {"type": int, "nargs": "+", "default": None}),
    _switch("--disable-cuda-graph"),
    _switch("--disable-cuda-graph-padding"),
    _switch("--enable-piecewise-cuda-graph"),
    _number("--piecewise-cuda-graph-max-tokens"),
    _text("--piecewise-cuda-graph-compiler", "eager", choices=["eager", "inductor"]),
    _switch("--disable-custom-all-reduce"),
    _switch("--disable-overlap-schedule"),
    _switch("--enable-mixed-chunk"),
    _switch("--enable-two-batch-overlap"),
    _switch("--enable-single-batch-overlap"),
    _switch("--enable-torch-compile"),
    _number("--torch-compile-max-bs", 32),
    _text("--torchao-config", ""),
    _switch("--enable-nan-detection"),
    _switch("--enable-memory-saver"),
    _switch("--language-only"),
    _switch("--encoder-only"),
    ("--encoder-urls", {"type": str, "nargs": "+", "default": []}),
)


def build_parser() -> argparse.ArgumentParser:
    """The parser of 0.5.9; unambiguous prefixes of a flag are accepted, as there."""
    parser = argparse.ArgumentParser(prog="launch_server.py")
    for names, options in FLAGS:
        parser.add_argument(*names.split(), **options)
    return parser


def _with_settings(argv: Sequence[str]) -> list[str]:
    """With what the file that `--config` names says in front; of YAML only `name: value`, the value as JSON has it."""
    words = list(argv)
    if words.count("--config") > 1:
        raise ValueError("Multiple config files specified! Only one allowed.")
    if "--config" not in words:
        return words
    at = words.index("--config")
    path = Path(words[at + 1])
    if path.suffix not in (".yaml", ".yml"):
        raise ValueError(f"Config file must be YAML format, got: {path.suffix}")
    settings = [line.partition(": ") for line in path.read_text().splitlines()]
    given = [word for name, _, value in settings for word in (f"--{name}", str(json.loads(value)))]
    return [*given, *words[:at], *words[at + 2 :]]


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The values as given, with the few that follow from another one filled in. Exits 2 on an error."""
    args = build_parser().parse_args(_with_settings(argv))
    args.tokenizer_path = args.tokenizer_path or args.model_path
    args.served_model_name = args.served_model_name or args.model_path
    if args.speculative_algorithm == "NEXTN":
        args.speculative_algorithm = "EAGLE"
    if args.speculative_algorithm and args.speculative_num_steps is None:
        args.speculative_num_steps, args.speculative_eagle_topk = 3, 1
        args.speculative_num_draft_tokens = 4
    return args
