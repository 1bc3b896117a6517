"""What a GGUF model is made of, layer by layer: bytes of its tensors, and what it keeps of each token. PURE.

Names of keys and tensors: llama.cpp's gguf-py/gguf/constants.py. A layer's kind is told by the tensors it has.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from deployments.fit.gguf import GgufHeader, Tensor, Value
from deployments.fit.span import CannotTell

KV_WIDTHS = {
    "f32": 4.0, "f16": 2.0, "bf16": 2.0, "q8_0": 34 / 32, "q5_1": 24 / 32, "q5_0": 22 / 32, "q4_1": 20 / 32,
    "q4_0": 18 / 32, "iq4_nl": 18 / 32,
}  # fmt: skip
"""Bytes of an element of the cache: of 32 each, with their scales."""
STATE_WIDTH = 4
"""States are kept in float32."""


@dataclass(frozen=True)
class Layer:
    """``experts``: the part of ``weights`` that are experts. ``keys``, ``values``: elements a token; 0 for none."""

    weights: int
    experts: int
    keys: int
    values: int
    sliding: bool
    state: int
    """Bytes a sequence."""
    latent: bool = False
    """One compressed vector a token stands for keys and values."""


@dataclass(frozen=True)
class GgufModel:
    """``output``: bytes of what comes after the layers; the input's embedding stays in the host's memory."""

    architecture: str
    layers: tuple[Layer, ...]
    output: int
    context: int | None
    window: int | None
    width: int
    heads: int
    vocabulary: int
    sliding_told: bool
    """The file says which layers are sliding, or none is."""

    @property
    def weights(self) -> int:
        return sum(layer.weights for layer in self.layers) + self.output


class _Metadata:
    """The values that belong to the model's architecture."""

    def __init__(self, header: GgufHeader) -> None:
        self.values = header.metadata
        self.architecture = str(header.metadata.get("general.architecture", ""))

    def get(self, name: str) -> Value | None:
        return self.values.get(f"{self.architecture}.{name}")

    def optional(self, name: str) -> int | None:
        value = self.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 32:
            raise CannotTell(f"In the GGUF file, {self.architecture}.{name} is not a number to count with.")
        return value

    def integer(self, name: str) -> int:
        value = self.optional(name)
        if value is None:
            raise CannotTell(f"The GGUF file does not say {self.architecture or 'ARCHITECTURE'}.{name}.")
        return value

    def of_layer(self, name: str, layer: int) -> int | None:
        """A value that is one for all layers, or a list with one for each."""
        value = self.get(name)
        if not isinstance(value, tuple):
            return self.optional(name)
        if layer >= len(value):
            raise CannotTell(f"In the GGUF file, {self.architecture}.{name} has too few values.")
        return int(value[layer])


def read_gguf_model(headers: Iterable[GgufHeader]) -> GgufModel:
    """``headers``: of all parts of the model, the first one first. Raises CannotTell, naming the key."""
    parts = list(headers)
    if not parts:
        raise CannotTell("The GGUF file was not read.")
    said = _Metadata(parts[0])
    count = said.integer("block_count")
    if not 0 < count <= 10_000:
        raise CannotTell(f"The GGUF file says that it has {count} layers.")
    blocks: dict[int, list[Tensor]] = {}
    outside: dict[str, int] = {}
    for tensor in (tensor for part in parts for tensor in part.tensors):
        number = _block(tensor.name)
        if number is None:
            outside[tensor.name] = tensor.size
        else:
            blocks.setdefault(number, []).append(tensor)
    lost = [number for number in range(count) if number not in blocks]
    if lost:
        raise CannotTell(f"The GGUF file has no tensors of layer {lost[0]}; are all its parts there?")
    sliding = _sliding(said, count)
    layers = tuple(_layer(said, number, blocks[number], number in sliding) for number in range(count))
    window = said.optional("attention.sliding_window")
    return GgufModel(
        said.architecture, layers, _output(outside), said.optional("context_length"), window or None,
        width=said.integer("embedding_length"), heads=said.of_layer("attention.head_count", 0) or 1,
        vocabulary=_vocabulary(parts, outside), sliding_told=not window or said.get(PATTERN) is not None,
    )  # fmt: skip


PATTERN = "attention.sliding_window_pattern"


def _block(name: str) -> int | None:
    """N of ``blk.N.what.weight``."""
    first, _, rest = name.partition(".")
    number = rest.partition(".")[0]
    return int(number) if first == "blk" and number.isascii() and number.isdecimal() and len(number) < 6 else None


def _sliding(said: _Metadata, count: int) -> set[int]:
    """The layers with a window: a flag for each, or every one but each Nth."""
    pattern = said.get(PATTERN)
    if not said.optional("attention.sliding_window"):
        return set()
    if isinstance(pattern, tuple):
        return {number for number, value in enumerate(pattern[:count]) if value}
    every = said.optional(PATTERN) if pattern is not None else None
    return {number for number in range(count) if every and (number + 1) % every}


def _layer(said: _Metadata, number: int, tensors: list[Tensor], sliding: bool) -> Layer:
    names = {tensor.name.split(".", 2)[2] for tensor in tensors}
    recurrent = any(name.startswith("ssm_") for name in names)
    attends = bool(names & {"attn_k.weight", "attn_kv_a_mqa.weight"}) or ("attn_qkv.weight" in names and not recurrent)
    if not recurrent and not attends:
        raise CannotTell(f"What layer {number} of the GGUF file keeps of a text is not known.")
    latent = "attn_kv_a_mqa.weight" in names and said.get("attention.key_length_mla") is not None
    keys, values = _kept(said, number, latent) if attends else (0, 0)
    size = sum(tensor.size for tensor in tensors)
    experts = sum(tensor.size for tensor in tensors if "_exps." in tensor.name)
    return Layer(size, experts, keys, values, sliding, _state(said) if recurrent else 0, latent)


def _kept(said: _Metadata, number: int, latent: bool) -> tuple[int, int]:
    """Elements of keys and of values that a token adds to this layer."""
    if latent:
        # One compressed vector with the position's part; builds differ in whether they keep values beside it.
        rank = said.integer("attention.kv_lora_rank")
        return rank + said.integer("rope.dimension_count"), rank
    heads = said.of_layer("attention.head_count", number)
    kv_heads = said.of_layer("attention.head_count_kv", number)
    if not heads or kv_heads is None:
        missing = "head_count_kv" if heads else "head_count"
        raise CannotTell(f"The GGUF file does not say {said.architecture}.attention.{missing}.")
    length = said.integer("embedding_length") // heads
    key, value = said.optional("attention.key_length"), said.optional("attention.value_length")
    return kv_heads * (key or length), kv_heads * (value or length)


def _state(said: _Metadata) -> int:
    """Bytes a sequence of one recurrent layer: the convolution's window and the state."""
    inner, state = said.integer("ssm.inner_size"), said.integer("ssm.state_size")
    groups = said.optional("ssm.group_count") or 0
    window = (said.integer("ssm.conv_kernel") - 1) * (inner + 2 * groups * state)
    return (max(0, window) + state * inner) * STATE_WIDTH


def _output(outside: dict[str, int]) -> int:
    """Where there is no output matrix of its own, the embedding is used for it and copied to the card."""
    found = sum(size for name, size in outside.items() if name.startswith("output"))
    return found if "output.weight" in outside else found + outside.get("token_embd.weight", 0)


def _vocabulary(parts: list[GgufHeader], outside: dict[str, int]) -> int:
    shapes = {tensor.name: tensor.shape for part in parts for tensor in part.tensors if tensor.name in outside}
    shape = shapes.get("token_embd.weight", ())
    return shape[-1] if shape else 0
