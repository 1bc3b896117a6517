"""Checkpoints of the lab: what an engine and the panel read of one is real, its weights are holes in a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MIB = 1 << 20
SHARD_MIB = 5000


def put_checkpoint(
    directory: Path,
    config: Mapping[str, Any],
    *,
    weights_mib: int = 0,
    quantization: Mapping[str, Any] | None = None,
    kv_scales: bool = False,
) -> None:
    """A folder of safetensors: config.json, weight files of this size together, and their index.

    ``weights_mib`` 0: none. ``kv_scales``: the index names scales of a quantised KV cache.
    """
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config, indent=1))
    if quantization is not None:
        (directory / "hf_quant_config.json").write_text(json.dumps(quantization))
    if weights_mib:
        _put_weights(directory, weights_mib, kv_scales=kv_scales)


def _put_weights(directory: Path, weights_mib: int, *, kv_scales: bool) -> None:
    sizes = [min(SHARD_MIB, weights_mib - at) for at in range(0, weights_mib, SHARD_MIB)]
    tensors: dict[str, str] = {}
    for number, mib in enumerate(sizes):
        name = f"model-{number + 1:05}-of-{len(sizes):05}.safetensors"
        with (directory / name).open("wb") as file:
            file.truncate(mib * MIB)
        tensors[f"model.layers.{number}.mlp.down_proj.weight"] = name
        if kv_scales:
            tensors |= {f"model.layers.{number}.self_attn.{kv}_proj.{kv}_scale": name for kv in "kv"}
    index = {"metadata": {"total_size": weights_mib * MIB}, "weight_map": tensors}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
