"""How many bytes of KV cache one token takes on one card. PURE.

SGLang 0.5.9 and 0.5.11, model_runner_kv_cache_mixin.py and pool_configurator.py. Only attention layers count; with
more cards than KV heads each card keeps one head whole; MLA's vector is on every card of the group.
"""

from __future__ import annotations

from deployments.fit.model import Attention, Latent, Model
from deployments.fit.span import CannotTell

WIDTHS = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "fp4": 0.5 + 1 / 16}
"""Bytes of an element; fp4 with one scale for 16 of them."""
SWA_POOLS = {
    "Llama4ForConditionalGeneration", "GptOssForCausalLM", "MiMoV2FlashForCausalLM", "Step3p5ForCausalLM",
    "Gemma4ForCausalLM", "Gemma4ForConditionalGeneration",
}  # fmt: skip
"""For these SGLang has a smaller pool for sliding layers; for all others these count as full ones."""
SWA_RATIO = 0.8


def heads_on_card(kv_heads: int, cards: int) -> int:
    """KV heads that one of ``cards`` keeps: never less than one. Raises CannotTell for a split that engines refuse."""
    if max(kv_heads, cards) % min(kv_heads, cards):
        raise CannotTell(f"{kv_heads} KV heads cannot be split over {cards} cards: the engine refuses to start.")
    return max(1, kv_heads // cards)


def of_layers(part: Attention | Latent | None, *, width: float, cards: int, stages: int = 1) -> float:
    """Bytes a token on one card. ``cards``: those that share attention; ``stages``: of a pipeline, the fullest."""
    if part is None:
        return 0.0
    layers = -(-part.layers // stages)
    if isinstance(part, Latent):
        indexer = part.index_dim + part.index_dim // 128 * 4
        return ((part.rank + part.rope_dim) * width + indexer) * layers
    return heads_on_card(part.kv_heads, cards) * (part.head_dim + part.v_head_dim) * layers * width


def per_token(model: Model, precision: str, *, cards: int, stages: int = 1, swa_ratio: float = SWA_RATIO) -> float:
    """Bytes of a token on one card, in SGLang's pools. Raises CannotTell when nothing of the model is kept a token."""
    width = WIDTHS[precision]
    full = of_layers(model.full, width=width, cards=cards, stages=stages)
    sliding = of_layers(model.sliding, width=width, cards=cards, stages=stages)
    if full and model.sliding is not None and model.architecture in SWA_POOLS:
        sliding *= swa_ratio
    if not full + sliding:
        raise CannotTell("The model has no attention layer that keeps anything for each token.")
    return full + sliding
