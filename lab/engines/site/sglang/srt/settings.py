"""What the lab wants of this simulated server: hints in the model's config.json, overruled by the environment."""

import json
import os
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from lab.engines.scale import TIME_SCALE

MODES = frozenset(
    [
        "normal",
        "oom-pool",
        "oom-load",
        "capture-failed",
        "child-exception",
        "child-killed",
        "never-ready",
        "warmup-failed",
        "ignore-sigterm",
        "orphan-worker",
        "late-release",
        "leak",
        "empty",
        "repeating",
        "health-stuck",
        "crash",
    ]
)


@dataclass(frozen=True)
class Hints:
    """Seconds are unscaled, memory is MiB per card."""

    weights_mib: int = 0
    """0: from the size of the checkpoint."""
    kv_mib: int = 0
    """0: what the memory fraction leaves."""
    import_seconds: float = 0.3
    load_seconds: float = 1.0
    capture_seconds: float = 0.3
    warmup_seconds: float = 0.2
    tokens_per_second: float = 35.0
    release_seconds: float = 3.0
    crash_seconds: float = 2.0
    noise_lines: int = 0
    """After a failure, before the parent hears of it: a crash handler writes its own."""
    modes: frozenset[str] = frozenset()

    def has(self, mode: str) -> bool:
        return mode in self.modes


def scaled(seconds: float) -> float:
    """Seconds to really wait (LAB_TIME_SCALE shortens the lab's days)."""
    return seconds * TIME_SCALE


def read_hints(model: Path) -> Hints:
    """Hints of a model directory. Raises ValueError for an unknown mode or hint: a typo must not look healthy."""
    given: dict[str, Any] = json.loads((model / "config.json").read_text()).get("lab", {})
    given |= json.loads(os.environ.get("SGLANG_LAB_HINTS", "{}"))
    words = os.environ.get("SGLANG_LAB_MODE") or given.pop("mode", "normal")
    given.pop("mode", None)
    modes = frozenset(words.replace(",", " ").split())
    known = {field.name for field in fields(Hints)} - {"modes"}
    if unknown := (modes - MODES) | (given.keys() - known):
        raise ValueError(f"Unknown lab mode or hint: {', '.join(sorted(unknown))}")
    return replace(Hints(modes=modes), **given)
