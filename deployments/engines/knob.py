"""A setting that people change first: which flags of an engine it sets. PURE."""

from __future__ import annotations

from dataclasses import dataclass

MODEL, CARDS, CONTEXT, FRACTION, PRECISION, PORT = "model", "cards", "context", "fraction", "precision", "port"
NAMES = (MODEL, CARDS, CONTEXT, FRACTION, PRECISION, PORT)


@dataclass(frozen=True)
class Knob:
    """``flags``: for each flag that it sets, its spellings, the one that is written first. ``choices``: those that are
    offered; none: any value."""

    flags: tuple[tuple[str, ...], ...]
    choices: tuple[str, ...] = ()
