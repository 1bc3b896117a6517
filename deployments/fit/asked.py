"""What an estimate is made from. PURE."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from deployments.engines.base import Engine
from deployments.fit.files import ModelFiles
from deployments.fit.span import CannotTell


@dataclass(frozen=True)
class CardMemory:
    """Bytes of one card: as it is built, and free just before the start."""

    total: int
    free: int


@dataclass(frozen=True)
class Measured:
    """Bytes on one card that earlier launches of this revision on these cards have logged. They beat formulas."""

    at_start: int | None = None
    """Free on the tightest card when its weights began to load (SGLang: ``Load weight begin. avail mem``)."""
    weights: int | None = None
    """What the weights then took."""
    kv_pool: int | None = None
    """Size of the KV cache in the end."""


@dataclass(frozen=True)
class Asked:
    """``cards``: all that the deployment has. ``version``: of the engine on the host, empty if unknown."""

    engine: Engine
    argv: tuple[str, ...]
    model: ModelFiles
    cards: tuple[CardMemory, ...]
    version: str = ""
    draft: ModelFiles | None = None
    """Of a draft model with files of its own, when they were read."""
    measured: Measured = field(default_factory=Measured)

    @property
    def total(self) -> int:
        """Bytes of the smallest card."""
        return min(card.total for card in self.cards)

    @property
    def free(self) -> int:
        """Bytes free on the fullest card: all wait for that one."""
        return min(card.free for card in self.cards)

    @property
    def release(self) -> tuple[int, ...] | None:
        """The engine's version as numbers; None when it is not known."""
        found = re.match(r"v?(\d+(?:\.\d+)*)", self.version)
        return tuple(int(part) for part in found[1].split(".")) if found else None


def check_measured(asked: Asked) -> None:
    """Raises CannotTell unless there are cards whose memory is known."""
    if not asked.cards or asked.total <= 0 or asked.free < 0:
        raise CannotTell("No card is chosen, or its memory was not measured.")


def check_cards(asked: Asked, needed: int) -> None:
    """Raises CannotTell unless there is a card for each process that the flags ask for."""
    check_measured(asked)
    if len(asked.cards) != needed:
        have = f"{len(asked.cards)} card{'s' if len(asked.cards) != 1 else ''}"
        raise CannotTell(f"The flags ask for {needed} cards, and the deployment has {have}.")
