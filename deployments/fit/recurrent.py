"""The state of linear-attention layers: bytes of one slot on one card. PURE.

SGLang 0.5.9, configs/mamba_utils.py and configs/qwen3_next.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from deployments.fit.model import LinearAttention
from deployments.fit.span import CannotTell

STATE_WIDTHS = {"float32": 4, "bfloat16": 2, "float16": 2}
CONV_WIDTH = 2
"""bf16, unless the environment of the server says otherwise."""


@dataclass(frozen=True)
class Slot:
    """Bytes on one card, over all its linear layers; the same for a short request and a long one."""

    conv: int
    ssm: int
    column: int
    """One token's part of the convolution's window."""

    @property
    def total(self) -> int:
        return self.conv + self.ssm

    def window(self, drafts: int) -> int:
        """The convolution's window of one request while ``drafts`` draft tokens are verified."""
        return self.conv + self.column * (drafts - 1)


def slot_of(linear: LinearAttention, *, cards: int, dtype: str = "", stages: int = 1) -> Slot:
    """``dtype``: of the state, where a flag says it; else the checkpoint's, else float32.

    Raises CannotTell when the heads cannot be split, or for a dtype without a known width.
    """
    kind = dtype or linear.dtype or "float32"
    if kind not in STATE_WIDTHS:
        raise CannotTell(f"The size of a state in {kind} is not known.")
    if linear.value_heads % cards:
        raise CannotTell(f"{linear.value_heads} linear attention heads cannot be split over {cards} cards.")
    groups = linear.key_heads + (cards - linear.key_heads if linear.key_heads % cards else 0)
    conv_dim = linear.value_dim * linear.value_heads + 2 * groups * linear.key_dim
    layers = -(-linear.layers // stages)
    column = conv_dim // cards * CONV_WIDTH * layers
    ssm = linear.value_heads // cards * linear.value_dim * linear.key_dim * STATE_WIDTHS[kind] * layers
    if not column * (linear.kernel - 1) + ssm > 0:
        raise CannotTell("config.json describes linear attention that keeps nothing.")
    return Slot(column * (linear.kernel - 1), ssm, column)
