"""A short mark of a model's files, by which one sees that another model stands at the same place. PURE.

Of the configuration, the index and the sizes of the files: weights are never read for it, so that weights of the same
sizes with other numbers in them are not told apart.
"""

from __future__ import annotations

import hashlib
import json

from deployments.fit.files import IndexFacts, ModelFiles
from hosts.probe.frames import Unknown

LENGTH = 12


def fingerprint(files: ModelFiles) -> str | Unknown:
    """Twelve hex digits; Unknown with the reason where the files do not tell enough."""
    if isinstance(files.gguf, Unknown):
        return files.gguf
    if files.gguf is not None:
        parts = [
            [dict(head.metadata), [(one.name, one.shape, one.size) for one in head.tensors]] for head in files.gguf
        ]
        return _hashed([parts, dict(files.sizes)])
    if isinstance(files.config, Unknown):
        return files.config
    index = files.index
    if isinstance(index, IndexFacts):
        told: object = [index.total, sorted(index.shards), index.kv_scales]
    else:
        told = index.reason if isinstance(index, Unknown) else None
    quantization = files.quantization
    known = quantization.reason if isinstance(quantization, Unknown) else quantization
    return _hashed([dict(files.config), known, told, dict(files.sizes)])


def _hashed(told: object) -> str:
    text = json.dumps(told, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:LENGTH]
