"""GGUF files made by hand, byte for byte, without their weights."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from deployments.fit.gguf import GgufHeader, parse_header

TENSOR = tuple[str, tuple[int, ...], int]
GIB = 1 << 30


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def value_of(value: Any) -> bytes:
    """Kind and value. A list is one of booleans, of texts, or of 32-bit numbers."""
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    kind = {bool: 7, str: 8}.get(type(value[0]), 5)
    items = [text(item) if kind == 8 else struct.pack("<?" if kind == 7 else "<i", item) for item in value]
    return struct.pack("<IIQ", 9, kind, len(value)) + b"".join(items)


def head(metadata: Mapping[str, Any], tensors: Sequence[TENSOR]) -> tuple[bytes, int]:
    """The head's bytes, and how large the file would be."""
    data = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for key, value in metadata.items():
        data += text(key) + value_of(value)
    offset = 0
    for name, shape, nbytes in tensors:
        data += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        data += struct.pack("<IQ", 2, offset)
        offset += -(-nbytes // 32) * 32
    return data, -(-len(data) // 32) * 32 + offset


def header(metadata: Mapping[str, Any], tensors: Sequence[TENSOR]) -> GgufHeader:
    data, file_size = head(metadata, tensors)
    read = parse_header(data, file_size=file_size)
    assert isinstance(read, GgufHeader), read
    return read


def llama(layers: int = 32, *, layer_bytes: int = GIB // 8, **more: Any) -> GgufHeader:
    """A plain model: 8 KV heads of 128, a vocabulary of 32,000."""
    metadata = {
        "general.architecture": "llama", "llama.block_count": layers, "llama.context_length": 32768,
        "llama.embedding_length": 4096, "llama.attention.head_count": 32, "llama.attention.head_count_kv": 8,
        **{f"llama.{name.replace('__', '.')}": value for name, value in more.items()},
    }  # fmt: skip
    tensors: list[TENSOR] = [("token_embd.weight", (4096, 32000), GIB // 4), ("output.weight", (4096, 32000), GIB // 4)]
    for layer in range(layers):
        tensors.append((f"blk.{layer}.attn_k.weight", (4096, 1024), layer_bytes // 4))
        tensors.append((f"blk.{layer}.ffn_up_exps.weight", (4096, 1024), layer_bytes * 3 // 4))
    return header(metadata, tensors)
