"""What teams pay for when nobody says it before the start: settings that cost exactness, or that do not go in. PURE.

They come from the flags and the model's files, also where the memory itself cannot be worked out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from deployments.fit.arguments import SGLANG_UNITS, VLLM_UNITS, Arguments
from deployments.fit.asked import Asked
from deployments.fit.explain import context, request_words, size
from deployments.fit.files import IndexFacts
from deployments.fit.model import asks_for_fp8, has_linear_attention
from deployments.fit.outcome import Outcome
from deployments.fit.span import CannotTell
from deployments.fit.speculative import of_sglang

KV_TYPES = {
    "sglang": ("--kv-cache-dtype",), "vllm": ("--kv-cache-dtype",),
    "llama_server": ("-ctk", "--cache-type-k", "-ctv", "--cache-type-v"),
}  # fmt: skip
EXACT_KV = {"", "auto", "bf16", "bfloat16", "f16", "float16", "f32", "fp16"}
EXACT = {"sglang": "--kv-cache-dtype bf16", "vllm": "--kv-cache-dtype bfloat16"}
RUNNING = {"sglang": "--max-running-requests", "vllm": "--max-num-seqs"}
FEW = 2
"""Requests. With fewer, two people with long questions are enough to slow each other down."""
QUANTIZES = {"fp8", "mxfp8", "w8a8_fp8", "w8a8_int8", "bitsandbytes", "nvfp4_online", "torchao", "fp8_per_tensor"}
"""Values of --quantization that make a model of full precision less exact while it loads."""
STATE_TYPES = ("--mamba-ssm-dtype", "--mamba-ssm-cache-dtype")
STRATEGIES = ("--mamba-scheduler-strategy", "--mamba-radix-cache-strategy")
NEEDS_STRATEGY, LAST_READ, RENAMED, NOT_READ = (0, 5, 10), (0, 5, 11), (0, 5, 14), (0, 5, 23)
"""From 0.5.10 SGLang refuses drafts beside a hybrid model's radix cache; 0.5.14 gives the flag another name; what it
means to leave it out in 0.5.23 is not known."""


@dataclass(frozen=True)
class Caution:
    """A sentence, why it matters, and what to do."""

    text: str
    why: str
    todo: str


def cautions(asked: Asked, outcome: Outcome | None) -> tuple[Caution, ...]:
    """All that applies. ``outcome``: None where the memory could not be worked out."""
    found: list[Caution] = []
    for rule in RULES:
        try:
            found += rule(asked, outcome)
        except CannotTell:
            continue  # what is missing is the estimate's to say
    return tuple(found)


def _not_complete(asked: Asked, outcome: Outcome | None) -> Iterator[Caution]:
    """The index names files that are not there, or more bytes than they have."""
    index, sizes, missing = asked.model.index, asked.model.sizes, asked.model.missing
    if not isinstance(index, IndexFacts) or not index.shards:
        return
    there = sum(sizes.get(name, 0) for name in index.shards)
    text = ""
    if missing:
        text = f"{len(missing)} of the model's {len(index.shards)} weight files are missing, the first is {missing[0]}."
    elif index.total is not None and there < index.total:
        text = f"The model's weight files have {size(there)}, and its index says {size(index.total)}."
    if text:
        why = "Its download is not complete, it seems. The engine ends while it loads the weights."
        yield Caution(text, why, "Copy the model to the host anew, or go on with its download, then plan again.")


def _flags(asked: Asked) -> Arguments:
    return Arguments(asked.engine, asked.argv, VLLM_UNITS if asked.engine.key == "vllm" else SGLANG_UNITS)


def _kv_asked(asked: Asked) -> str:
    """The type of the KV cache that the flags ask for; empty when they leave it to the engine."""
    texts = [_flags(asked).text(name) for name in KV_TYPES.get(asked.engine.key, ())]
    return next((text for text in texts if text is not None and text not in EXACT_KV), "")


def _scales(asked: Asked) -> int | None:
    """How many scales of a quantised KV cache the checkpoint has; None where its index was not read."""
    index = asked.model.index
    return index.kv_scales if isinstance(index, IndexFacts) else None


NO_SCALES = "The checkpoint has no scales for it, so 1.0 is used for every layer: large values are cut off."
SCALES_UNKNOWN = "Whether the checkpoint has scales for it is not known; without them 1.0 is used for every layer."


def _fp8_by_the_checkpoint(asked: Asked, outcome: Outcome | None) -> Iterator[Caution]:
    auto = (_flags(asked).text("--kv-cache-dtype") or "auto") == "auto"
    if asked.engine.key not in EXACT or not auto or not asks_for_fp8(asked.model):
        return
    count = _scales(asked)
    scales = SCALES_UNKNOWN if count is None else NO_SCALES if count == 0 else "It brings scales for it."
    does = "itself switches" if asked.engine.key == "sglang" else "asks for"
    to = "to FP8" if asked.engine.key == "sglang" else "in FP8, which newer versions of vLLM follow"
    yield Caution(
        f"The checkpoint {does} the KV cache {to}, though no flag asks for it.",
        f"Twice as many tokens go in, kept less exactly. {scales}",
        f"To keep it exact, write {EXACT[asked.engine.key]} in a new revision; that takes twice the memory a token.",
    )


def _less_exact_kv(asked: Asked, outcome: Outcome | None) -> Iterator[Caution]:
    kind = _kv_asked(asked)
    if not kind:
        return
    count = _scales(asked) if kind.startswith("fp8") else 1
    scales = "" if count else f" {SCALES_UNKNOWN if count is None else NO_SCALES}"
    yield Caution(
        f"The flags keep the KV cache in {kind}.",
        f"More tokens go in, kept less exactly than the model computes.{scales}",
        "Leave that flag out where the answers must be the model's own, or compare answers before you prove it.",
    )


def _quantized_at_load(asked: Asked, outcome: Outcome | None) -> Iterator[Caution]:
    if asked.engine.key not in EXACT or not isinstance(asked.model.config, Mapping):
        return
    kind = _flags(asked).text("--quantization", "-q")
    if kind in QUANTIZES and "quantization_config" not in asked.model.config and asked.model.quantization is None:
        yield Caution(
            f"--quantization {kind} makes the weights less exact while they load: the checkpoint is in full precision.",
            "It takes less memory, and the answers may be worse.",
            "Leave it out, or take a checkpoint that was quantised and measured by its maker.",
        )


def _less_exact_state(asked: Asked, outcome: Outcome | None) -> Iterator[Caution]:
    kind = _flags(asked).text(*STATE_TYPES)
    if kind in ("bfloat16", "float16") and has_linear_attention(asked.model):
        yield Caution(
            f"The flags keep the recurrent state in {kind}.",
            "More requests go in. The state is carried on from token to token, and so are its errors.",
            "Leave that flag out where the answers must be the model's own.",
        )


def _lossy_drafts(asked: Asked, outcome: Outcome | None) -> Iterator[Caution]:
    names = ("--speculative-accept-threshold-single", "--speculative-accept-threshold-acc")
    low = [name for name in names if (value := _flags(asked).ratio(name)) is not None and value < 1]
    if low and asked.engine.key == "sglang":
        yield Caution(
            f"{low[0]} below 1 accepts drafts that the model itself would not have written.",
            "It is faster, and the answers are no longer the model's own.",
            "Leave it out where that matters.",
        )


def _more_than_goes_in(asked: Asked, outcome: Outcome | None) -> Iterator[Caution]:
    """Context times concurrency: the engine takes the requests in all the same. Where nobody has asked for a number
    the engine's own counts, which is far above what most cards hold: that is said only where few go in.
    """
    flag = RUNNING.get(asked.engine.key)
    if outcome is None or flag is None:
        return
    wanted = _flags(asked).positive(flag)
    most = wanted if wanted is not None else outcome.pools.running
    served = outcome.pools.requests(outcome.context)
    if most is None or served >= most or served < 1 or (wanted is None and served >= FEW):
        return
    length = context(outcome.context)
    text = f"{most:,} requests of {length} do not go in at once: {request_words(served)} can."
    lower = f"Lower {flag} or the context"
    if wanted is None:
        text = f"No flag says how many requests run at once: {asked.engine.label} takes in up to {most:,}. "
        text += f"Of {length} there is room for {request_words(served)}."
        lower = f"Write {flag} in a new revision, lower the context"
    yield Caution(
        text,
        f"The {outcome.pools.limiting(outcome.context)} sets the limit. When long requests meet, some are put back and "
        "worked on again, so all become slower.",
        f"{lower}, or leave it if long requests seldom meet.",
    )


def too_short(outcome: Outcome) -> Caution:
    """For a server that starts although its KV cache is shorter than one request may be."""
    held, longest = outcome.pools.tokens(outcome.context).likely, outcome.context
    return Caution(
        f"Not one request of the whole context goes in: {longest:,} tokens are allowed, there is room for {held:,.0f}.",
        "It starts all the same, and refuses or cuts each request that is longer than what goes in.",
        "Shorten the context to what goes in, keep the KV cache in fewer bits, or take more cards, in a new revision.",
    )


def _hybrid_with_drafts(asked: Asked, outcome: Outcome | None) -> Iterator[Caution]:
    flags = _flags(asked)
    if asked.engine.key != "sglang" or of_sglang_or_none(flags) is None or not has_linear_attention(asked.model):
        return
    strategy = flags.text(*STRATEGIES) or ""
    version = asked.release
    if strategy.startswith("extra_buffer") or flags.has("--disable-radix-cache"):
        return
    if version is not None and version >= NOT_READ and strategy in ("", "auto"):
        return
    name = STRATEGIES[1] if version is not None and version >= RENAMED else STRATEGIES[0]
    why = "SGLang 0.5.10 and 0.5.11 refuse to start so; another version may switch the radix cache off instead."
    if version is not None and version < NEEDS_STRATEGY:
        why = "This version of SGLang quietly switches the radix cache off: no request shares the beginning of another."
    elif version is not None and version <= LAST_READ:
        why = "This version of SGLang refuses to start so, and what serves now would be stopped for nothing."
    yield Caution(
        f"Speculative decoding of a hybrid model without {name} extra_buffer.",
        why,
        f"Add {name} extra_buffer, or --disable-radix-cache, in a new revision.",
    )


def of_sglang_or_none(flags: Arguments) -> str | None:
    """The algorithm of speculative decoding, where there is one, whatever is not known of it."""
    try:
        found = of_sglang(flags)
    except CannotTell:
        return flags.text("--speculative-algorithm", "--speculative-algo")
    return found.algorithm if found is not None else None


RULES: tuple[Callable[[Asked, Outcome | None], Iterator[Caution]], ...] = (
    _not_complete,
    _hybrid_with_drafts,
    _fp8_by_the_checkpoint,
    _less_exact_kv,
    _quantized_at_load,
    _less_exact_state,
    _lossy_drafts,
    _more_than_goes_in,
)
