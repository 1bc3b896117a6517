"""Config fields of the ``spec`` namespace."""

from __future__ import annotations

from typing import Optional

from sglang.srt.arg_groups.arg_utils import A, Arg
from sglang.srt.arg_groups.choices import QUANTIZATION_CHOICES


class Spec:
    """Namespace ``spec``."""

    speculative_algorithm: A[Optional[str], "How tokens are guessed ahead."] = None
    speculative_draft_model_path: A[Optional[str], Arg(aliases=["--speculative-draft-model"])] = None
    speculative_draft_model_quantization: A[Optional[str], Arg(choices=QUANTIZATION_CHOICES)] = None
    speculative_num_steps: A[Optional[int], "How many steps are guessed ahead."] = None
    speculative_eagle_topk: A[Optional[int], "Of the speculative eagle topk."] = None
    speculative_num_draft_tokens: A[Optional[int], "Of the speculative num draft tokens."] = None
    speculative_accept_threshold_single: A[float, "Of the speculative accept threshold single."] = 1.0
    speculative_accept_threshold_acc: A[float, "Of the speculative accept threshold acc."] = 1.0
    speculative_attention_mode: A[str, Arg(choices=["prefill", "decode"])] = "prefill"
    speculative_moe_runner_backend: A[Optional[str], "Of the speculative moe runner backend."] = None
