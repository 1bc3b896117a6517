"""Figures of a benchmark in words, beside those of another one. PURE."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from deployments.benchmark.figures import Level, Spread, ratio

SAME = 0.05
"""Two runs of the same server differ by this much."""


@dataclass(frozen=True)
class Cell:
    """One figure: ``text`` with its unit, ``spread`` from least to most, ``then`` the other's, ``change`` in words."""

    label: str
    text: str
    spread: str = ""
    then: str = ""
    change: str = ""
    worse: bool = False


@dataclass(frozen=True)
class Row:
    """One level of concurrency."""

    title: str
    cells: tuple[Cell, ...]
    asked: int
    """Requests that were sent."""
    failed: int
    error: str
    beside: int | None
    """Tokens made for others meanwhile, where they count."""


@dataclass(frozen=True)
class _Metric:
    label: str
    of: Callable[[Level], float | Spread | None]
    written: Callable[[float], str]
    unit: str
    more_is_better: bool = True

    def cell(self, now: Level, then: Level | None) -> Cell:
        mine, theirs = self.of(now), self.of(then) if then is not None else None
        value, other = _middle(mine), _middle(theirs)
        if value is None:
            return Cell(self.label, "not told", then=self._told(other))
        change = ratio(value, other)
        return Cell(
            self.label,
            self._told(value),
            spread=self._spread(mine),
            then=self._told(other),
            change=_change(change),
            worse=change is not None and self._is_worse(change),
        )

    def _told(self, value: float | None) -> str:
        return "" if value is None else f"{self.written(value)}{self.unit}"

    def _spread(self, value: float | Spread | None) -> str:
        if not isinstance(value, Spread) or self.written(value.least) == self.written(value.most):
            return ""
        return f"{self.written(value.least)} to {self.written(value.most)}"

    def _is_worse(self, change: float) -> bool:
        return change < 1 - SAME if self.more_is_better else change > 1 + SAME


def _middle(value: float | Spread | None) -> float | None:
    return value.middle if isinstance(value, Spread) else value


def _change(change: float | None) -> str:
    if change is None:
        return ""
    if abs(change - 1) <= SAME:
        return "about the same"
    return f"{change:.1f} times" if change >= 2 else f"{100 * (change - 1):+.0f} %"


def _rate(value: float) -> str:
    return f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.1f}" if seconds < 0.1 else f"{seconds * 1000:,.0f}"


METRICS = (
    _Metric("Tokens per second", lambda level: level.tokens_per_second, _rate, ""),
    _Metric("Of one request", lambda level: level.each, _rate, ""),
    _Metric("First token", lambda level: level.first, _ms, " ms", more_is_better=False),
    _Metric("Between tokens", lambda level: level.between, _ms, " ms", more_is_better=False),
    _Metric("Acceptance length", lambda level: level.acceptance, lambda value: f"{value:.2f}", ""),
)


def side_by_side(now: Sequence[Level], then: Sequence[Level] = ()) -> list[Row]:
    """Each level of ``now`` beside the same one of ``then``, where that was measured. What nobody told is left out."""
    others = {level.at_once: level for level in then}
    told = [metric for metric in METRICS if any(metric.of(level) is not None for level in (*now, *then))]
    rows = []
    for level in now:
        cells = tuple(metric.cell(level, others.get(level.at_once)) for metric in told)
        beside = level.beside if level.disturbed else None
        asked = level.answered + level.failed
        rows.append(Row(str(level.at_once), cells, asked, level.failed, level.error, beside))
    return rows


def per_second(rate: float | None) -> str:
    """``79.5 tokens/s``."""
    return "not told" if rate is None else f"{_rate(rate)} tokens/s"


def in_words(levels: Sequence[Level]) -> str:
    """``1 at once: 79.5 tokens/s; 8 at once: 612 tokens/s; acceptance length 2.95``."""
    rates = [f"{level.at_once} at once: {per_second(level.tokens_per_second)}" for level in levels]
    accepted = next((level.acceptance for level in levels if level.acceptance), None)
    return "; ".join([*rates, *([f"acceptance length {accepted.middle:.2f}"] if accepted else [])])
