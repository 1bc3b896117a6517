"""Models of the real data points: the fields of their config.json that decide about memory."""

from __future__ import annotations

from typing import Any

from deployments.fit.files import IndexFacts, ModelFiles
from deployments.fit.model import Model, read_model

GIB = 1 << 30


def hybrid(layers: int, kv_heads: int, value_heads: int, **more: Any) -> dict[str, Any]:
    """Gated DeltaNet with a full-attention layer every fourth (Qwen3-Next, Qwen3.5 and later)."""
    return {
        "architectures": ["Qwen3_5ForConditionalGeneration"],
        "vision_config": {"depth": 27, "hidden_size": 1152},
        "text_config": {
            "num_hidden_layers": layers, "full_attention_interval": 4, "num_attention_heads": 16,
            "num_key_value_heads": kv_heads, "head_dim": 256, "hidden_size": 4096, "vocab_size": 248320,
            "linear_num_value_heads": value_heads, "linear_num_key_heads": 16, "linear_value_head_dim": 128,
            "linear_key_head_dim": 128, "linear_conv_kernel_dim": 4, "max_position_embeddings": 262144,
            "mtp_num_hidden_layers": 1, **more,
        },
    }  # fmt: skip


def dense(layers: int, heads: int, kv_heads: int, head_dim: int = 128, **more: Any) -> dict[str, Any]:
    return {
        "architectures": ["Qwen3ForCausalLM"], "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": kv_heads, "head_dim": head_dim, "hidden_size": heads * head_dim, "vocab_size": 151936,
        "max_position_embeddings": 40960, **more,
    }  # fmt: skip


QWEN3_8B = dense(36, 32, 8)
QWEN3_8B_BYTES = 8_190_735_360 * 2
"""Its parameters, of 2 bytes each."""
QWEN3_235B = dense(94, 64, 4, architectures=["Qwen3MoeForCausalLM"], num_experts=128)
QWEN35_9B = hybrid(32, 4, 32)
QWEN35_27B = hybrid(64, 4, 48)
QWEN35_35B = hybrid(40, 2, 32, num_experts=256)
QWEN35_397B = hybrid(60, 2, 64, num_experts=512)
NEXT_80B = {**hybrid(48, 2, 32)["text_config"], "architectures": ["Qwen3NextForCausalLM"]}
KIMI_K2 = {
    "architectures": ["KimiK25ForConditionalGeneration"],
    "text_config": {
        "num_hidden_layers": 61, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "num_attention_heads": 64,
        "num_key_value_heads": 64, "hidden_size": 7168, "vocab_size": 163840, "max_position_embeddings": 262144,
    },
}  # fmt: skip


def files(config: dict[str, Any], weights: float, **more: Any) -> ModelFiles:
    """One shard of ``weights`` bytes."""
    name = "model-00001-of-00001.safetensors"
    index = IndexFacts(int(weights), frozenset({name}))
    return ModelFiles(**{"config": config, "index": index, "sizes": {name: int(weights)}, **more})


def model(config: dict[str, Any], weights: float = GIB, **more: Any) -> Model:
    read = read_model(files(config, weights, **more))
    assert isinstance(read, Model), read
    return read
