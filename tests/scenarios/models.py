"""Checkpoints as the stories have them, put onto a machine of the lab."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lab.models import put_checkpoint
from tests.support.story import Place

HYBRID: dict[str, Any] = {
    "architectures": ["Qwen3_5ForConditionalGeneration"],
    "num_hidden_layers": 64,
    "full_attention_interval": 4,
    "num_attention_heads": 24,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "linear_num_value_heads": 48,
    "linear_num_key_heads": 16,
    "linear_value_head_dim": 128,
    "linear_key_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "mtp_num_hidden_layers": 1,
    "max_position_embeddings": 262144,
    "lab": {"load_seconds": 1.0},
}
"""Layers of attention and layers with recurrent state, behind an architecture that counts as multimodal."""
WEIGHTS_MIB = 53_000
"""In bf16: 55 GB."""
FP8_KV = {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}}


def put_model(place: Place, name: str, config: Mapping[str, Any], **more: Any) -> str:
    """A model's directory on the machine; returns its path there. ``more``: as of ``put_files``."""
    put_files(place.machine.seen(f"/models/{name}"), config, **more)
    return f"/models/{name}"


def put_files(directory: Path, config: Mapping[str, Any], *, weights_mib: int = WEIGHTS_MIB, **more: Any) -> None:
    """A checkpoint. ``more``: as of ``put_checkpoint`` (quantization, kv_scales)."""
    put_checkpoint(directory, config, weights_mib=weights_mib, **more)
