"""What a server that was found is called, until a person says otherwise. PURE."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Sequence

from deployments.engines.base import Engine

SERVED_AS = ("--served-model-name", "--alias", "-a")
LONGEST = 40
ENDINGS = (".gguf", ".safetensors")


def propose(engine: Engine, argv: Sequence[str], *, taken: Collection[str]) -> str:
    """After the name that it serves its model under, else after the model; one that nobody has yet."""
    served = engine.flag(argv, SERVED_AS)
    model = served or engine.flag(argv, engine.model_flags) or engine.model_path(argv) or engine.key
    base = model.rstrip("/").rpartition("/")[2]
    for ending in ENDINGS:
        base = base.removesuffix(ending)
    base = re.sub(r"[^a-z0-9._-]+", "-", base.lower()).strip("-._")[:LONGEST] or engine.key
    return next(name for name in _numbered(base) if name not in taken)


def _numbered(base: str) -> itertools.chain[str]:
    return itertools.chain([base], (f"{base}-{number}" for number in itertools.count(2)))
