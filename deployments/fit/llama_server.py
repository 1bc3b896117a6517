"""llama-server's memory: weights and caches of the layers that go to the cards, all of it taken at the start. PURE.

llama.cpp, src/llama-model.cpp: the last ``-ngl`` layers go to the cards, spread in proportion to what is free there or
to ``-ts``; the output counts as one more layer. ``-c`` is the context of all slots together.
"""

from __future__ import annotations

from dataclasses import dataclass

from deployments.fit.arguments import Arguments
from deployments.fit.asked import Asked, check_measured
from deployments.fit.explain import FILES, FLAGS, MEASURED, Row, size, sizes, tokens
from deployments.fit.gguf_model import KV_WIDTHS, GgufModel, Layer, read_gguf_model
from deployments.fit.outcome import Margin, Outcome, Pools
from deployments.fit.span import MIB, CannotTell, Span
from hosts.probe.frames import Unknown

NOT_COUNTED = (
    "-ot", "--override-tensor", "-md", "--model-draft", "--spec-draft-model", "--mmproj", "-mm", "--lora", "--rpc",
    "--hf-repo", "-hf", "-hfr", "-dev", "--device", "-nkvo", "--no-kv-offload",
)  # fmt: skip
"""Flags that change what goes where in ways that are not worked out here."""
ALL = 1 << 20
CELLS = 256
"""A cache is made in multiples of so many tokens."""
CUDA = Span(0.2, 0.4, 0.9)
"""GiB that CUDA and its libraries take of each card."""


@dataclass(frozen=True)
class Settings:
    """Of one command."""

    layers: int
    """On the cards, counting the output."""
    asked_for_layers: bool
    context: int
    slots: int
    unified: bool
    keys: float
    values: float
    precision: str
    batch: int
    whole_cache: bool
    flash: str
    split: tuple[float, ...]
    alone: int | None
    host_experts: int


def read_settings(asked: Asked, model: GgufModel) -> Settings:
    """Raises CannotTell, naming the flag."""
    flags = Arguments(asked.engine, asked.argv, {})
    odd = sorted(name for name in NOT_COUNTED if flags.has(name))
    if odd:
        raise CannotTell(f"What {odd[0]} needs on a card is not known.")
    given = flags.text("-ngl", "--gpu-layers", "--n-gpu-layers")
    every = given in (None, "auto", "all", "-1")
    layers = ALL if every else flags.count("-ngl", "--gpu-layers", "--n-gpu-layers") or 0
    context = flags.count("-c", "--ctx-size") or model.context
    if context is None:
        raise CannotTell(f"The GGUF file does not say {model.architecture}.context_length, and the flags give no -c.")
    number = flags.text("-np", "--parallel")
    key, value = (flags.text(*names) or "f16" for names in (("-ctk", "--cache-type-k"), ("-ctv", "--cache-type-v")))
    for name in (key, value):
        if name not in KV_WIDTHS:
            raise CannotTell(f"The size of a cache in {name} is not known.")
    return Settings(
        layers=min(layers, len(model.layers) + 1),
        asked_for_layers=not every or given == "all",
        context=-(-context // CELLS) * CELLS,
        slots=4 if number in (None, "-1") else flags.positive("-np", "--parallel") or 1,
        unified=number in (None, "-1") or flags.has("-kvu", "--kv-unified"),
        keys=KV_WIDTHS[key],
        values=KV_WIDTHS[value],
        precision=key if key == value else f"{key}/{value}",
        batch=flags.positive("-ub", "--ubatch-size") or 512,
        whole_cache=flags.has("--swa-full"),
        flash=flags.text("-fa", "--flash-attn") or "auto",
        split=_split(flags, asked),
        alone=_alone(flags, asked),
        host_experts=ALL if flags.has("-cmoe", "--cpu-moe") else flags.count("-ncmoe", "--n-cpu-moe") or 0,
    )


def _split(flags: Arguments, asked: Asked) -> tuple[float, ...]:
    """The share of each card, one by one."""
    text = flags.text("-ts", "--tensor-split")
    if text is None:
        return tuple(float(card.free) for card in asked.cards)
    try:
        parts = [float(part) for part in text.replace("/", ",").split(",")]
    except ValueError:
        parts = []
    if not parts or len(parts) > len(asked.cards) or min(parts) < 0 or not 0 < sum(parts) < 1e12:
        raise CannotTell(f"-ts {text} is not a share for each of {len(asked.cards)} cards.")
    return (*parts, *[0.0] * (len(asked.cards) - len(parts)))


def _alone(flags: Arguments, asked: Asked) -> int | None:
    """The one card that has everything, where it is not split."""
    mode = flags.text("-sm", "--split-mode") or "layer"
    if mode not in ("layer", "none"):
        raise CannotTell(f"How much of each card -sm {mode} takes is not known.")
    if mode == "layer":
        return None
    main = flags.count("-mg", "--main-gpu") or 0
    if main >= len(asked.cards):
        raise CannotTell(f"-mg {main} names a card that the deployment does not have.")
    return main


def work_out(asked: Asked) -> Outcome:
    """Raises CannotTell, naming what is missing."""
    check_measured(asked)
    if asked.model.gguf is None or isinstance(asked.model.gguf, Unknown):
        raise CannotTell(asked.model.gguf.reason if asked.model.gguf else "The model is no GGUF file.")
    model = read_gguf_model(asked.model.gguf)
    settings = read_settings(asked, model)
    places = _places(model, settings, len(asked.cards))
    needs = [_need(model, settings, places, card) for card in range(len(asked.cards))]
    margins = tuple(
        Margin(f"card {number}", Span.exactly(card.free) - need, _short(number, need, settings, len(asked.cards)))
        for number, (card, need) in enumerate(zip(asked.cards, needs, strict=True))
    )
    pools = _pools(model, settings)
    rows = (*_rows(model, settings, pools, places), *_card_rows(asked, needs))
    return Outcome(pools, margins, _longest(settings), rows, _notes(settings), weights=Span.exactly(model.weights))


def _longest(settings: Settings) -> int:
    """Tokens that one request may have."""
    return settings.context if settings.unified else max(1, settings.context // settings.slots)


def _places(model: GgufModel, settings: Settings, cards: int) -> tuple[int | None, ...]:
    """The card of each layer, the output last; None for the host's memory."""
    count = len(model.layers) + 1
    first = max(0, count - settings.layers)
    if settings.alone is not None:
        return tuple(None if layer < first else settings.alone for layer in range(count))
    whole = sum(settings.split) or 1.0
    bounds = [sum(settings.split[: card + 1]) / whole for card in range(cards)]
    found: list[int | None] = [None] * first
    for layer in range(first, count):
        at = (layer - first) / max(1, settings.layers)
        found.append(next((card for card, bound in enumerate(bounds) if at < bound), cards - 1))
    return tuple(found)


def _cells(model: GgufModel, settings: Settings, layer: Layer) -> int:
    """Tokens that a layer has room for; sliding ones keep the window of each slot, and a batch."""
    if not layer.sliding or settings.whole_cache or model.window is None:
        return settings.context
    seen = model.window * settings.slots + settings.batch
    return min(settings.context, -(-seen // CELLS) * CELLS)


def _cache(model: GgufModel, settings: Settings, layer: Layer) -> Span:
    """Bytes that a layer keeps: of each token, and of each slot."""
    cells, state = _cells(model, settings, layer), layer.state * settings.slots
    keys, values = layer.keys * settings.keys * cells, layer.values * settings.values * cells
    most = keys + values + state
    # Of compressed attention newer builds keep no values; and a window that is not told may be any layer's.
    least = keys + state if layer.latent else most
    if not model.sliding_told and not settings.whole_cache:
        least = float(state)
    return Span(least, most, most)


def _need(model: GgufModel, settings: Settings, places: tuple[int | None, ...], card: int) -> Span:
    """Bytes that one card must have."""
    mine = [number for number, place in enumerate(places) if place == card]
    if not mine:
        return Span.exactly(0.0)
    need = CUDA * 1024 * MIB + _work(model, settings)
    for number in mine:
        if number == len(model.layers):
            need = need + Span.exactly(model.output)
            continue
        layer = model.layers[number]
        held = layer.weights - (layer.experts if number < settings.host_experts else 0)
        need = need + Span.exactly(held) + _cache(model, settings, layer)
    return need


def _work(model: GgufModel, settings: Settings) -> Span:
    """What a batch takes while it is worked on: its scores of the vocabulary, and attention that is not in one go."""
    scores = settings.batch * (model.vocabulary + 8 * model.width) * 4.0
    attention = settings.batch * settings.context * model.heads * 4.0
    high = scores * 1.5 + (0.0 if settings.flash == "on" else attention)
    return Span(0.0, scores if settings.flash != "off" else high, max(high, scores))


def _pools(model: GgufModel, settings: Settings) -> Pools:
    """Over all cards and the host's memory: as long as the context is, so much is kept."""
    whole = sum(layer.keys * settings.keys + layer.values * settings.values for layer in model.layers)
    if not whole:
        raise CannotTell("The model has no attention layer that keeps anything for each token.")
    kv = Span.exactly(whole * settings.context)
    return Pools(settings.precision, kv, whole, running=settings.slots)


def _rows(model: GgufModel, settings: Settings, pools: Pools, places: tuple[int | None, ...]) -> tuple[Row, ...]:
    on_cards = sum(place is not None for place in places[:-1])
    return (
        Row("Weights", size(model.weights), "all tensors of the layers and the output", FILES),
        Row("Layers on the cards", f"{on_cards} of {len(model.layers)}", "-ngl", FLAGS),
        Row(
            "KV cache of one token", f"{pools.per_token:,.0f} bytes", f"in {settings.precision}, over all layers", FILES
        ),
        Row("Tokens of KV cache", tokens(settings.context), f"in {settings.slots} slots together", FLAGS),
    )


def _card_rows(asked: Asked, needs: list[Span]) -> tuple[Row, ...]:
    found = []
    for number, (card, need) in enumerate(zip(asked.cards, needs, strict=True)):
        found.append(Row(f"Needed on card {number}", sizes(need), "weights, cache and working memory of its layers"))
        found.append(Row(f"Free on card {number}", size(card.free), f"of {size(card.total)}", MEASURED))
    return tuple(found)


def _short(number: int, need: Span, settings: Settings, cards: int) -> str:
    where = f"Card {number}" if cards > 1 else "The card"
    what = "the layers that -ngl puts there" if settings.asked_for_layers else "all layers"
    return f"{where} must hold {what}, {size(need.likely)}"


def _notes(settings: Settings) -> tuple[str, ...]:
    if settings.asked_for_layers:
        return ()
    return ("Without -ngl the engine itself decides how many layers go to the cards; this counts all of them.",)
