"""A quantity that is known only between two bounds, and what to raise when it is not known at all. PURE."""

from __future__ import annotations

from dataclasses import dataclass

GIB = 1 << 30
MIB = 1 << 20


class CannotTell(Exception):
    """The estimate stops here: a fact is missing. The text names it, for a person."""


@dataclass(frozen=True)
class Span:
    """``low`` and ``high`` are bounds; ``likely`` is what is shown. Bytes, unless the name says otherwise."""

    low: float
    likely: float
    high: float

    @classmethod
    def exactly(cls, value: float) -> Span:
        return cls(value, value, value)

    @property
    def is_exact(self) -> bool:
        return self.low == self.high

    def __add__(self, other: Span) -> Span:
        return Span(self.low + other.low, self.likely + other.likely, self.high + other.high)

    def __sub__(self, other: Span) -> Span:
        return Span(self.low - other.high, self.likely - other.likely, self.high - other.low)

    def minus_same(self, part: Span) -> Span:
        """Less a part that is large where this is large, and small where this is small."""
        return Span(self.low - part.low, self.likely - part.likely, self.high - part.high)

    def __mul__(self, factor: float) -> Span:
        """By a factor that is not negative."""
        return Span(self.low * factor, self.likely * factor, self.high * factor)

    def at_least(self, floor: float) -> Span:
        """The same, but nowhere below ``floor``."""
        return Span(max(floor, self.low), max(floor, self.likely), max(floor, self.high))


def whole(span: Span, size: float) -> Span:
    """How many things of ``size`` go into it: whole numbers, never below zero."""
    return Span(*(float(max(0, int(value // size))) for value in (span.low, span.likely, span.high)))


NOTHING = Span.exactly(0.0)
