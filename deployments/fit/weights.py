"""How many bytes of weights one card holds. PURE.

The files' size over the cards that split them is near what is measured: Qwen3-8B on one card takes 0.2 % more
(15.28 GiB), Qwen3.5-9B on two 1.6 % less (8.85 GiB: its own speculative head is not loaded), large latent-attention
models on eight up to 7 % more, as their compressed projections stand on every card. Experts are split over the same
cards, by expert or by column, so expert parallelism changes nothing a card. KV heads that are replicated add less
than these bounds.
"""

from __future__ import annotations

from deployments.fit.asked import Asked
from deployments.fit.files import ModelFiles
from deployments.fit.model import Model, weights_of
from deployments.fit.span import CannotTell, Span

ONE_CARD, SPLIT = Span(0.97, 1.0, 1.03), Span(0.94, 1.0, 1.08)


def per_card(model: Model, asked: Asked, *, cards: int, stages: int = 1, attention_cards: int | None = None) -> Span:
    """Bytes of the target model. ``cards`` x ``stages`` split it; ``attention_cards`` of them share attention.

    With fewer of these than ``cards`` (DP attention) what is not an expert is there that many more times.
    """
    if asked.measured.weights is not None:
        return Span.exactly(asked.measured.weights)
    spread = ONE_CARD if cards * stages == 1 else SPLIT
    files = model.weights
    share = Span(files.low * spread.low, files.likely, files.high * spread.high) * (1 / (cards * stages))
    if attention_cards is None or attention_cards == cards:
        return share
    again = min(model.replicated, files.high) * (1 / attention_cards - 1 / cards) / stages
    return share + Span(0.0, again, again)


def of_draft(files: ModelFiles | None, *, cards: int) -> Span:
    """Bytes of a draft model with files of its own. Raises CannotTell when it was not read."""
    if files is None:
        raise CannotTell("The draft model's files were not read.")
    found = weights_of(files)
    return Span(found.low / cards * SPLIT.low, found.likely / cards, found.high)
