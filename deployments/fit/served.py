"""What an earlier launch of the same revision on the same cards has measured, as it is kept with the launch. PURE."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from deployments.fit.asked import Measured
from deployments.fit.span import GIB

NUMBER = r"(\d[\d,]*(?:\.\d+)?)"
TOKENS = re.compile(rf"{NUMBER} tokens")
COUNT = re.compile(NUMBER)
HALVES = re.compile(rf"K {NUMBER} GiB, V {NUMBER} GiB")
SIZE = re.compile(rf"{NUMBER} GiB")


@dataclass(frozen=True)
class Served:
    """One launch that became ready. ``at``: when, as ISO text; ``used``: MiB by card uuid that the server itself took.

    ``tokens``, ``running``: of its KV cache, and requests at once, as the engine has logged them.
    """

    at: str
    used: Mapping[str, int] = field(default_factory=dict)
    tokens: int | None = None
    running: int | None = None
    version: str = ""
    measured: Measured = field(default_factory=Measured)


def served_of(at: str, used: Mapping[str, int], effective: Mapping[str, Any]) -> Served:
    """From what is kept of a launch. ``effective``: with the engine's facts, each a label and a value in words."""
    facts = {fact["label"]: str(fact["value"]) for fact in effective.get("facts", ())}
    kv = facts.get("KV cache", "")
    return Served(
        at,
        used,
        tokens=_whole(TOKENS, kv, f"{facts.get('KV cache, in tokens', '')} tokens"),
        running=_whole(COUNT, facts.get("Requests at the same time, at most", "")),
        version=str(effective.get("version", "")),
        measured=Measured(
            weights=_bytes(_first(SIZE, [facts.get("Weights", "")])),
            kv_pool=_bytes(_pool(kv, facts.get("Memory left for the KV cache", ""))),
        ),
    )


def _pool(kv: str, left: str) -> float | None:
    """GiB. SGLang logs keys and values apart, vLLM what is left for both."""
    halves = HALVES.search(kv)
    if halves is not None:
        return _float(halves[1]) + _float(halves[2])
    return _first(SIZE, [kv, left])


def _first(pattern: re.Pattern[str], texts: Iterable[str]) -> float | None:
    return next((_float(found[1]) for text in texts if (found := pattern.search(text))), None)


def _whole(pattern: re.Pattern[str], *texts: str) -> int | None:
    value = _first(pattern, texts)
    return None if value is None else int(value)


def _float(text: str) -> float:
    return float(text.replace(",", ""))


def _bytes(gib: float | None) -> int | None:
    return int(gib * GIB) if gib else None
