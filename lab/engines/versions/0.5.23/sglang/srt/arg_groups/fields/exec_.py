"""Config fields of the ``exec_`` namespace."""

from __future__ import annotations

from typing import List, Optional

from sglang.srt.arg_groups.arg_utils import A, Arg
from sglang.srt.arg_groups.choices import ATTENTION_BACKEND_CHOICES


class Exec:
    """Namespace ``exec_``."""

    attention_backend: A[
        Optional[str], Arg(help="The kernels of the attention layers.", choices=ATTENTION_BACKEND_CHOICES)
    ] = None
    decode_attention_backend: A[Optional[str], Arg(choices=ATTENTION_BACKEND_CHOICES)] = None
    prefill_attention_backend: A[Optional[str], Arg(choices=ATTENTION_BACKEND_CHOICES)] = None
    sampling_backend: A[Optional[str], Arg(choices=["flashinfer", "pytorch", "ascend"])] = None
    mm_attention_backend: A[
        Optional[str],
        Arg(choices=["sdpa", "fa3", "fa4", "triton_attn", "ascend_attn", "aiter_attn", "flashinfer_cudnn"]),
    ] = None
    moe_runner_backend: A[
        str,
        Arg(
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
                "flashinfer_trtllm_routed",
                "aiter",
            ]
        ),
    ] = "auto"
    disable_cuda_graph: A[bool, "Of the disable cuda graph."] = False
    disable_cuda_graph_padding: A[bool, "Of the disable cuda graph padding."] = False
    enable_torch_compile: A[bool, "Of the enable torch compile."] = False
    torch_compile_max_bs: A[int, "Of the torch compile max bs."] = 32
    linear_attn_backend: A[str, Arg(choices=["triton", "cutedsl", "flashinfer"])] = "triton"
    linear_attn_decode_backend: A[Optional[str], Arg(choices=["triton", "cutedsl", "flashinfer"])] = None
    linear_attn_prefill_backend: A[Optional[str], Arg(choices=["triton", "cutedsl", "flashinfer"])] = None
    cuda_graph_max_bs_decode: A[Optional[int], "Of the cuda graph max bs decode."] = None
    cuda_graph_bs_decode: A[Optional[List[int]], Arg(nargs="+")] = None
    cuda_graph_backend_decode: A[Optional[str], Arg(choices=["full", "piecewise", "disabled"])] = None
    cuda_graph_max_bs_prefill: A[Optional[int], "Of the cuda graph max bs prefill."] = None
    cuda_graph_bs_prefill: A[Optional[List[int]], Arg(nargs="+")] = None
    cuda_graph_backend_prefill: A[Optional[str], Arg(choices=["full", "piecewise", "disabled"])] = None
    fp8_gemm_runner_backend: A[str, "Of the fp8 gemm runner backend."] = "auto"
    fp4_gemm_runner_backend: A[str, "Of the fp4 gemm runner backend."] = "auto"
