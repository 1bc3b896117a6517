"""Config fields of the ``memory`` namespace."""

from __future__ import annotations

from typing import Optional

from sglang.srt.arg_groups.arg_utils import A, Arg
from sglang.srt.arguments import human_readable_int


class Memory:
    """Namespace ``memory``."""

    kv_cache_dtype: A[
        str,
        Arg(
            help="The number format of the KV cache; auto follows the checkpoint.",
            choices=["auto", "fp8_e5m2", "fp8_e4m3", "bf16", "bfloat16", "nvfp4", "fp4_mx_block16", "mxfp8"],
        ),
    ] = "auto"
    mem_fraction_static: A[Optional[float], "The part of the free memory for weights and KV cache."] = None
    max_total_tokens: A[Optional[int], Arg(type_parser=human_readable_int)] = None
    page_size: A[Optional[int], "Of the page size."] = None
    max_mamba_cache_size: A[Optional[int], "Of the max mamba cache size."] = None
    mamba_ssm_dtype: A[Optional[str], Arg(choices=["float32", "bfloat16", "float16"])] = None
    mamba_full_memory_ratio: A[Optional[float], "Of the mamba full memory ratio."] = None
    mamba_track_interval: A[int, "Of the mamba track interval."] = 256
    mamba_backend: A[str, Arg(choices=["triton", "flashinfer"])] = "triton"
    enable_hierarchical_cache: A[bool, "Of the enable hierarchical cache."] = False
    hicache_ratio: A[Optional[float], "Of the hicache ratio."] = None
    hicache_size: A[int, "Of the hicache size."] = 0
    disable_radix_cache: A[bool, "Do not keep prefixes."] = False
    enable_memory_saver: A[bool, "Of the enable memory saver."] = False
    mamba_radix_cache_strategy: A[str, Arg(choices=["auto", "no_buffer", "extra_buffer", "extra_buffer_lazy"])] = "auto"
