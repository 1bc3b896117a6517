"""The launch flags of SGLang 0.5.9 that an operator meets, written as the real ones are: one call for each.

Read by argparse here, with its own errors and abbreviations, and by whoever reads the source of an installed SGLang.
"""

import argparse
import dataclasses
from collections.abc import Sequence
from typing import List, Optional

from .arguments import fill_in
from .function_call.function_call_parser import FunctionCallParser
from .parser.reasoning_parser import ReasoningParser

QUANTIZATION_CHOICES = [
    "awq", "fp8", "mxfp8", "gptq", "marlin", "gptq_marlin", "awq_marlin", "bitsandbytes", "gguf",
    "modelopt", "modelopt_fp8", "modelopt_fp4", "petit_nvfp4", "w8a8_int8", "w8a8_fp8", "moe_wna16",
    "qoq", "w4afp8", "mxfp4", "auto-round", "compressed-tensors", "modelslim", "quark_int4fp8_moe",
]  # fmt: skip
ATTENTION_BACKEND_CHOICES = [
    "triton", "torch_native", "flex_attention", "nsa", "cutlass_mla", "fa3", "fa4", "flashinfer",
    "flashmla", "trtllm_mla", "trtllm_mha", "dual_chunk_flash_attn", "aiter", "wave", "intel_amx",
    "ascend", "intel_xpu",
]  # fmt: skip
LOAD_FORMAT_CHOICES = [
    "auto", "pt", "safetensors", "npcache", "dummy", "sharded_state", "gguf", "bitsandbytes",
    "layered", "flash_rl", "remote", "remote_instance", "fastsafetensors", "private",
]  # fmt: skip


@dataclasses.dataclass
class ServerArgs:
    """The defaults."""

    model_path: str
    tokenizer_path: Optional[str] = None
    tokenizer_mode: str = "auto"
    tokenizer_worker_num: int = 1
    skip_tokenizer_init: bool = False
    load_format: str = "auto"
    model_loader_extra_config: str = "{}"
    trust_remote_code: bool = False
    context_length: Optional[int] = None
    is_embedding: bool = False
    enable_multimodal: Optional[bool] = None
    revision: Optional[str] = None
    model_impl: str = "auto"
    host: str = "127.0.0.1"
    port: int = 30000
    skip_server_warmup: bool = False
    nccl_port: Optional[int] = None
    dtype: str = "auto"
    quantization: Optional[str] = None
    quantization_param_path: Optional[str] = None
    kv_cache_dtype: str = "auto"
    mem_fraction_static: Optional[float] = None
    max_running_requests: Optional[int] = None
    max_queued_requests: Optional[int] = None
    max_total_tokens: Optional[int] = None
    chunked_prefill_size: Optional[int] = None
    max_prefill_tokens: int = 16384
    schedule_policy: str = "fcfs"
    schedule_conservativeness: float = 1.0
    page_size: Optional[int] = None
    tp_size: int = 1
    pp_size: int = 1
    dp_size: int = 1
    ep_size: int = 1
    enable_dp_attention: bool = False
    stream_output: bool = False
    random_seed: Optional[int] = None
    watchdog_timeout: float = 300
    soft_watchdog_timeout: Optional[float] = None
    dist_timeout: Optional[int] = None
    download_dir: Optional[str] = None
    base_gpu_id: int = 0
    gpu_id_step: int = 1
    log_level: str = "info"
    log_requests: bool = False
    crash_dump_folder: Optional[str] = None
    enable_metrics: bool = False
    enable_metrics_for_all_schedulers: bool = False
    decode_log_interval: int = 40
    api_key: Optional[str] = None
    admin_api_key: Optional[str] = None
    served_model_name: Optional[str] = None
    chat_template: Optional[str] = None
    reasoning_parser: Optional[str] = None
    tool_call_parser: Optional[str] = None
    dist_init_addr: Optional[str] = None
    nnodes: int = 1
    node_rank: int = 0
    json_model_override_args: str = "{}"
    attention_backend: Optional[str] = None
    decode_attention_backend: Optional[str] = None
    prefill_attention_backend: Optional[str] = None
    sampling_backend: Optional[str] = None
    mm_attention_backend: Optional[str] = None
    fp8_gemm_backend: str = "auto"
    fp4_gemm_backend: str = "auto"
    speculative_algorithm: Optional[str] = None
    speculative_draft_model_path: Optional[str] = None
    speculative_draft_model_quantization: Optional[str] = None
    speculative_num_steps: Optional[int] = None
    speculative_eagle_topk: Optional[int] = None
    speculative_num_draft_tokens: Optional[int] = None
    speculative_accept_threshold_single: float = 1.0
    speculative_accept_threshold_acc: float = 1.0
    speculative_attention_mode: str = "prefill"
    speculative_moe_runner_backend: Optional[str] = None
    moe_a2a_backend: str = "none"
    moe_runner_backend: str = "auto"
    max_mamba_cache_size: Optional[int] = None
    mamba_ssm_dtype: Optional[str] = None
    mamba_full_memory_ratio: float = 0.9
    mamba_scheduler_strategy: str = "auto"
    mamba_track_interval: int = 256
    mamba_backend: str = "triton"
    enable_hierarchical_cache: bool = False
    hicache_ratio: float = 2.0
    hicache_size: int = 0
    disable_radix_cache: bool = False
    cuda_graph_max_bs: Optional[int] = None
    cuda_graph_bs: Optional[List[int]] = None
    disable_cuda_graph: bool = False
    disable_cuda_graph_padding: bool = False
    enable_piecewise_cuda_graph: bool = False
    piecewise_cuda_graph_max_tokens: Optional[int] = None
    piecewise_cuda_graph_compiler: str = "eager"
    disable_custom_all_reduce: bool = False
    disable_overlap_schedule: bool = False
    enable_mixed_chunk: bool = False
    enable_two_batch_overlap: bool = False
    enable_single_batch_overlap: bool = False
    enable_torch_compile: bool = False
    torch_compile_max_bs: int = 32
    torchao_config: str = ""
    enable_nan_detection: bool = False
    enable_memory_saver: bool = False
    language_only: bool = False
    encoder_only: bool = False
    encoder_urls: Optional[List[str]] = None
    enable_flashinfer_allreduce_fusion: bool = False
    enable_nccl_nvls: bool = False
    enable_lora: bool = False
    config: Optional[str] = None

    @staticmethod
    def add_cli_args(parser: argparse.ArgumentParser) -> None:
        """Every flag."""
        parser.add_argument(
            "--model-path",
            "--model",
            type=str,
            required=True,
            help="The model: a directory, or a repository of the hub.",
        )
        parser.add_argument("--tokenizer-path", type=str, default=ServerArgs.tokenizer_path)
        parser.add_argument("--tokenizer-mode", type=str, default=ServerArgs.tokenizer_mode, choices=["auto", "slow"])
        parser.add_argument("--tokenizer-worker-num", type=int, default=ServerArgs.tokenizer_worker_num)
        parser.add_argument("--skip-tokenizer-init", action="store_true")
        parser.add_argument("--load-format", type=str, default=ServerArgs.load_format, choices=LOAD_FORMAT_CHOICES)
        parser.add_argument("--model-loader-extra-config", type=str, default=ServerArgs.model_loader_extra_config)
        parser.add_argument("--trust-remote-code", action="store_true")
        parser.add_argument(
            "--context-length",
            type=int,
            default=ServerArgs.context_length,
            help="The longest context; the model's own when not given.",
        )
        parser.add_argument("--is-embedding", action="store_true")
        parser.add_argument("--enable-multimodal", action="store_true", default=ServerArgs.enable_multimodal)
        parser.add_argument("--revision", type=str, default=ServerArgs.revision)
        parser.add_argument("--model-impl", type=str, default=ServerArgs.model_impl)
        parser.add_argument("--host", type=str, default=ServerArgs.host, help="The address to listen on.")
        parser.add_argument("--port", type=int, default=ServerArgs.port, help="The port to listen on.")
        parser.add_argument("--skip-server-warmup", action="store_true")
        parser.add_argument("--nccl-port", type=int, default=ServerArgs.nccl_port)
        parser.add_argument(
            "--dtype",
            type=str,
            default=ServerArgs.dtype,
            choices=["auto", "half", "float16", "bfloat16", "float", "float32"],
        )
        parser.add_argument(
            "--quantization",
            type=str,
            default=ServerArgs.quantization,
            choices=QUANTIZATION_CHOICES,
            help="How the weights are quantized.",
        )
        parser.add_argument("--quantization-param-path", type=str, default=ServerArgs.quantization_param_path)
        parser.add_argument(
            "--kv-cache-dtype",
            type=str,
            default=ServerArgs.kv_cache_dtype,
            choices=["auto", "fp8_e5m2", "fp8_e4m3", "bf16", "bfloat16", "fp4_e2m1"],
            help="The number format of the KV cache; auto follows the checkpoint.",
        )
        parser.add_argument(
            "--mem-fraction-static",
            type=float,
            default=ServerArgs.mem_fraction_static,
            help="The part of the free memory for weights and KV cache.",
        )
        parser.add_argument(
            "--max-running-requests",
            type=int,
            default=ServerArgs.max_running_requests,
            help="How many requests run at once.",
        )
        parser.add_argument("--max-queued-requests", type=int, default=ServerArgs.max_queued_requests)
        parser.add_argument("--max-total-tokens", type=int, default=ServerArgs.max_total_tokens)
        parser.add_argument(
            "--chunked-prefill-size",
            type=int,
            default=ServerArgs.chunked_prefill_size,
            help="Into pieces of how many tokens a prompt is cut.",
        )
        parser.add_argument("--max-prefill-tokens", type=int, default=ServerArgs.max_prefill_tokens)
        parser.add_argument(
            "--schedule-policy",
            type=str,
            default=ServerArgs.schedule_policy,
            choices=["lpm", "random", "fcfs", "dfs-weight", "lof", "priority", "routing-key"],
        )
        parser.add_argument("--schedule-conservativeness", type=float, default=ServerArgs.schedule_conservativeness)
        parser.add_argument("--page-size", type=int, default=ServerArgs.page_size)
        parser.add_argument(
            "--tp-size",
            "--tensor-parallel-size",
            type=int,
            default=ServerArgs.tp_size,
            help="Over how many cards each layer is split.",
        )
        parser.add_argument(
            "--pp-size",
            "--pipeline-parallel-size",
            type=int,
            default=ServerArgs.pp_size,
            help="Into how many stages the layers are divided.",
        )
        parser.add_argument(
            "--dp-size",
            "--data-parallel-size",
            type=int,
            default=ServerArgs.dp_size,
            help="How many copies of the model.",
        )
        parser.add_argument(
            "--ep-size",
            "--expert-parallel-size",
            "--ep",
            type=int,
            default=ServerArgs.ep_size,
            help="Over how many cards the experts are spread.",
        )
        parser.add_argument("--enable-dp-attention", action="store_true")
        parser.add_argument("--stream-output", action="store_true")
        parser.add_argument("--random-seed", type=int, default=ServerArgs.random_seed)
        parser.add_argument("--watchdog-timeout", type=float, default=ServerArgs.watchdog_timeout)
        parser.add_argument("--soft-watchdog-timeout", type=float, default=ServerArgs.soft_watchdog_timeout)
        parser.add_argument("--dist-timeout", type=int, default=ServerArgs.dist_timeout)
        parser.add_argument("--download-dir", type=str, default=ServerArgs.download_dir)
        parser.add_argument("--base-gpu-id", type=int, default=ServerArgs.base_gpu_id)
        parser.add_argument("--gpu-id-step", type=int, default=ServerArgs.gpu_id_step)
        parser.add_argument("--log-level", type=str, default=ServerArgs.log_level)
        parser.add_argument("--log-requests", action="store_true")
        parser.add_argument("--crash-dump-folder", type=str, default=ServerArgs.crash_dump_folder)
        parser.add_argument("--enable-metrics", action="store_true", help="Serve /metrics.")
        parser.add_argument("--enable-metrics-for-all-schedulers", action="store_true")
        parser.add_argument("--decode-log-interval", type=int, default=ServerArgs.decode_log_interval)
        parser.add_argument("--api-key", type=str, default=ServerArgs.api_key, help="A key that clients must send.")
        parser.add_argument("--admin-api-key", type=str, default=ServerArgs.admin_api_key)
        parser.add_argument("--served-model-name", type=str, default=ServerArgs.served_model_name)
        parser.add_argument("--chat-template", type=str, default=ServerArgs.chat_template)
        parser.add_argument(
            "--reasoning-parser",
            type=str,
            default=ServerArgs.reasoning_parser,
            choices=list(ReasoningParser.DetectorMap.keys()),
            help="How reasoning is told from the answer.",
        )
        parser.add_argument(
            "--tool-call-parser",
            type=str,
            default=ServerArgs.tool_call_parser,
            choices=list(FunctionCallParser.ToolCallParserEnum.keys()),
            help="How calls of tools are read.",
        )
        parser.add_argument("--dist-init-addr", "--nccl-init-addr", type=str, default=ServerArgs.dist_init_addr)
        parser.add_argument("--nnodes", type=int, default=ServerArgs.nnodes)
        parser.add_argument("--node-rank", type=int, default=ServerArgs.node_rank)
        parser.add_argument("--json-model-override-args", type=str, default=ServerArgs.json_model_override_args)
        parser.add_argument(
            "--attention-backend",
            type=str,
            default=ServerArgs.attention_backend,
            choices=ATTENTION_BACKEND_CHOICES,
            help="The kernels of the attention layers.",
        )
        parser.add_argument(
            "--decode-attention-backend",
            type=str,
            default=ServerArgs.decode_attention_backend,
            choices=ATTENTION_BACKEND_CHOICES,
        )
        parser.add_argument(
            "--prefill-attention-backend",
            type=str,
            default=ServerArgs.prefill_attention_backend,
            choices=ATTENTION_BACKEND_CHOICES,
        )
        parser.add_argument(
            "--sampling-backend",
            type=str,
            default=ServerArgs.sampling_backend,
            choices=["flashinfer", "pytorch", "ascend"],
        )
        parser.add_argument(
            "--mm-attention-backend",
            type=str,
            default=ServerArgs.mm_attention_backend,
            choices=["sdpa", "fa3", "fa4", "triton_attn", "ascend_attn", "aiter_attn"],
        )
        parser.add_argument("--fp8-gemm-backend", type=str, default=ServerArgs.fp8_gemm_backend)
        parser.add_argument("--fp4-gemm-backend", type=str, default=ServerArgs.fp4_gemm_backend)
        parser.add_argument(
            "--speculative-algorithm",
            type=str,
            default=ServerArgs.speculative_algorithm,
            choices=["EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM"],
            help="How tokens are guessed ahead.",
        )
        parser.add_argument(
            "--speculative-draft-model-path",
            "--speculative-draft-model",
            type=str,
            default=ServerArgs.speculative_draft_model_path,
        )
        parser.add_argument(
            "--speculative-draft-model-quantization",
            type=str,
            default=ServerArgs.speculative_draft_model_quantization,
            choices=[*QUANTIZATION_CHOICES, "unquant"],
        )
        parser.add_argument(
            "--speculative-num-steps",
            type=int,
            default=ServerArgs.speculative_num_steps,
            help="How many steps are guessed ahead.",
        )
        parser.add_argument("--speculative-eagle-topk", type=int, default=ServerArgs.speculative_eagle_topk)
        parser.add_argument("--speculative-num-draft-tokens", type=int, default=ServerArgs.speculative_num_draft_tokens)
        parser.add_argument(
            "--speculative-accept-threshold-single", type=float, default=ServerArgs.speculative_accept_threshold_single
        )
        parser.add_argument(
            "--speculative-accept-threshold-acc", type=float, default=ServerArgs.speculative_accept_threshold_acc
        )
        parser.add_argument(
            "--speculative-attention-mode",
            type=str,
            default=ServerArgs.speculative_attention_mode,
            choices=["prefill", "decode"],
        )
        parser.add_argument(
            "--speculative-moe-runner-backend", type=str, default=ServerArgs.speculative_moe_runner_backend
        )
        parser.add_argument(
            "--moe-a2a-backend",
            type=str,
            default=ServerArgs.moe_a2a_backend,
            choices=["none", "deepep", "mooncake", "mori", "ascend_fuseep", "flashinfer"],
        )
        parser.add_argument(
            "--moe-runner-backend",
            type=str,
            default=ServerArgs.moe_runner_backend,
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
        )
        parser.add_argument("--max-mamba-cache-size", type=int, default=ServerArgs.max_mamba_cache_size)
        parser.add_argument(
            "--mamba-ssm-dtype",
            type=str,
            default=ServerArgs.mamba_ssm_dtype,
            choices=["float32", "bfloat16", "float16"],
        )
        parser.add_argument("--mamba-full-memory-ratio", type=float, default=ServerArgs.mamba_full_memory_ratio)
        parser.add_argument(
            "--mamba-scheduler-strategy",
            type=str,
            default=ServerArgs.mamba_scheduler_strategy,
            choices=["auto", "no_buffer", "extra_buffer"],
            help="How state is kept for prefixes.",
        )
        parser.add_argument("--mamba-track-interval", type=int, default=ServerArgs.mamba_track_interval)
        parser.add_argument(
            "--mamba-backend", type=str, default=ServerArgs.mamba_backend, choices=["triton", "flashinfer"]
        )
        parser.add_argument("--enable-hierarchical-cache", action="store_true")
        parser.add_argument("--hicache-ratio", type=float, default=ServerArgs.hicache_ratio)
        parser.add_argument("--hicache-size", type=int, default=ServerArgs.hicache_size)
        parser.add_argument("--disable-radix-cache", action="store_true", help="Do not keep prefixes.")
        parser.add_argument(
            "--cuda-graph-max-bs",
            type=int,
            default=ServerArgs.cuda_graph_max_bs,
            help="The largest batch for which graphs are captured.",
        )
        parser.add_argument("--cuda-graph-bs", type=int, nargs="+", default=ServerArgs.cuda_graph_bs)
        parser.add_argument("--disable-cuda-graph", action="store_true")
        parser.add_argument("--disable-cuda-graph-padding", action="store_true")
        parser.add_argument("--enable-piecewise-cuda-graph", action="store_true")
        parser.add_argument(
            "--piecewise-cuda-graph-max-tokens", type=int, default=ServerArgs.piecewise_cuda_graph_max_tokens
        )
        parser.add_argument(
            "--piecewise-cuda-graph-compiler",
            type=str,
            default=ServerArgs.piecewise_cuda_graph_compiler,
            choices=["eager", "inductor"],
        )
        parser.add_argument("--disable-custom-all-reduce", action="store_true")
        parser.add_argument("--disable-overlap-schedule", action="store_true")
        parser.add_argument("--enable-mixed-chunk", action="store_true")
        parser.add_argument("--enable-two-batch-overlap", action="store_true")
        parser.add_argument("--enable-single-batch-overlap", action="store_true")
        parser.add_argument("--enable-torch-compile", action="store_true")
        parser.add_argument("--torch-compile-max-bs", type=int, default=ServerArgs.torch_compile_max_bs)
        parser.add_argument("--torchao-config", type=str, default=ServerArgs.torchao_config)
        parser.add_argument("--enable-nan-detection", action="store_true")
        parser.add_argument("--enable-memory-saver", action="store_true")
        parser.add_argument(
            "--language-only", action="store_true", help="Serve the language part beside encoders on other machines."
        )
        parser.add_argument("--encoder-only", action="store_true")
        parser.add_argument("--encoder-urls", type=str, nargs="+", default=ServerArgs.encoder_urls)
        parser.add_argument("--enable-flashinfer-allreduce-fusion", action="store_true")
        parser.add_argument("--enable-nccl-nvls", action="store_true")
        parser.add_argument("--enable-lora", action="store_true")
        parser.add_argument("--config", type=str, default=ServerArgs.config, help="Flags from a YAML file.")


def build_parser() -> argparse.ArgumentParser:
    """Unambiguous prefixes of a flag are accepted, as in the real one."""
    parser = argparse.ArgumentParser(prog="launch_server.py")
    ServerArgs.add_cli_args(parser)
    return parser


def prepare_server_args(argv: Sequence[str]) -> argparse.Namespace:
    """The values as given, with the few that follow from another one filled in. Exits 2 on an error."""
    return fill_in(build_parser().parse_args(argv))
