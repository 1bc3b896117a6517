"""Speculative decoding: how many drafts, and what their layers keep. PURE."""

from __future__ import annotations

from dataclasses import dataclass

from deployments.fit.arguments import Arguments
from deployments.fit.asked import Asked
from deployments.fit.kv_cache import WIDTHS, heads_on_card
from deployments.fit.model import Attention, Latent, Model, read_model
from deployments.fit.span import CannotTell
from hosts.probe.frames import Unknown

NO_LAYERS = {"NGRAM", "ngram"}
"""Guess from the text itself: no model, no cache."""


@dataclass(frozen=True)
class Speculation:
    """``drafts``: draft tokens that are verified at once, for each request. ``path``: of a draft model of its own."""

    algorithm: str
    drafts: int
    path: str = ""


def of_sglang(arguments: Arguments) -> Speculation | None:
    """None when there is none. Raises CannotTell when the number of draft tokens is not known.

    With topk 1 the draft tokens are the steps and one (server_args.py).
    """
    algorithm = arguments.text("--speculative-algorithm", "--speculative-algo")
    if algorithm is None or algorithm.lower() == "none":
        return None
    steps = arguments.positive("--speculative-num-steps")
    drafts = arguments.positive("--speculative-num-draft-tokens")
    if steps is not None and (arguments.positive("--speculative-eagle-topk") or 1) == 1:
        drafts = steps + 1
    if drafts is None:
        raise CannotTell(
            "Without --speculative-num-draft-tokens it is the engine that chooses how many drafts there are."
        )
    path = arguments.text("--speculative-draft-model-path", "--speculative-draft-model") or ""
    return Speculation(algorithm.upper(), drafts, path)


def kv_per_token(speculation: Speculation | None, asked: Asked, model: Model, precision: str, *, cards: int) -> float:
    """Bytes of KV cache that the draft's layers keep for each token of the target's, on one card.

    The model's own speculative head has attention layers like the others'. Raises CannotTell for an unknown draft.
    """
    if speculation is None or speculation.algorithm in NO_LAYERS:
        return 0.0
    if speculation.path:
        draft = _draft(asked)
        part, layers = draft.full or draft.sliding, sum(p.layers for p in (draft.full, draft.sliding) if p is not None)
    else:
        part, layers = model.full or model.sliding, model.draft_layers or 0
        if not layers:
            raise CannotTell("config.json names no layers for speculative decoding (mtp_num_hidden_layers).")
    return _of_part(part, layers, WIDTHS[precision], cards)


def _draft(asked: Asked) -> Model:
    read = read_model(asked.draft) if asked.draft is not None else Unknown("its files were not read")
    if isinstance(read, Unknown):
        raise CannotTell(f"What the draft model needs is not known: {read.reason}")
    return read


def _of_part(part: Attention | Latent | None, layers: int, width: float, cards: int) -> float:
    if part is None:
        return 0.0
    if isinstance(part, Latent):
        return (part.rank + part.rope_dim) * width * layers
    return heads_on_card(part.kv_heads, cards) * (part.head_dim + part.v_head_dim) * width * layers
