"""What the simulated server knows of its model: config.json, the size of the weights, the KV precision."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MIB = 2**20
DEFAULT_WEIGHTS_MIB = 8000


class ModelPathError(Exception):
    """The text that Hugging Face's hub gives for a path that is not there."""


@dataclass(frozen=True)
class Model:
    """Facts of one checkpoint. `linear_layers` is 0 unless the model is a hybrid."""

    path: Path
    architecture: str
    attention_layers: int
    linear_layers: int
    kv_heads: int
    head_dim: int
    max_context: int
    vocabulary: int
    fp8_kv: bool
    weights_mib: int
    slot_bytes: int

    @property
    def is_multimodal(self) -> bool:
        """SGLang goes by the architecture: it also counts checkpoints of which only the text is used."""
        return self.architecture.endswith("ForConditionalGeneration")

    def kv_bytes_per_token(self, *, tp: int, width: float) -> float:
        """KV cache of one token on one card; heads are replicated when there are fewer than cards."""
        return max(1, self.kv_heads // tp) * 2 * self.head_dim * self.attention_layers * width

    def state_bytes(self, *, tp: int) -> int:
        """Recurrent state of one request slot on one card."""
        return self.slot_bytes // tp


def read_model(path: Path) -> Model:
    """Raises ModelPathError when there is no model directory."""
    if not (path / "config.json").is_file():
        raise ModelPathError(
            f"Repo id must be in the form 'repo_name' or 'namespace/repo_name': '{path}'. "
            "Use `repo_type` argument if needed."
        )
    config = json.loads((path / "config.json").read_text())
    text = config.get("text_config", config)
    layers = text.get("num_hidden_layers", 36)
    hybrid = "linear_num_value_heads" in text
    full = layers // text.get("full_attention_interval", 4) if hybrid else layers
    heads = text.get("num_attention_heads", 32)
    return Model(
        path=path,
        architecture=config.get("architectures", ["Qwen3ForCausalLM"])[0],
        attention_layers=full,
        linear_layers=layers - full,
        kv_heads=text.get("num_key_value_heads", 8),
        head_dim=text.get("head_dim", text.get("hidden_size", 4096) // heads),
        max_context=text.get("max_position_embeddings", 40960),
        vocabulary=text.get("vocab_size", 151936),
        fp8_kv=_asks_for_fp8(path, config),
        weights_mib=sum(file.stat().st_size for file in path.glob("*.safetensors")) // MIB,
        slot_bytes=_slot_bytes(text, linear_layers=layers - full) if hybrid else 0,
    )


def _asks_for_fp8(path: Path, config: dict[str, Any]) -> bool:
    """Whether the checkpoint itself switches the KV cache to FP8 (ModelOpt, or a scheme of 8 bits)."""
    side = path / "hf_quant_config.json"
    if side.is_file() and json.loads(side.read_text()).get("quantization", {}).get("kv_cache_quant_algo") == "FP8":
        return True
    scheme = (config.get("quantization_config") or {}).get("kv_cache_scheme") or {}
    return bool(scheme.get("num_bits") == 8)


def _slot_bytes(text: dict[str, Any], *, linear_layers: int) -> int:
    """State of one slot over all cards, float32, for gated-delta layers."""
    values, keys = text["linear_num_value_heads"], text["linear_num_key_heads"]
    value_dim, key_dim = text.get("linear_value_head_dim", 128), text.get("linear_key_head_dim", 128)
    conv = (value_dim * values + 2 * keys * key_dim) * (text.get("linear_conv_kernel_dim", 4) - 1) * 2
    return int((conv + values * value_dim * key_dim * 4) * linear_layers)
