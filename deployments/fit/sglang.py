"""SGLang's memory: its fraction counts of what is FREE at the start, on the fullest card. PURE.

SGLang 0.5.9 and 0.5.11, model_runner_kv_cache_mixin.py: what the fraction leaves after the weights is split between KV
cache and states of linear attention; graphs, activations, the draft's KV cache and the request table live in the rest.
"""

from __future__ import annotations

from deployments.fit.asked import Asked, check_cards
from deployments.fit.explain import FILES, FLAGS, FORMULA, MEASURED, Row, measured_or, size, sizes, tokens
from deployments.fit.kv_cache import per_token
from deployments.fit.model import Model
from deployments.fit.outcome import KV, STATE, WORK, Margin, Outcome, Pools
from deployments.fit.recurrent import Slot, slot_of
from deployments.fit.sglang_flags import Settings, processes, read_settings
from deployments.fit.span import GIB, Span, whole
from deployments.fit.speculative import kv_per_token
from deployments.fit.weights import of_draft, per_card

LAST_READ = (0, 5, 11)
TABLE_ENTRY = 4
"""Bytes of one place of a request in the table of its tokens."""


def work_out(asked: Asked, model: Model) -> Outcome:
    """Raises CannotTell, naming what is missing."""
    check_cards(asked, processes(asked))
    settings = read_settings(asked, model)
    start = free_at_start(asked, settings.cards)
    held = per_card(
        model, asked, cards=settings.cards, stages=settings.stages, attention_cards=settings.attention_cards
    )
    budget = _times(start, settings.fraction) - held
    pools, split = _pools(asked, model, settings, budget)
    reserve = _left_out(start, settings.fraction)
    needs, need_rows = _needs(asked, model, settings, pools)
    rows = (
        Row("Free on the fullest card", size(asked.free), f"of {size(asked.total)}", MEASURED),
        Row("Free when the weights begin to load", sizes(start), "less what CUDA and NCCL take", measured_or(start)),
        Row("Weights on each card", sizes(held), _split_words(model, settings), measured_or(held)),
        _fraction_row(settings),
        Row("Left for the pools", sizes(budget), _budget_words(start, settings, held)),
        *split,
        Row("Left outside the fraction", sizes(reserve), f"{size(start.likely)} × {1 - settings.fraction.likely:.3f}"),
        *need_rows,
    )
    return Outcome(pools, _margins(pools, settings, reserve - needs), settings.context, rows, _notes(asked), held)


def free_at_start(asked: Asked, cards: int) -> Span:
    """Bytes free on the fullest card when the weights begin to load: CUDA and NCCL have taken theirs.

    Seen: 0.6 GiB on two 4090s, 0.85 on one B200, 1.5 on four cards of 96 GB.
    """
    if asked.measured.at_start is not None:
        return Span.exactly(asked.measured.at_start)
    likely = min(1.5, 0.7 + 0.1 * cards) if cards > 1 else 0.8
    return (Span.exactly(asked.free) - Span(0.4, likely, 2.0) * GIB).at_least(0.0)


def _times(start: Span, fraction: Span) -> Span:
    return Span(start.low * fraction.low, start.likely * fraction.likely, start.high * fraction.high)


def _left_out(start: Span, fraction: Span) -> Span:
    rest = Span(1 - fraction.high, 1 - fraction.likely, 1 - fraction.low)
    return _times(start, rest)


def _pools(asked: Asked, model: Model, settings: Settings, budget: Span) -> tuple[Pools, tuple[Row, ...]]:
    """The split of what is left, and how it comes about."""
    cell = per_token(
        model, settings.precision, cards=settings.attention_cards, stages=settings.stages, swa_ratio=settings.swa_ratio
    )
    rows = [Row("KV cache of one token", f"{cell:,.0f} bytes", f"in {settings.precision}, on each card", FILES)]
    slots, slot = None, None
    if model.linear is not None:
        slot = slot_of(model.linear, cards=settings.attention_cards, dtype=settings.state_dtype, stages=settings.stages)
        budget, slots, more = _states(settings, slot, budget)
        rows += more
    if asked.measured.kv_pool is not None:
        budget = Span.exactly(asked.measured.kv_pool)
    kv = _paged(settings, budget, cell)
    rows.append(Row("KV cache on each card", sizes(kv), "what is left", measured_or(kv)))
    pools = Pools(
        settings.precision, kv, cell, slots=slots, per_slot=slot.total if slot else 0,
        slots_per_request=settings.slots_per_request, replicas=settings.replicas,
        running=_running(settings, whole(kv, cell).likely),
    )  # fmt: skip
    held = pools.tokens(settings.context)
    rows.append(Row("Tokens of KV cache", tokens(held.likely), f"{size(kv.likely)} ÷ {cell:,.0f} bytes"))
    return pools, tuple(rows)


def _paged(settings: Settings, kv: Span, cell: float) -> Span:
    """Whole pages only, and no more than a flag allows."""
    page = settings.page * cell
    most = float("inf") if settings.most_tokens is None else settings.most_tokens * cell

    def cut(amount: float) -> float:
        return min(most, amount // page * page) if amount > 0 and settings.page > 1 else min(most, amount)

    return Span(cut(kv.low), cut(kv.likely), cut(kv.high))


def _states(settings: Settings, slot: Slot, budget: Span) -> tuple[Span, Span, list[Row]]:
    """What is left for KV cache, how many state slots there are, and the rows that say why."""
    rows = [Row("State of one slot", size(slot.total), "whatever the length of the request", FILES)]
    if settings.speculation is not None and settings.running is not None:
        kept = float(slot.total * settings.running * settings.speculation.drafts)
        budget = budget - Span.exactly(kept)
        how = f"{size(slot.total)} × {settings.running} requests × {settings.speculation.drafts} drafts"
        rows.append(Row("States kept while drafts are verified", size(kept), how))
    if settings.state_slots is not None:
        slots, how = Span.exactly(settings.state_slots), "as the flags say"
    else:
        share = settings.state_ratio / (1 + settings.state_ratio)
        slots = whole(budget * share, slot.total)
        how = f"{share:.1%} of what is left (ratio {settings.state_ratio:g}), ÷ {size(slot.total)}"
    source = FORMULA if settings.state_slots is None else FLAGS
    rows.append(Row("State slots", f"{slots.likely:,.0f}", how, source))
    return budget.minus_same(slots * slot.total), slots, rows


def _running(settings: Settings, held: float) -> int:
    """Requests at once: as asked, within what the engine allows itself (0.5.11, _resolve_max_num_reqs)."""
    allowed = int(max(2048, min(4096, held / settings.context * 512)))
    return min(settings.running, allowed) if settings.running is not None else min(allowed, int(held) // 2)


def _needs(asked: Asked, model: Model, settings: Settings, pools: Pools) -> tuple[Span, tuple[Row, ...]]:
    """What must go into the memory outside the fraction."""
    speculation = settings.speculation
    a_token = kv_per_token(speculation, asked, model, settings.precision, cards=settings.attention_cards)
    draft = whole(pools.kv, pools.per_token) * a_token
    if speculation is not None and speculation.path:
        draft = draft + of_draft(asked.draft, cards=settings.cards)
    running = pools.running or 0
    if pools.slots is not None:
        running = min(running, int(pools.slots.likely) // settings.slots_per_request)
    table = float(running * settings.context * TABLE_ENTRY)
    rows = [
        Row("Graphs and activations", sizes(settings.work), "what other starts took, by the size of the batches"),
        Row("Request table", size(table), f"{running:,} requests × {settings.context:,} tokens × {TABLE_ENTRY} bytes"),
    ]
    if draft.likely:
        rows.append(Row("Draft model", sizes(draft), f"{a_token:,.0f} bytes a token, and its weights"))
    return settings.work + draft + Span.exactly(table), tuple(rows)


def _margins(pools: Pools, settings: Settings, work: Span) -> tuple[Margin, ...]:
    request = pools.cost(settings.context)
    words = f"One request of {settings.context:,} tokens takes {size(request)} of KV cache on each card"
    found = [Margin(KV, pools.kv - Span.exactly(request), words), Margin(WORK, work, _short_of_work(settings))]
    if pools.slots is not None:
        need = Span.exactly(pools.slots_per_request)
        short = f"A request may need {pools.slots_per_request} state slots"
        found.append(Margin(STATE, (pools.slots - need) * pools.per_slot, short))
    return tuple(found)


def _short_of_work(settings: Settings) -> str:
    share = 1 - settings.fraction.likely
    return f"The {share:.1%} outside the fraction must hold graphs, activations, drafts and the request table"


def _notes(asked: Asked) -> tuple[str, ...]:
    if asked.release is not None and asked.release <= LAST_READ:
        return ()
    return ("Worked out as SGLang 0.5.11 does it; the version on the host may split memory a little differently.",)


def _fraction_row(settings: Settings) -> Row:
    """Of what is free at the start, not of the whole card."""
    who, source = (
        ("as the flags say", FLAGS) if settings.fraction_given else ("chosen by SGLang for this card", FORMULA)
    )
    return Row("Fraction for weights and pools", f"{settings.fraction.likely:.3g}", f"of that; {who}", source)


def _split_words(model: Model, settings: Settings) -> str:
    parts = settings.cards * settings.stages
    return f"{size(model.weights.likely)} of files ÷ {parts}" if parts > 1 else "the size of the files"


def _budget_words(start: Span, settings: Settings, held: Span) -> str:
    return f"{size(start.likely)} × {settings.fraction.likely:.3g} − {size(held.likely)}"
