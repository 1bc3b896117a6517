"""Does it fit? From flags, the model's files and the cards' memory to an answer with its arithmetic. PURE."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from deployments.fit.asked import Asked
from deployments.fit.explain import Row, context, request_words, requests, size
from deployments.fit.llama_server import work_out as llama_server
from deployments.fit.model import read_model
from deployments.fit.outcome import Margin, Outcome, Pools
from deployments.fit.sglang import work_out as sglang
from deployments.fit.span import CannotTell
from deployments.fit.vllm import work_out as vllm
from hosts.probe.frames import Unknown


class Verdict(StrEnum):
    """``TOO_CLOSE``: within the bounds of what is not known exactly it may fit, and may not."""

    FITS = "fits"
    DOES_NOT_FIT = "does not fit"
    TOO_CLOSE = "too close to say"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Estimate:
    """The answer. Without an outcome the verdict is UNKNOWN, and ``reason`` names what is missing."""

    verdict: Verdict
    reason: str
    outcome: Outcome | None = None
    precisions: Mapping[str, Pools] | None = None
    """What the pools would be in each precision of the KV cache that the engine offers, the one in use included."""

    @property
    def rows(self) -> tuple[Row, ...]:
        return self.outcome.rows if self.outcome is not None else ()

    @property
    def notes(self) -> tuple[str, ...]:
        return self.outcome.notes if self.outcome is not None else ()

    @property
    def limiting(self) -> str:
        """What limits the requests at the context that was asked for; empty when unknown."""
        return self.outcome.pools.limiting(self.outcome.context) if self.outcome is not None else ""

    def requests_of(self, length: int) -> tuple[Row, ...]:
        """A row for each precision: how many requests of ``length`` tokens are served at once, and why no more."""
        return tuple(_requests_row(name, pools, length) for name, pools in (self.precisions or {}).items())


WORK_OUT: dict[str, Callable[..., Outcome]] = {"sglang": sglang, "vllm": vllm}
KV_FLAGS: dict[str, dict[str, tuple[str, ...]]] = {
    "sglang": {"bf16": ("--kv-cache-dtype", "bf16"), "fp8": ("--kv-cache-dtype", "fp8_e4m3")},
    "vllm": {"bf16": ("--kv-cache-dtype", "bfloat16"), "fp8": ("--kv-cache-dtype", "fp8")},
    "llama_server": {"f16": ("-ctk", "f16", "-ctv", "f16"), "q8_0": ("-ctk", "q8_0", "-ctv", "q8_0")},
}
"""The flags that choose a precision; the last one given counts."""


def work_out(asked: Asked) -> Outcome | Unknown:
    """The pools and margins of these flags. Never raises."""
    try:
        if asked.engine.key == "llama_server":
            return llama_server(asked)
        if asked.engine.key not in WORK_OUT:
            return Unknown(f"What {asked.engine.label} needs is not known to the panel.")
        model = read_model(asked.model)
        return model if isinstance(model, Unknown) else WORK_OUT[asked.engine.key](asked, model)
    except CannotTell as missing:
        return Unknown(str(missing))


def verdict_of(outcome: Outcome) -> tuple[Verdict, Margin]:
    """The verdict, and the margin that decides it: the tightest."""
    tightest = min(outcome.margins, key=lambda margin: margin.left.likely)
    failing = [margin for margin in outcome.margins if margin.left.high < 0]
    if failing:
        return Verdict.DOES_NOT_FIT, min(failing, key=lambda margin: margin.left.likely)
    unsure = [margin for margin in outcome.margins if margin.left.low < 0]
    if unsure:
        return Verdict.TOO_CLOSE, min(unsure, key=lambda margin: margin.left.likely)
    return Verdict.FITS, tightest


def estimate(asked: Asked) -> Estimate:
    """Never raises: what cannot be known is in the reason."""
    outcome = work_out(asked)
    if isinstance(outcome, Unknown):
        return Estimate(Verdict.UNKNOWN, outcome.reason)
    verdict, margin = verdict_of(outcome)
    return Estimate(verdict, _reason(verdict, margin, outcome), outcome, _precisions(asked, outcome))


def _reason(verdict: Verdict, margin: Margin, outcome: Outcome) -> str:
    served = outcome.pools.requests(outcome.context)
    if verdict is Verdict.FITS:
        what = outcome.pools.limiting(outcome.context)
        return f"Room for {request_words(served)} of {context(outcome.context)} at once; the {what} sets the limit."
    left = margin.left
    if verdict is Verdict.DOES_NOT_FIT:
        return f"{margin.short}: {size(-left.likely)} are missing."
    return f"{margin.short}: between {size(abs(left.low))} too little and {size(left.high)} more than enough."


def _precisions(asked: Asked, outcome: Outcome) -> dict[str, Pools]:
    found = {}
    for name, flags in KV_FLAGS.get(asked.engine.key, {}).items():
        other = work_out(replace(asked, argv=(*asked.argv, *flags)))
        if isinstance(other, Outcome):
            found[name] = other.pools
    return found | {outcome.pools.precision: outcome.pools}


def _requests_row(name: str, pools: Pools, length: int) -> Row:
    served = pools.requests(length)
    how = f"{size(pools.kv.likely)} ÷ {size(pools.cost(length))} a request; the {pools.limiting(length)} limits them"
    return Row(f"Requests of {context(length)} in {name}", requests(served), how)
