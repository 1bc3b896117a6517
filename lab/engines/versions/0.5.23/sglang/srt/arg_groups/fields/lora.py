"""Config fields of the ``lora`` namespace."""

from __future__ import annotations

from sglang.srt.arg_groups.arg_utils import A


class Lora:
    """Namespace ``lora``."""

    enable_lora: A[bool, "Of the enable lora."] = False
