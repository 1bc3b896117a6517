"""Config fields of the ``parallel`` namespace."""

from __future__ import annotations

from typing import Optional

from sglang.srt.arg_groups.arg_utils import A, Arg


class Parallel:
    """Namespace ``parallel``."""

    nccl_port: A[Optional[int], "Of the nccl port."] = None
    tp_size: A[int, Arg(help="Over how many cards each layer is split.", aliases=["--tensor-parallel-size"])] = 1
    pp_size: A[int, Arg(help="Into how many stages the layers are divided.", aliases=["--pipeline-parallel-size"])] = 1
    dp_size: A[int, Arg(help="How many copies of the model.", aliases=["--data-parallel-size"])] = 1
    ep_size: A[
        int, Arg(help="Over how many cards the experts are spread.", aliases=["--expert-parallel-size", "--ep"])
    ] = 1
    enable_dp_attention: A[bool, "Of the enable dp attention."] = False
    dist_timeout: A[Optional[int], "Of the dist timeout."] = None
    base_gpu_id: A[int, "Of the base gpu id."] = 0
    gpu_id_step: A[int, "Of the gpu id step."] = 1
    dist_init_addr: A[Optional[str], Arg(aliases=["--nccl-init-addr"])] = None
    nnodes: A[int, "Of the nnodes."] = 1
    node_rank: A[int, "Of the node rank."] = 0
    moe_a2a_backend: A[
        str, Arg(choices=["none", "deepep", "mooncake", "mori", "ascend_fuseep", "flashinfer", "nixl"])
    ] = "none"
    disable_custom_all_reduce: A[bool, "Of the disable custom all reduce."] = False
    enable_flashinfer_allreduce_fusion: A[bool, "Of the enable flashinfer allreduce fusion."] = False
    enable_nccl_nvls: A[bool, "Of the enable nccl nvls."] = False
    attn_dp_size: A[int, "Of the attn dp size."] = 1
