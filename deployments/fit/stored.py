"""What was read of a model, as plain data and back. PURE.

Kept are the fields that decide about memory: long lists and long texts (vocabularies, templates, lists of layers that
are not quantised) are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deployments.fit.files import IndexFacts, Json, ModelFiles
from deployments.fit.gguf import MAX_KEPT, GgufHeader, Tensor
from hosts.probe.frames import Unknown

LONGEST_LIST, LONGEST_TEXT, DEEPEST = 1024, 2000, 8


def as_data(files: ModelFiles) -> dict[str, Any]:
    """To be stored as JSON."""
    return {
        "config": _json_data(files.config),
        "quantization": _json_data(files.quantization),
        "index": _index_data(files.index),
        "sizes": dict(files.sizes),
        "gguf": _gguf_data(files.gguf),
    }


def files_from(data: Mapping[str, Any]) -> ModelFiles:
    """The files that were stored by ``as_data``."""
    config = _json_from(data["config"])
    return ModelFiles(
        config=Unknown("It was not read.") if config is None else config,
        quantization=_json_from(data["quantization"]),
        index=_index_from(data["index"]),
        sizes=dict(data["sizes"]),
        gguf=_gguf_from(data["gguf"]),
    )


def _json_data(value: Json | Unknown | None) -> dict[str, Any] | None:
    if value is None or isinstance(value, Unknown):
        return _unknown_data(value)
    return {"is": _short(value, DEEPEST)}


def _unknown_data(value: Unknown | None) -> dict[str, Any] | None:
    return None if value is None else {"unknown": value.reason}


def _json_from(data: Mapping[str, Any] | None) -> Json | Unknown | None:
    if data is None:
        return None
    if "unknown" in data:
        return Unknown(data["unknown"])
    found: Json = data["is"]
    return found


def _short(value: object, depth: int) -> Any:
    """Without what is long; None in its place."""
    if isinstance(value, Mapping) and depth:
        return {name: _short(inner, depth - 1) for name, inner in value.items()}
    if isinstance(value, list) and depth and len(value) <= LONGEST_LIST:
        return [_short(inner, depth - 1) for inner in value]
    if isinstance(value, str) and len(value) <= LONGEST_TEXT:
        return value
    return value if isinstance(value, bool | int | float) else None


def _index_data(index: IndexFacts | Unknown | None) -> dict[str, Any] | None:
    if index is None or isinstance(index, Unknown):
        return _unknown_data(index)
    return {"total": index.total, "shards": sorted(index.shards), "kv_scales": index.kv_scales}


def _index_from(data: Mapping[str, Any] | None) -> IndexFacts | Unknown | None:
    if data is None:
        return None
    if "unknown" in data:
        return Unknown(data["unknown"])
    return IndexFacts(data["total"], frozenset(data["shards"]), data["kv_scales"])


def _gguf_data(heads: tuple[GgufHeader, ...] | Unknown | None) -> dict[str, Any] | None:
    if heads is None or isinstance(heads, Unknown):
        return _unknown_data(heads)
    return {"parts": [_head_data(head) for head in heads]}


def _head_data(head: GgufHeader) -> dict[str, Any]:
    kept = {name: value for name, value in head.metadata.items() if not _is_long(value)}
    tensors = [[tensor.name, list(tensor.shape), tensor.size] for tensor in head.tensors]
    return {"metadata": kept, "tensors": tensors, "length": head.length}


def _is_long(value: object) -> bool:
    if isinstance(value, tuple):
        return len(value) > MAX_KEPT
    return isinstance(value, str) and len(value) > LONGEST_TEXT


def _gguf_from(data: Mapping[str, Any] | None) -> tuple[GgufHeader, ...] | Unknown | None:
    if data is None:
        return None
    if "unknown" in data:
        return Unknown(data["unknown"])
    return tuple(_head_from(part) for part in data["parts"])


def _head_from(data: Mapping[str, Any]) -> GgufHeader:
    metadata = {name: tuple(value) if isinstance(value, list) else value for name, value in data["metadata"].items()}
    tensors = tuple(Tensor(name, tuple(shape), size) for name, shape, size in data["tensors"])
    return GgufHeader(metadata, tensors, data["length"])
