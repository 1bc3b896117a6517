"""What an engine would make of the memory: its pools, and what must not run out. PURE."""

from __future__ import annotations

from dataclasses import dataclass, field

from deployments.fit.explain import Row
from deployments.fit.span import NOTHING, Span, whole

KV, STATE, RUNNING = "KV cache", "recurrent state", "number of running requests"
WORK, START = "memory for graphs and activations", "free memory at the start"


@dataclass(frozen=True)
class Pools:
    """On each card. All processes of one server have the same; ``replicas`` servers stand side by side."""

    precision: str
    kv: Span
    """Bytes."""
    per_token: float
    """Bytes a token; of full attention only, where sliding layers are counted apart."""
    window: int = 0
    """Tokens that the sliding layers keep, at ``per_window_token`` bytes each."""
    per_window_token: float = 0.0
    fixed: float = 0.0
    """Bytes that each request takes of the same memory, however short it is."""
    slots: Span | None = None
    """States of linear attention; None when the model has none, or they come from the KV cache's memory."""
    per_slot: int = 0
    """Bytes."""
    slots_per_request: int = 1
    running: int | None = None
    """Requests that run at once at most, of one server."""
    replicas: int = 1

    def cost(self, context: int) -> float:
        """Bytes of KV cache of one request of ``context`` tokens."""
        return self.per_token * context + self.per_window_token * min(context, self.window) + self.fixed

    def tokens(self, context: int) -> Span:
        """Tokens that go in, over all requests of ``context`` tokens; whole ones."""
        if not self.fixed and not self.window:
            return whole(self.kv, self.per_token)
        held = self.kv.at_least(0.0) * (context / self.cost(context))
        return Span(*(float(int(value)) for value in (held.low, held.likely, held.high)))

    def limits(self, context: int) -> dict[str, Span]:
        """Requests of ``context`` tokens at once, by what limits them. Of the KV cache with its fraction."""
        found = {KV: self.kv.at_least(0.0) * (1 / self.cost(context))}
        if self.slots is not None:
            found[STATE] = whole(self.slots, self.slots_per_request)
        if self.running is not None:
            found[RUNNING] = Span.exactly(self.running)
        return {name: span * self.replicas for name, span in found.items()}

    def requests(self, context: int) -> float:
        """Requests of ``context`` tokens that are served at once, over all replicas."""
        return min(span.likely for span in self.limits(context).values())

    def limiting(self, context: int) -> str:
        """The name of what limits them."""
        found = self.limits(context)
        return min(found, key=lambda name: found[name].likely)


@dataclass(frozen=True)
class Margin:
    """What must not fall below nothing: bytes on a card beyond what is needed. ``short``: what it means if it does."""

    name: str
    left: Span
    short: str


@dataclass(frozen=True)
class Outcome:
    """Of one engine with one set of flags. ``context``: tokens of the longest request that it is asked to serve."""

    pools: Pools
    margins: tuple[Margin, ...]
    context: int
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    weights: Span = field(default=NOTHING)
