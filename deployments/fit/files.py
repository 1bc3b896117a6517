"""What stands in a model's folder, as it was read on its host. PURE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from deployments.fit.gguf import GgufHeader
from hosts.probe.frames import NOT_ASKED, Unknown

Json = Mapping[str, object]


@dataclass(frozen=True)
class IndexFacts:
    """Of ``model.safetensors.index.json``: what counts, without the map of all tensors."""

    total: int | None
    """``metadata.total_size`` in bytes: of all tensors, without the headers of the files."""
    shards: frozenset[str] = frozenset()
    """The files that it names."""
    kv_scales: int | None = None
    """How many tensors are scales of a quantised KV cache."""


@dataclass(frozen=True)
class ModelFiles:
    """A folder of safetensors, or one GGUF model. A file that is not there is None; one that is odd, Unknown."""

    config: Json | Unknown = NOT_ASKED
    quantization: Json | Unknown | None = None
    """``hf_quant_config.json``, which ModelOpt writes."""
    index: IndexFacts | Unknown | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Name -> bytes of each weight file."""
    gguf: tuple[GgufHeader, ...] | Unknown | None = None
    """The headers of all its parts, in their order."""

    @property
    def missing(self) -> tuple[str, ...]:
        """Files that the index names and that are not there."""
        named = self.index.shards if isinstance(self.index, IndexFacts) else frozenset()
        return tuple(sorted(named - self.sizes.keys()))
