"""Checkpoints as the stories have them, put onto a machine of the lab."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
    "max_position_embeddings": 262144,
    "lab": {"weights_mib": 26500, "load_seconds": 1.0},
}
"""Layers of attention and layers with recurrent state, behind an architecture that counts as multimodal."""
FP8_KV = {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}}


def put_model(
    place: Place, name: str, config: Mapping[str, Any], *, quantization: Mapping[str, Any] | None = None
) -> str:
    """A model's directory on the machine; returns its path there."""
    put_files(place.machine.seen(f"/models/{name}"), config, quantization=quantization)
    return f"/models/{name}"


def put_files(directory: Path, config: Mapping[str, Any], *, quantization: Mapping[str, Any] | None = None) -> None:
    """What an engine reads of a checkpoint beside its weights."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config))
    if quantization is not None:
        (directory / "hf_quant_config.json").write_text(json.dumps(quantization))
