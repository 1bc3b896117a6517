"""Flags that came and went between versions of an engine, as far as their releases were read. PURE.

Source: the argument source of sglang 0.5.9, 0.5.10.post1, 0.5.11, 0.5.14, 0.5.18 and 0.5.23, which this program's own
reader read; a flag may have come or gone in a release between two of these.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Change:
    """A flag that is not in every version. ``since``: the first with it; ``gone``: the first without it again."""

    since: str = ""
    gone: str = ""
    instead: str = ""


SGLANG = {
    "--speculative-ngram-min-match-window-size": Change(gone="0.5.10"),
    "--speculative-ngram-max-match-window-size": Change(gone="0.5.10"),
    "--speculative-ngram-branch-length": Change(gone="0.5.10"),
    "--disaggregation-decode-tp": Change(gone="0.5.10"),
    "--disaggregation-decode-dp": Change(gone="0.5.10"),
    "--disaggregation-prefill-pp": Change(gone="0.5.10"),
    "--enable-double-sparsity": Change(gone="0.5.11"),
    "--multi-item-scoring-delimiter": Change(gone="0.5.11"),
    "--hybrid-kvcache-ratio": Change(gone="0.5.14"),
    "--enable-nan-detection": Change(gone="0.5.14"),
    "--enable-piecewise-cuda-graph": Change(gone="0.5.14"),
    "--torchao-config": Change(gone="0.5.18"),
    "--cuda-graph-max-bs": Change(gone="0.5.23", instead="--cuda-graph-max-bs-decode"),
    "--cuda-graph-bs": Change(gone="0.5.23", instead="--cuda-graph-bs-decode"),
    "--mamba-scheduler-strategy": Change(gone="0.5.23", instead="--mamba-radix-cache-strategy"),
    "--disable-piecewise-cuda-graph": Change("0.5.10", "0.5.23", "--cuda-graph-backend-prefill disabled"),
    "--enforce-piecewise-cuda-graph": Change("0.5.10", "0.5.23", "--cuda-graph-backend-prefill tc_piecewise"),
    "--piecewise-cuda-graph-max-tokens": Change(gone="0.5.23", instead="--cuda-graph-max-bs-prefill"),
    "--piecewise-cuda-graph-tokens": Change(gone="0.5.23", instead="--cuda-graph-bs-prefill"),
    "--piecewise-cuda-graph-compiler": Change(gone="0.5.23"),
    "--nsa-prefill-backend": Change(gone="0.5.23", instead="--dsa-prefill-backend"),
    "--nsa-decode-backend": Change(gone="0.5.23", instead="--dsa-decode-backend"),
    "--nsa-prefill-cp-mode": Change(gone="0.5.23", instead="--cp-strategy"),
    "--enable-nsa-prefill-context-parallel": Change(gone="0.5.23", instead="--enable-prefill-cp"),
    "--stream-output": Change(gone="0.5.23", instead="--incremental-streaming-output"),
    "--collect-tokens-histogram": Change(gone="0.5.23"),
    "--prefill-round-robin-balance": Change(gone="0.5.23"),
    "--incremental-streaming-output": Change("0.5.10", instead="--stream-output"),
    "--linear-attn-backend": Change("0.5.10"),
    "--mamba-radix-cache-strategy": Change("0.5.14", instead="--mamba-scheduler-strategy"),
    "--cuda-graph-max-bs-decode": Change("0.5.14", instead="--cuda-graph-max-bs"),
    "--cuda-graph-bs-decode": Change("0.5.14", instead="--cuda-graph-bs"),
    "--cuda-graph-backend-decode": Change("0.5.14"),
    "--cuda-graph-backend-prefill": Change("0.5.14"),
    "--language-model-only": Change("0.5.18"),
    "--attn-dp-size": Change("0.5.23", instead="--dp-size with --enable-dp-attention"),
}
CHANGES: dict[str, dict[str, Change]] = {"sglang": SGLANG}


def number(version: str) -> tuple[int, ...]:
    """A version as numbers that compare; empty when it does not begin with one."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, match[0].split("."))) if match else ()


def before(version: str, other: str) -> bool:
    """Is ``version`` older? False when it is not known."""
    return bool(number(version)) and number(version) < number(other)


def change_of(engine: str, version: str, flag: str) -> tuple[str, str] | None:
    """(what happened to a flag that this version lacks, what to write instead); None when that is not known."""
    change = CHANGES.get(engine, {}).get(flag)
    if change is None or not number(version):
        return None
    if change.since and before(version, change.since):
        return f"it came later, at the latest with {change.since}", change.instead
    if change.gone and not before(version, change.gone):
        return f"it was taken out, at the latest with {change.gone}", change.instead
    return None
