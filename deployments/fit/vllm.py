"""vLLM's memory: its fraction counts of the card's TOTAL memory, which must be free at the start. PURE.

vLLM 0.19.1, v1/worker/utils.py (request_memory): the start is refused when less is free than the fraction asks for. Of
that go the weights and what a trial run takes at its peak; the rest is KV cache, from which the states of linear
attention come as well, and in which sliding layers keep no more than their window.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from deployments.fit.arguments import VLLM_UNITS, Arguments
from deployments.fit.asked import Asked, check_cards
from deployments.fit.explain import FILES, FLAGS, MEASURED, Row, measured_or, size, sizes, tokens
from deployments.fit.kv_cache import WIDTHS, of_layers
from deployments.fit.model import Model
from deployments.fit.outcome import KV, START, Margin, Outcome, Pools
from deployments.fit.recurrent import slot_of
from deployments.fit.span import CannotTell, Span
from deployments.fit.weights import per_card

PRECISIONS = {
    "bfloat16": "bf16", "float16": "fp16", "fp8": "fp8", "fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "fp8_inc": "fp8",
}  # fmt: skip
FRACTION = Span(0.9, 0.9, 0.92)
"""0.9 in 0.19.1, 0.92 in 0.33.0; where it changed is not known."""
PEAK = Span(0.01, 0.05, 0.115)
"""Share of the card that the trial run takes besides the weights. Most seen: 8.5 of 79.6 GiB, Qwen3-235B on H100."""


@dataclass(frozen=True)
class Settings:
    """Of one command."""

    cards: int
    stages: int
    replicas: int
    context: int | None
    precision: str
    fraction: Span
    running: int | None
    pool: int | None
    drafts: int
    state_dtype: str
    shortens: bool
    """The engine itself chooses the longest context that one request can have."""


def read_settings(asked: Asked, model: Model) -> Settings:
    """Raises CannotTell, naming the flag or field."""
    flags = Arguments(asked.engine, asked.argv, VLLM_UNITS)
    given = flags.share("--gpu-memory-utilization")
    length = None if flags.text("--max-model-len") == "-1" else flags.positive("--max-model-len")
    fraction = FRACTION if given is None else Span.exactly(given)
    if given is None and asked.release is not None:
        fraction = Span.exactly(0.92) if asked.release >= (0, 33) else FRACTION
        fraction = Span.exactly(0.9) if asked.release <= (0, 19, 1) else fraction
    state = flags.text("--mamba-ssm-cache-dtype") or "auto"
    return Settings(
        cards=flags.positive("--tensor-parallel-size", "-tp") or 1,
        stages=flags.positive("--pipeline-parallel-size", "-pp") or 1,
        replicas=flags.positive("--data-parallel-size", "-dp") or 1,
        context=length or model.context,
        precision=_precision(flags),
        fraction=fraction,
        running=flags.positive("--max-num-seqs"),
        pool=flags.positive("--kv-cache-memory-bytes"),
        drafts=_drafts(flags),
        state_dtype="" if state == "auto" else state,
        shortens=flags.text("--max-model-len") == "-1",
    )


def _precision(flags: Arguments) -> str:
    asked = flags.text("--kv-cache-dtype") or "auto"
    if asked != "auto" and asked not in PRECISIONS:
        raise CannotTell(f"The size of a KV cache in {asked} (--kv-cache-dtype) is not known.")
    return PRECISIONS.get(asked, "bf16")


def _drafts(flags: Arguments) -> int:
    """Tokens drafted ahead. Raises CannotTell for a draft model with files of its own."""
    text = flags.text("--speculative-config")
    if text is None:
        return 0
    try:
        config = json.loads(text)
        count, path = int(config["num_speculative_tokens"]), config.get("model")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise CannotTell("--speculative-config does not say num_speculative_tokens.") from None
    if path is not None:
        raise CannotTell(f"What the draft model {path} needs is not known.")
    return max(0, count)


def work_out(asked: Asked, model: Model) -> Outcome:
    """Raises CannotTell, naming what is missing."""
    settings = read_settings(asked, model)
    check_cards(asked, settings.cards * settings.stages * settings.replicas)
    wanted = settings.fraction * asked.total
    held = per_card(model, asked, cards=settings.cards, stages=settings.stages)
    peak = PEAK * asked.total
    kv = _kv(asked, settings, wanted - held - peak)
    pools = _pools(model, settings, kv)
    context = _context(settings, pools)
    count = pools.tokens(context).likely
    words = f"One request of {context:,} tokens takes {size(pools.cost(context))} of KV cache"
    rows = (
        Row("Free on the fullest card", size(asked.free), f"of {size(asked.total)}", MEASURED),
        Row("Asked for by the fraction", sizes(wanted), f"{settings.fraction.likely:g} of the whole card", FLAGS),
        Row(
            "Weights on each card",
            sizes(held),
            f"{size(model.weights.likely)} of files ÷ {settings.cards}",
            measured_or(held),
        ),
        Row("Graphs and activations", sizes(peak), "what other starts took"),
        Row("KV cache on each card", sizes(kv), "what is left", measured_or(kv)),
        Row("KV cache of one token", f"{pools.per_token:,.0f} bytes", f"in {settings.precision}, on each card", FILES),
        Row("Tokens of KV cache", tokens(count), f"in requests of {context:,}"),
    )
    short = "vLLM refuses to start when less is free than its fraction of the whole card"
    free = Span.exactly(asked.free) - wanted
    margins = (Margin(START, free, short), Margin(KV, kv - Span.exactly(pools.cost(context)), words))
    return Outcome(pools, margins, context, rows, weights=held)


def _context(settings: Settings, pools: Pools) -> int:
    """Tokens of the longest request: as asked, else the model's own, else what surely goes in."""
    if settings.context is None:
        raise CannotTell("config.json does not say max_position_embeddings, and the flags give no --max-model-len.")
    if not settings.shortens or pools.kv.low >= pools.cost(settings.context):
        return settings.context
    return max(1, int((pools.kv.low - pools.cost(0)) // max(1.0, pools.cost(1) - pools.cost(0))))


def _kv(asked: Asked, settings: Settings, left: Span) -> Span:
    if asked.measured.kv_pool is not None:
        return Span.exactly(asked.measured.kv_pool)
    return left if settings.pool is None else Span.exactly(settings.pool)


def _pools(model: Model, settings: Settings, kv: Span) -> Pools:
    width = WIDTHS[settings.precision]
    full = of_layers(model.full, width=width, cards=settings.cards, stages=settings.stages)
    sliding = of_layers(model.sliding, width=width, cards=settings.cards, stages=settings.stages)
    if not full + sliding:
        raise CannotTell("The model has no attention layer that keeps anything for each token.")
    fixed = 0.0
    if model.linear is not None:
        slot = slot_of(model.linear, cards=settings.cards, dtype=settings.state_dtype, stages=settings.stages)
        fixed = float(slot.total * (1 + settings.drafts))
    if settings.drafts:
        full += full / model.full.layers * (model.draft_layers or 1) if model.full is not None else 0.0
    return Pools(
        settings.precision, kv, full, window=model.window or 0, per_window_token=sliding, fixed=fixed,
        running=settings.running, replicas=settings.replicas,
    )  # fmt: skip
