"""What a model is made of, as far as memory is concerned: its config.json, read as the engines read it. PURE.

Keys and defaults: SGLang 0.5.9 to 0.5.11, srt/configs/model_config.py; transformers' names of the fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deployments.fit.fields import Fields
from deployments.fit.files import ModelFiles
from deployments.fit.span import CannotTell, Span
from hosts.probe.frames import Unknown

TEXT_PARTS = ("text_config", "llm_config", "language_config")
"""Where models that also see or hear keep what describes their language part."""
KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num", "num_attention_groups")
NOT_KNOWN_TO_US = {
    "hybrid_override_pattern", "layers_block_type", "attn_layer_period", "attn_type_list", "linear_attn_config",
    "mamba_d_state", "mamba_num_heads", "ssm_cfg", "ssm_state_size", "block_configs", "global_head_dim",
}  # fmt: skip
"""Fields of models whose layers hold other things than the ones below."""
UNSCALED = {"", "default", "llama3", "longrope", "su", "mrope"}
"""Kinds of rope scaling that leave the context at max_position_embeddings."""


@dataclass(frozen=True)
class Attention:
    """Layers that keep keys and values of each token."""

    layers: int
    kv_heads: int
    head_dim: int
    v_head_dim: int


@dataclass(frozen=True)
class Latent:
    """Layers that keep one compressed vector a token (MLA), and an indexer's keys beside it where there is one."""

    layers: int
    rank: int
    rope_dim: int
    index_dim: int = 0


@dataclass(frozen=True)
class LinearAttention:
    """Gated DeltaNet layers: a state of fixed size for each request, however long it is."""

    layers: int
    value_heads: int
    key_heads: int
    value_dim: int
    key_dim: int
    kernel: int
    dtype: str
    """Of the state, as the checkpoint asks; empty when it does not."""


@dataclass(frozen=True)
class Model:
    """Everything of a model that decides about memory."""

    architecture: str
    full: Attention | Latent | None
    sliding: Attention | None
    window: int | None
    """Tokens that a sliding layer looks back."""
    linear: LinearAttention | None
    weights: Span
    """Bytes of all weight files."""
    context: int | None
    fp8_kv: bool
    """The checkpoint itself switches the KV cache to FP8."""
    draft_layers: int | None
    """Layers of the model's own speculative head; None when it does not tell of any."""
    multimodal: bool
    vision_layers: int = 24
    vision_hidden: int = 1024
    replicated: int = 0
    """At most so many bytes are on every card of a DP-attention group instead of being split: attention, embeddings."""
    moe: bool = False


def read_model(files: ModelFiles) -> Model | Unknown:
    """Raises nothing: what is missing is named in the Unknown."""
    if isinstance(files.config, Unknown):
        return files.config
    try:
        return _read(files, Fields(files.config, "config.json"))
    except CannotTell as missing:
        return Unknown(str(missing))


def _read(files: ModelFiles, config: Fields) -> Model:
    text = _language_part(config)
    strange = sorted(NOT_KNOWN_TO_US & text.values.keys())
    if strange or config.values.get("is_encoder_decoder") is True:
        raise CannotTell(f"The estimate does not know this kind of model ({', '.join(strange) or 'encoder-decoder'}).")
    full, linear, sliding = _layers(text)
    vision = config.inner("vision_config")
    return Model(
        architecture=next(iter(config.texts("architectures")), ""),
        full=_full(text, full),
        sliding=_sliding(text, sliding) if sliding else None,
        window=text.integer("sliding_window") if sliding else None,
        linear=_linear(text, linear) if linear else None,
        weights=weights_of(files),
        context=_context(text),
        fp8_kv=_asks_for_fp8(files, config),
        draft_layers=text.optional("mtp_num_hidden_layers", "num_nextn_predict_layers"),
        multimodal=bool(vision.values),
        vision_layers=vision.optional("num_hidden_layers") or 24,
        vision_hidden=vision.optional("hidden_size") or 1024,
        replicated=_replicated(text),
        moe=bool(text.optional("num_experts", "n_routed_experts", "num_local_experts")),
    )


def _language_part(config: Fields) -> Fields:
    return next((config.inner(part) for part in TEXT_PARTS if config.inner(part).values), config)


def _layers(text: Fields) -> tuple[int, int, int]:
    """How many layers have full, linear and sliding attention."""
    count = text.integer("num_hidden_layers", "n_layer", "num_layers")
    kinds = text.texts("layer_types")[:count]
    hybrid = text.optional("linear_num_value_heads") is not None
    if kinds:
        odd = {*kinds} - {"full_attention", "linear_attention", "sliding_attention"}
        if odd or len(kinds) < count:
            raise CannotTell(f"layer_types of {text.where} has {', '.join(sorted(odd)) or 'too few layers'}.")
        numbers = [kinds.count(f"{kind}_attention") for kind in ("full", "linear", "sliding")]
        return numbers[0], numbers[1], numbers[2]
    if hybrid:
        full = count // max(1, text.integer("full_attention_interval"))
        return full, count - full, 0
    return count, 0, 0


def _full(text: Fields, layers: int) -> Attention | Latent | None:
    if not layers:
        return None
    rank = text.optional("kv_lora_rank")
    if rank:
        return Latent(layers, rank, text.integer("qk_rope_head_dim"), text.optional("index_head_dim") or 0)
    return _attention(text, layers, text.integer(*KV_HEADS))


def _attention(text: Fields, layers: int, kv_heads: int) -> Attention:
    head_dim = text.optional("head_dim")
    if not head_dim:
        head_dim = text.integer("hidden_size") // max(1, text.integer("num_attention_heads"))
    return Attention(layers, kv_heads, head_dim, text.optional("v_head_dim") or head_dim)


def _sliding(text: Fields, layers: int) -> Attention:
    own = _attention(text, layers, text.optional("swa_num_key_value_heads") or text.integer(*KV_HEADS))
    head_dim = text.optional("swa_head_dim") or own.head_dim
    return Attention(layers, own.kv_heads, head_dim, text.optional("swa_v_head_dim") or own.v_head_dim)


def _linear(text: Fields, layers: int) -> LinearAttention:
    return LinearAttention(
        layers,
        value_heads=text.integer("linear_num_value_heads"),
        key_heads=text.integer("linear_num_key_heads"),
        value_dim=text.integer("linear_value_head_dim"),
        key_dim=text.integer("linear_key_head_dim"),
        kernel=text.integer("linear_conv_kernel_dim"),
        dtype=text.text("mamba_ssm_dtype"),
    )


def _context(text: Fields) -> int | None:
    """Tokens. A rope scaling multiplies it, unless it names the context that it started from."""
    length = text.optional("max_position_embeddings", "model_max_length", "max_sequence_length")
    scaling = text.inner("rope_scaling")
    factor = scaling.values.get("factor")
    kind = scaling.text("rope_type", "type")
    if length is None or kind in UNSCALED or "original_max_position_embeddings" in scaling.values:
        return length
    return int(length * factor) if isinstance(factor, int | float) and 0 < factor < 1000 else length


def asks_for_fp8(files: ModelFiles) -> bool:
    """Does the checkpoint itself switch the KV cache to FP8? Raises CannotTell where a file that says so is odd."""
    config = files.config if isinstance(files.config, Mapping) else {}
    return _asks_for_fp8(files, Fields(config, "config.json"))


def has_linear_attention(files: ModelFiles) -> bool:
    """Is it a hybrid model, as far as its config.json was read?"""
    if not isinstance(files.config, Mapping):
        return False
    return _layers(_language_part(Fields(files.config, "config.json")))[1] > 0


def _asks_for_fp8(files: ModelFiles, config: Fields) -> bool:
    """ModelOpt writes ``kv_cache_quant_algo`` into a file of its own; compressed-tensors a scheme of 8 bits."""
    if isinstance(files.quantization, Unknown):
        raise CannotTell(f"hf_quant_config.json: {files.quantization.reason}")
    own = config.inner("quantization_config")
    said = [own.text("kv_cache_quant_algo")]
    if isinstance(files.quantization, Mapping):
        said.append(
            Fields(files.quantization, "hf_quant_config.json").inner("quantization").text("kv_cache_quant_algo")
        )
    return "FP8" in [word.upper() for word in said] or own.inner("kv_cache_scheme").values.get("num_bits") == 8


def weights_of(files: ModelFiles) -> Span:
    """Bytes of the weights: the files that the index names, or all of them when there is no index."""
    if isinstance(files.index, Unknown):
        raise CannotTell(f"model.safetensors.index.json: {files.index.reason}")
    named = files.index.shards if files.index is not None else frozenset()
    there = sum(size for name, size in files.sizes.items() if not named or name in named)
    total = files.index.total if files.index is not None else None
    if files.missing and total is None:
        raise CannotTell(f"{len(files.missing)} weight files are missing, the first is {files.missing[0]}.")
    if not there and total is None:
        raise CannotTell("The model's folder has no weight files (*.safetensors).")
    stated = total if total is not None else there
    likely = there if there and not files.missing else stated
    return Span(min(likely, stated), likely, max(likely, stated))


def _replicated(text: Fields) -> int:
    """Attention, with its gate, and both embeddings, at 2 bytes a parameter: an upper bound for quantised ones."""
    try:
        hidden, heads = text.integer("hidden_size"), text.integer("num_attention_heads")
        size = text.optional("head_dim") or hidden // max(1, heads)
        return 2 * (
            4 * hidden * heads * size * text.integer("num_hidden_layers") + 2 * hidden * text.integer("vocab_size")
        )
    except CannotTell:
        return 0
